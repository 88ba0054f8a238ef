"""Traced calls, kept from one node to the next.

The first node of a compile has Dynamo trace its call as one graph and lower it: a :class:`TracedCall`. For the next
node the traced function is called again: Dynamo checks its own guards against the model as it is now (attributes,
globals, shapes), the graph receives its arguments, which are the user's own tensors, and the call is stopped before
the graph runs. So the next node needs neither a trace nor a copy of the model.

The guards do not check the contents of tensors. So every argument gets a checksum, and if one differs, the checkpoints
of the graph's run are dropped. A checksum also notices a write through ``.data``, which torch does not count.

A backward begins from what the forward saved. To get that, the call runs once to its backward, on a copy of the model;
the saved values are kept like a checkpoint, except arguments of the forward, which are looked up again.

Not kept, but traced anew for each node, are calls of several graphs (any Python may run between two graphs), calls with
symbolic sizes (earlier calls decide which sizes are open), and calls with arguments that are not plain tensors. Values
that a candidate computes are never kept: a backend under development changes between two uses.
"""

from __future__ import annotations

import logging
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call
from inductor_debug_jupyter.pipeline.nodes.checkpoints import Checkpoints, GraphRun
from inductor_debug_jupyter.pipeline.nodes.matching import LiveGraphs, why_not_same
from inductor_debug_jupyter.pipeline.nodes.stepping import ReachedError, as_it_is
from inductor_debug_jupyter.pipeline.records import CompileCapture
from inductor_debug_jupyter.pipeline.rerun.again import as_called, plain_model
from inductor_debug_jupyter.pipeline.rerun.copies import clone_inputs
from inductor_debug_jupyter.pipeline.torch_compat.graphs import mutated_inputs, storage_of
from inductor_debug_jupyter.pipeline.torch_compat.replay import GraphUser, KeptCall, ReplayBackend
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed, sizes

_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
_THREADS: Final = 4


def contents_of(values: Iterable[Any]) -> tuple[Any, ...] | None:
    """A fingerprint: equal for equal contents, and hardly ever for others; None for tensors that are not plain."""
    with ThreadPoolExecutor(_THREADS) as pool:  # a checksum does not hold Python's lock
        prints = list(pool.map(_fingerprint, values))
    return None if None in prints else tuple(prints)


def _fingerprint(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor):
        return repr(tensor)
    if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        return None
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    buffer: Any = plain.reshape(-1).view(torch.uint8).numpy()
    checksum = zlib.crc32(buffer)
    written = None if tensor.is_inference() else tensor._version
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), written, checksum


log = logging.getLogger("inductor_debug_jupyter")

MOST_TRACES: Final = 8
"""The most traced calls of a session: one for each compile and each way to lower it."""

Runner = Callable[[str, torch.fx.GraphModule, list[Any]], Any]
"""Runs a graph: stage, graph, arguments."""


class _ChangedError(Exception):
    """Dynamo's guards do not hold any more, so it traces again."""


@dataclass(frozen=True, eq=False)
class Entry:
    """The beginning of a graph: its arguments, which are the user's, and the kept values of its run."""

    graph_module: torch.fx.GraphModule
    args: list[Any]
    run: GraphRun


@dataclass(frozen=True)
class _Borrowed:
    """An argument of the backward that shares memory with an argument of the forward."""

    argument: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    """Elements from the beginning of the forward's argument."""

    def of(self, args: Sequence[Any]) -> torch.Tensor:
        """The backward's argument, from these arguments of the forward."""
        whole = args[self.argument].detach()
        return torch.as_strided(whole, self.shape, self.stride, whole.storage_offset() + self.offset)


_SAVED = "saved"


