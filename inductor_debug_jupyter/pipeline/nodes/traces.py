"""What a call was traced to, kept from one question to the next.

The first question about a compile has Dynamo trace the call, in one graph, and lowers it; a :class:`Trace` is that. The
next one calls the traced function again: Dynamo checks its own guards for the model as it is now, and the graph is
given its arguments, the user's own tensors. Before anything runs the call is stopped. So a question costs neither
tracing nor a copy of the model, and what the guards hold for (attributes, globals, shapes) is as it was.

Tensors may have other contents all the same. Each question takes a checksum of every argument: if one differs, what
was kept of the graph's run (see ``checkpoints``) is dropped. A write through ``.data``, which torch does not count, is
noticed too.

A backward begins from what the forward saved. For that the call runs once to its backward, on a copy of the model;
what was saved is kept as any other checkpoint, except for what are arguments of the forward: these are looked up again.

Not kept, but traced anew by each question, are calls that are not one graph (between two graphs any Python may run),
those with symbolic sizes (which sizes are open depends on calls before), and arguments that are not plain tensors.
What a candidate computes is never kept: whoever writes a backend changes it between two questions.
"""

from __future__ import annotations

import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call
from inductor_debug_jupyter.pipeline.diff.harness import plain_model
from inductor_debug_jupyter.pipeline.diff.state import clone_inputs, random_state_kept
from inductor_debug_jupyter.pipeline.nodes.checkpoints import BUDGET, Checkpoints, GraphRun
from inductor_debug_jupyter.pipeline.nodes.contents import contents_of
from inductor_debug_jupyter.pipeline.nodes.live import LiveGraphs
from inductor_debug_jupyter.pipeline.nodes.stepping import ReachedError, as_it_is
from inductor_debug_jupyter.pipeline.records import CompileCapture
from inductor_debug_jupyter.pipeline.torch_compat.graphs import mutated_inputs, storage_of
from inductor_debug_jupyter.pipeline.torch_compat.kept_calls import KeptCall
from inductor_debug_jupyter.pipeline.torch_compat.replay import GraphUser, ReplayBackend
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed, sizes

log = logging.getLogger("inductor_debug_jupyter")

MOST_TRACES: Final = 8
"""So many are kept for a session: one for each compile, and for each way to lower it, that was asked about."""

Runner = Callable[[str, torch.fx.GraphModule, list[Any]], Any]
"""Runs a graph: stage, graph, arguments."""


class _ChangedError(Exception):
    """Dynamo's guards do not hold any more: it would trace again."""


@dataclass(frozen=True, eq=False)
class Entry:
    """Where a graph begins: its arguments, which are not ours, and what is kept of its run."""

    graph_module: torch.fx.GraphModule
    args: list[Any]
    run: GraphRun


@dataclass(frozen=True)
class _Borrowed:
    """An argument of the backward that is in the memory of one of the forward's."""

    argument: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    """In that memory, counted from where the forward's argument begins."""

    def of(self, args: Sequence[Any]) -> torch.Tensor:
        """The same of these arguments of the forward."""
        whole = args[self.argument].detach()
        return torch.as_strided(whole, self.shape, self.stride, whole.storage_offset() + self.offset)


@dataclass(frozen=True, eq=False)
class _Saved:
    """The backward's arguments: borrowed ones, and for others None; those are kept as :data:`_SAVED` of the run."""

    gradients: tuple[Any, ...] | None
    borrowed: list[_Borrowed | None]
    run: GraphRun

    def args(self, forward_args: Sequence[Any]) -> list[Any] | None:
        """The arguments; None when some were let go of."""
        kept = self.run.places.get(_SAVED)
        if kept is None:
            return None
        return [kept[str(at)] if each is None else each.of(forward_args) for at, each in enumerate(self.borrowed)]


_SAVED = "saved"