class TracedCall:
    """One call of a model, traced and lowered.

    Args:
        call: the call.
        live: gets its graphs.
        checkpoints: keep values of their runs.
    """

    def __init__(self, call: ModelCall, live: LiveGraphs, checkpoints: Checkpoints) -> None:
        self.call = call
        self.live = live
        self._checkpoints = checkpoints
        self._kept_call = KeptCall(ReplayBackend(live.way, _Relay(self).user_of))
        self.runner: Runner | None = None
        """Runs the graphs of the call while it is called."""
        self._contents: tuple[Any, ...] | None = None
        self._runs: dict[str, GraphRun] = {}
        self._saved: tuple[tuple[Any, ...] | None, list[_Borrowed | None], GraphRun] | None = None
        """Gradients and arguments of a backward: borrowed ones, None for those that the run keeps as ``_SAVED``."""

    @contextmanager
    def _running(self, runner: Runner) -> Iterator[None]:
        self.runner = runner
        try:
            with as_called(self.call), sizes("fixed"), caches_bypassed():
                yield
        finally:
            self.runner = None

    def start(self) -> tuple[list[Any], torch.Tensor] | None:
        """The arguments of its first graph for the model as it is now, and the generator's state.

        None when the call does not get there. The arguments are the user's own and not to be kept.
        """
        noted: list[tuple[list[Any], torch.Tensor]] = []

        def note(_: str, __: torch.fx.GraphModule, args: list[Any]) -> Any:
            noted.append((list(args), torch.get_rng_state()))
            raise ReachedError

        model = plain_model(self.call.model)
        try:
            with self._running(note), self._kept_call.calling(model) as called:
                args, kwargs = clone_inputs((self.call.args, dict(self.call.kwargs)))
                called(*args, **kwargs)
        except Exception as error:  # whatever the model or the compiler raises; tracing anew raises it, too
            if not noted:
                log.debug("%s is not kept: %s", self.call.name, error)
        return noted[0] if noted else None

    def entry(
        self, stage: str, args: list[Any], random_state: torch.Tensor, gradients: Sequence[torch.Tensor] | None
    ) -> Entry | None:
        """The beginning of a graph, from what :meth:`start` gave; None when the call has to be traced anew for it."""
        graph_module, contents = self.live.graphs.get(stage), contents_of(args)
        if graph_module is None or contents is None:
            return None
        if stage == "dynamo" and graph_module.graph.find_nodes(op="get_attr"):
            return None  # it may write into its constants
        if contents != self._contents:
            self.end()
            self._contents = contents
        if stage == "backward":
            return self._backward(args, gradients)
        run = self._runs.setdefault(stage, GraphRun(self._checkpoints, random_state))
        return Entry(graph_module, list(args), run)

    def _backward(self, forward_args: list[Any], gradients: Sequence[torch.Tensor] | None) -> Entry | None:
        """The beginning of the backward; None when the call did not get there."""
        given = None if gradients is None else contents_of(gradients)
        if gradients is not None and given is None:
            return None
        if (entry := self._saved_backward(forward_args, given)) is not None:
            return entry
        noted = self._run_to_backward(gradients)
        if noted is None:
            return None
        theirs, args, state = noted
        run = GraphRun(self._checkpoints, state)
        borrowed = _borrowed(args, theirs, self.live.graphs["forward"])
        if run.keep(_SAVED, {str(at): args[at] for at, each in enumerate(borrowed) if each is None}):
            self._saved = (given, borrowed, run)
        return Entry(self.live.graphs["backward"], args, run)

    def _saved_backward(self, forward_args: list[Any], given: tuple[Any, ...] | None) -> Entry | None:
        """The beginning of the backward that was kept; None, and it is freed, when it was for other gradients."""
        if self._saved is None:
            return None
        before, borrowed, run = self._saved
        if before == given and (kept := run.places.get(_SAVED)) is not None:
            run.used(["0"])
            args = [kept[str(at)] if each is None else each.of(forward_args) for at, each in enumerate(borrowed)]
            return Entry(self.live.graphs["backward"], args, run)
        run.end()
        self._saved = None
        return None

    def _run_to_backward(
        self, gradients: Sequence[torch.Tensor] | None
    ) -> tuple[list[Any], list[Any], torch.Tensor] | None:
        """Run on copies; returns the forward's arguments, the backward's and the generator's state between them."""
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
        """Free all kept values."""
        for run in self._runs.values():
            run.end()
        self._runs.clear()
        if self._saved is not None:
            self._saved[2].end()
        self._saved = None
        self._contents = None