class Trace:
    """One call of a model, traced and lowered.

    Args:
        call: the call.
        live: where its graphs go.
        checkpoints: where what is kept of their runs goes.
    """

    def __init__(self, call: ModelCall, live: LiveGraphs, checkpoints: Checkpoints) -> None:
        self.call = call
        self.live = live
        self._checkpoints = checkpoints
        self._kept_call = KeptCall(ReplayBackend(live.way, _Relay(self).user_of))
        self._runner: Runner | None = None
        self._contents: tuple[Any, ...] | None = None
        self._runs: dict[str, GraphRun] = {}
        self._saved: _Saved | None = None

    @property
    def training(self) -> bool:
        """Whether a backward was captured."""
        return is_training(self.live.capture)

    # While the call runs ----------------------------------------------------------------------------------------

    def recognise(self, graph_module: torch.fx.GraphModule) -> None:
        """There is a Dynamo graph; an exception ends the call."""
        if self.live.graphs or self.live.why_not(graph_module):
            raise _ChangedError

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """A graph of it is called."""
        assert self._runner is not None
        return self._runner(stage, graph_module, args)

    @contextmanager
    def _running(self, runner: Runner) -> Iterator[None]:
        self._runner = runner
        try:
            with ExitStack() as stack:
                stack.enter_context(sizes("fixed"))
                stack.enter_context(caches_bypassed())
                stack.enter_context(as_called(self.call, self.training))
                yield
        finally:
            self._runner = None

    # Questions --------------------------------------------------------------------------------------------------

    def ask(self) -> Question | None:
        """Where its first graph begins for the model as it is now; None when the call does not lead there any more."""
        noted: list[Question] = []

        def note(stage: str, _: torch.fx.GraphModule, args: list[Any]) -> Any:
            noted.append(Question(self, stage, list(args), torch.get_rng_state()))
            raise ReachedError

        model = plain_model(self.call.model)
        try:
            with self._running(note), self._kept_call.calling(model) as called:
                args, kwargs = clone_inputs((self.call.args, dict(self.call.kwargs)))
                called(*args, **kwargs)
        except Exception as error:  # whatever the model or the compiler raises; the ordinary way tells it
            if not noted:
                log.debug("%s is not kept: %s", self.call.name, error)
        return noted[0] if noted else None

    def check(self, contents: tuple[Any, ...]) -> None:
        """Let go of what was computed from other contents of the arguments."""
        if contents != self._contents:
            self.end()
            self._contents = contents

    def run_of(self, stage: str, random_state: torch.Tensor) -> GraphRun:
        """What is kept of a graph's run."""
        return self._runs.setdefault(stage, GraphRun(self._checkpoints, random_state))

    def backward(self, forward_args: list[Any], gradients: Sequence[torch.Tensor] | None) -> Entry | None:
        """Where the backward begins; None when the call did not get there."""
        given = None if gradients is None else contents_of(gradients)
        if gradients is not None and given is None:
            return None
        saved = self._saved
        if saved is not None and saved.gradients == given and (args := saved.args(forward_args)) is not None:
            saved.run.used(["0"])
            return Entry(self.live.graphs["backward"], args, saved.run)
        if saved is not None:
            saved.run.end()
            self._saved = None
        noted = self._run_to_backward(gradients)
        if noted is None:
            return None
        theirs, args, state = noted
        run = GraphRun(self._checkpoints, state)
        borrowed = _borrowed(args, theirs, self.live.graphs["forward"])
        if run.keep(_SAVED, {str(at): args[at] for at, each in enumerate(borrowed) if each is None}):
            self._saved = _Saved(given, borrowed, run)
        return Entry(self.live.graphs["backward"], args, run)

    def _run_to_backward(
        self, gradients: Sequence[torch.Tensor] | None
    ) -> tuple[list[Any], list[Any], torch.Tensor] | None:
        """The forward's arguments, the backward's and the generator's state there, of a run on copies."""
        forward: list[Any] = []
        noted: list[tuple[list[Any], list[Any], torch.Tensor]] = []

        def run(stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
            if stage == "backward":
                noted.append((forward, list(args), torch.get_rng_state()))
                raise ReachedError
            forward[:] = args
            return as_it_is(graph_module, args)

        with self._running(run):
            call = Call(
                plain_model(self.call.model), self.call.args, self.call.kwargs, backward=True, gradients=gradients,
                through=self._kept_call.calling,
            )  # fmt: skip
            call.execute(Backend("node"), ComparisonConfig())
        return noted[0] if noted else None

    def end(self) -> None:
        """Let go of everything that was computed."""
        for run in self._runs.values():
            run.end()
        self._runs.clear()
        if self._saved is not None:
            self._saved.run.end()
        self._saved = None
        self._contents = None


@dataclass(frozen=True, eq=False)
class Question:
    """A trace and where its first graph begins just now; not to be kept, since the arguments are the user's."""

    trace: Trace
    stage: str
    args: list[Any]
    random_state: torch.Tensor

    def entry(self, stage: str, gradients: Sequence[torch.Tensor] | None) -> Entry | None:
        """Where a graph begins; None when that cannot be told in this way."""
        graph_module, contents = self.trace.live.graphs.get(stage), contents_of(self.args)
        if graph_module is None or contents is None:
            return None
        if stage == "dynamo" and graph_module.graph.find_nodes(op="get_attr"):
            return None  # it may write into what it holds
        self.trace.check(contents)
        if stage == "backward":
            return self.trace.backward(self.args, gradients)
        return Entry(graph_module, list(self.args), self.trace.run_of(stage, self.random_state))


class _Relay:
    """Stands between torch, which keeps what a backend gives it, and a trace, which must be free to go."""

    def __init__(self, trace: Trace) -> None:
        self._held = weakref.ref(trace)

    @property
    def _trace(self) -> Trace:
        trace = self._held()
        assert trace is not None, "only a trace calls what it compiled"
        return trace

    def user_of(self, graph_module: torch.fx.GraphModule) -> GraphUser:
        """Be asked who runs a graph."""
        self._trace.recognise(graph_module)
        return self

    def lowered(self, stage: str, graph_module: torch.fx.GraphModule) -> None:
        """Pass a graph on."""
        self._trace.live.graphs[stage] = graph_module

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Pass a call on."""
        return self._trace.run(stage, graph_module, args)


class Traces:
    """What is kept for the questions of one session.

    Args:
        budget: bytes of checkpoints.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self.checkpoints = Checkpoints(budget)
        self._traces: OrderedDict[tuple[int, str, str], tuple[ModelCall, Trace | None]] = OrderedDict()
        """By call, compile and way; None where the call cannot be kept."""

    def ask(self, calls: Sequence[ModelCall], capture: CompileCapture, way: str) -> Question | None:
        """Where the captured compile begins; None when it is to be traced anew by each question."""
        self._forget_all_but(calls)
        if kinds_of_sizes(capture) != ("fixed",):
            return None
        for call in in_order(calls, capture):
            key = id(call), capture.compile_id, way
            if key in self._traces:
                trace = self._traces[key][1]
                if trace is None:
                    continue
                self._traces.move_to_end(key)
                if question := trace.ask():
                    return question
                trace.end()
            trace = Trace(call, LiveGraphs(capture, way), self.checkpoints)
            question = trace.ask()
            self._traces[key] = call, trace if question else None
            if question:
                self._limit()
                return question
        return None

    def _forget_all_but(self, calls: Sequence[ModelCall]) -> None:
        for key, (call, trace) in list(self._traces.items()):
            if not any(call is each for each in calls):
                self._forget(key, trace)

    def _limit(self) -> None:
        kept = [(key, trace) for key, (_, trace) in self._traces.items() if trace is not None]
        for key, trace in kept[:-MOST_TRACES]:
            self._forget(key, trace)

    def _forget(self, key: tuple[int, str, str], trace: Trace | None) -> None:
        if trace is not None:
            trace.end()
        del self._traces[key]


def _borrowed(
    args: Sequence[Any], forward_args: Sequence[Any], forward: torch.fx.GraphModule
) -> list[_Borrowed | None]:
    """Which of the backward's arguments are in the memory of the forward's."""
    written = {name for node in forward.graph.nodes for name in mutated_inputs(node)}
    placeholders = forward.graph.find_nodes(op="placeholder")
    homes = {
        storage_of(arg)[0]: at
        for at, (arg, node) in enumerate(zip(forward_args, placeholders, strict=True))
        if isinstance(arg, torch.Tensor) and node.name not in written
    }
    found: list[_Borrowed | None] = []
    for arg in args:
        home = homes.get(storage_of(arg)[0]) if isinstance(arg, torch.Tensor) else None
        if home is None or arg.dtype != forward_args[home].dtype or arg.is_conj() or arg.is_neg():
            found.append(None)
            continue
        offset = arg.storage_offset() - forward_args[home].storage_offset()
        found.append(_Borrowed(home, tuple(arg.shape), tuple(arg.stride()), offset))
    return found


# How a call is run again -------------------------------------------------------------------------------------------


@contextmanager
def as_called(call: ModelCall, training: bool) -> Iterator[None]:
    """The state of torch that a call runs in; the user's random numbers are as before afterwards."""
    with random_state_kept(), torch.inference_mode(False), torch.set_grad_enabled(training), call.modes.again():
        if call.random_state is not None:
            torch.set_rng_state(call.random_state)
        yield


def is_training(capture: CompileCapture) -> bool:
    """Whether a compile has a backward."""
    return not {"joint", "backward"}.isdisjoint(capture.graphs)


def in_order(calls: Sequence[ModelCall], capture: CompileCapture) -> list[ModelCall]:
    """The calls, that of the capture's name first."""
    return sorted(calls, key=lambda each: each.name != capture.name)


def kinds_of_sizes(capture: CompileCapture) -> tuple[str, ...]:
    """Which sizes to leave open so that a compile comes out again: one after the other is tried."""
    symbolic = any(graph.symbols for graph in capture.graphs.values())
    return ("usual", "open") if symbolic else ("fixed",)