class _Relay:
    """Refers weakly to a traced call: torch keeps what a backend returns, and the traced call has to be freed."""

    def __init__(self, traced: TracedCall) -> None:
        self._held = weakref.ref(traced)

    @property
    def _traced(self) -> TracedCall:
        traced = self._held()
        assert traced is not None, "only a traced call runs what it compiled"
        return traced

    def user_of(self, graph_module: torch.fx.GraphModule) -> GraphUser:
        """Check that a Dynamo graph is the first and the captured one; an exception ends the call."""
        live = self._traced.live
        if live.graphs or why_not_same(live.capture, graph_module):
            raise _ChangedError
        return self

    def lowered(self, stage: str, graph_module: torch.fx.GraphModule) -> None:
        """Keep a graph."""
        self._traced.live.graphs[stage] = graph_module

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run a graph with the runner that is in force."""
        runner = self._traced.runner
        assert runner is not None, "only a traced call runs what it compiled"
        return runner(stage, graph_module, args)


class TracedCalls:
    """The traced calls of one session."""

    def __init__(self) -> None:
        self.checkpoints = Checkpoints()
        self._traced: OrderedDict[tuple[int, str, str], tuple[ModelCall, TracedCall | None]] = OrderedDict()
        """By call, compile and way; None where the call cannot be kept."""

    def start(
        self, calls: Sequence[ModelCall], capture: CompileCapture, way: str
    ) -> tuple[TracedCall, list[Any], torch.Tensor] | None:
        """The captured compile's call, at :meth:`TracedCall.start`; None when it has to be traced for each node."""
        self._forget_all_but(calls)
        if kinds_of_sizes(capture) != ("fixed",):
            return None
        for call in in_order(calls, capture):
            key = id(call), capture.compile_id, way
            if key in self._traced:
                traced = self._traced[key][1]
                if traced is None:
                    continue
                self._traced.move_to_end(key)
                if start := traced.start():
                    return traced, *start
                traced.end()
            traced = TracedCall(call, LiveGraphs(capture, way), self.checkpoints)
            start = traced.start()
            self._traced[key] = call, traced if start else None
            if start:
                self._limit()
                return traced, *start
        return None

    def _forget_all_but(self, calls: Sequence[ModelCall]) -> None:
        for key, (call, traced) in list(self._traced.items()):
            if not any(call is each for each in calls):
                self._forget(key, traced)

    def _limit(self) -> None:
        kept = [(key, traced) for key, (_, traced) in self._traced.items() if traced is not None]
        for key, traced in kept[:-MOST_TRACES]:
            self._forget(key, traced)

    def _forget(self, key: tuple[int, str, str], traced: TracedCall | None) -> None:
        if traced is not None:
            traced.end()
        del self._traced[key]


def _borrowed(
    args: Sequence[Any], forward_args: Sequence[Any], forward: torch.fx.GraphModule
) -> list[_Borrowed | None]:
    """Which of the backward's arguments share memory with an argument of the forward that is not written."""
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


def in_order(calls: Sequence[ModelCall], capture: CompileCapture) -> list[ModelCall]:
    """The calls, that of the capture's name first."""
    return sorted(calls, key=lambda each: each.name != capture.name)


def kinds_of_sizes(capture: CompileCapture) -> tuple[str, ...]:
    """Which sizes to leave open when a call is traced again, in the order in which they are tried."""
    symbolic = any(graph.symbols for graph in capture.graphs.values())
    return ("usual", "open") if symbolic else ("fixed",)
