"""Run a kept call again, as far as some captured nodes, and keep what they were given and what they made.

The call runs on copies of the model and of its inputs, from the random numbers that it began with, so that the user's
things stay as they are. Dynamo traces it again; the graph that was captured is recognised, lowered once more, and run
node by node. Graphs before it run as they are; as soon as the last wanted node has its value, everything stops.

With ``traces`` most of that is done once: see there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call, Execution
from inductor_debug_jupyter.pipeline.diff.harness import plain_model
from inductor_debug_jupyter.pipeline.diff.state import clone_inputs, random_state_kept
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, NotFoundError
from inductor_debug_jupyter.pipeline.nodes.live import LiveGraphs, is_inductors
from inductor_debug_jupyter.pipeline.nodes.matching import CapturedNode
from inductor_debug_jupyter.pipeline.nodes.stepping import ReachedError, Stepper, as_it_is, resumable
from inductor_debug_jupyter.pipeline.nodes.traces import (
    Entry,
    Question,
    Traces,
    as_called,
    in_order,
    is_training,
    kinds_of_sizes,
)
from inductor_debug_jupyter.pipeline.nodes.values import NodeValues
from inductor_debug_jupyter.pipeline.records import CompileCapture
from inductor_debug_jupyter.pipeline.torch_compat.kept_calls import as_aot_runs
from inductor_debug_jupyter.pipeline.torch_compat.replay import GraphUser, ReplayBackend
from inductor_debug_jupyter.pipeline.torch_compat.state import sizes

DECOMPOSED = (
    "computed in the graph that Inductor was given, op by op: where that has ops in the place of one of eager mode's, "
    "the last digits differ from eager mode's"
)


class Collector(Protocol):
    """Who computes wanted nodes of a graph; see :class:`Stepper` for the reference."""

    def __call__(
        self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any], wanted: Sequence[str], to_the_end: bool
    ) -> tuple[dict[str, NodeValues], Any]:
        """What the wanted nodes have, and what the graph returns if it is to be run to its end."""
        ...


def eager_mode(
    stage: str, graph_module: torch.fx.GraphModule, args: list[Any], wanted: Sequence[str], to_the_end: bool
) -> tuple[dict[str, NodeValues], Any]:
    """The reference: each op as eager mode runs it. A Dynamo graph may write anywhere, so all of it is run."""
    is_dynamo = stage == "dynamo"
    stepper = Stepper(graph_module, args, wanted)
    with torch.set_grad_enabled(is_dynamo and torch.is_grad_enabled()):
        if to_the_end:
            return stepper.found, stepper.finish()
        stepper.reach(everything=is_dynamo)
    return stepper.found, None


def resumed(stage: str, entry: Entry, wanted: Sequence[str]) -> dict[str, NodeValues]:
    """The reference, from the nearest checkpoints. The arguments stay as they are."""
    is_dynamo = stage == "dynamo"
    stepper = Stepper(entry.graph_module, entry.args, wanted, borrowed=True)
    with torch.set_grad_enabled(is_dynamo and torch.is_grad_enabled()):
        if not is_dynamo and resumable(entry.graph_module, wanted):
            stepper.resume(entry.run)
        else:
            stepper.reach(everything=is_dynamo)
    return stepper.found


@dataclass
class _Again:
    """One compile that is looked for while a call runs again, and what was found.

    Args:
        live: where its graphs go.
        wanted: the nodes, all of this compile.
        collector: who computes them; None leaves that to be done afterwards, with :attr:`stopped_at`.
    """

    live: LiveGraphs
    wanted: Sequence[CapturedNode]
    collector: Collector | None
    found: dict[tuple[str, str], NodeValues] = field(default_factory=dict)
    problem: InductorDebugError | None = None
    unlike: list[str] = field(default_factory=list)
    stopped_at: tuple[str, torch.fx.GraphModule, list[Any], dict[str, str]] | None = None
    """Stage, graph, its arguments, and the names of the wanted nodes in it → the captured ones."""
    _recognised: bool = False

    def user_of(self, graph_module: torch.fx.GraphModule) -> GraphUser:
        """Whether a Dynamo graph is the one."""
        why_not = self.live.why_not(graph_module)
        if self._recognised or why_not:
            self.unlike.append(why_not)
            return _Passing()
        self._recognised = True
        return self

    @property
    def recognised(self) -> bool:
        """Whether the compile was seen again."""
        return self._recognised

    def lowered(self, stage: str, graph_module: torch.fx.GraphModule) -> None:
        """Remember a graph of it."""
        self.live.graphs[stage] = graph_module

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run a graph of it, as far as something is wanted."""
        here = [each for each in self.wanted if each.stage == stage and (stage, each.record.name) not in self.found]
        later = {each.stage for each in self.wanted} - {stage} - {key[0] for key in self.found}
        try:
            names = self.live.names(stage, here)
            if not names and later:
                return as_it_is(graph_module, args)
            if self.collector is None and names:
                self.stopped_at = stage, graph_module, list(args), names
                raise ReachedError
            found, result = self._collect(stage, graph_module, args, names, bool(later))
        except InductorDebugError as error:
            self.problem = error
            raise ReachedError from None
        self.found |= {(stage, captured): found[live] for live, captured in names.items()}
        if not later:
            raise ReachedError
        return result

    def _collect(
        self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any], names: dict[str, str], to_the_end: bool
    ) -> tuple[dict[str, NodeValues], Any]:
        if self.collector is None or not names:
            return {}, None
        return self.collector(stage, graph_module, args, list(names), to_the_end)


class _Passing:
    """A graph of which nothing is wanted."""

    def lowered(self, stage: str, graph_module: torch.fx.GraphModule) -> None:
        """Nothing to remember."""

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run it as it is."""
        return as_it_is(graph_module, args)


@dataclass(frozen=True)
class Reexecution:
    """Runs kept calls again.

    Args:
        calls: the calls that were kept.
        gradients: what a backward starts from; see :class:`Call`.
        collector: who computes wanted nodes; the reference by default.
        afterwards: whether it can do so only when the call is over: a backend cannot compile in the middle of one. It
            is then asked for the nodes of one graph only.
        traces: what is kept from one question to the next.
    """

    calls: Sequence[ModelCall]
    gradients: Sequence[torch.Tensor] | None = None
    collector: Collector = eager_mode
    afterwards: bool = False
    traces: Traces | None = None

    def values(self, wanted: Sequence[CapturedNode]) -> dict[tuple[str, str], NodeValues]:
        """Stage and name → what each wanted node was given and made. All of them are of one compile.

        Raises:
            NotFoundError: the captured graph does not come out again, or one of its nodes does not.
            InductorDebugError: the model raised.
        """
        capture = wanted[0].capture
        found: dict[tuple[str, str], NodeValues] = {}
        for way in _ways(capture, wanted):
            left = [each for each in wanted if (each.stage, each.record.name) not in found]
            values = self._one_way(capture, left, way) if left else {}
            if way == "inductor":
                values = {key: replace(value, note=DECOMPOSED) for key, value in values.items()}
            found |= values
        return found

    def _one_way(
        self, capture: CompileCapture, wanted: Sequence[CapturedNode], way: str
    ) -> dict[tuple[str, str], NodeValues]:
        if self.traces is not None and (question := self.traces.ask(self.calls, capture, way)) is not None:
            found = self._from_trace(question, wanted)
            if found is not None:
                return found

        def backend(again: _Again) -> Callable[..., Any]:
            return ReplayBackend(way, again.user_of)

        again = run_again(
            self.calls,
            capture,
            lambda: _Again(LiveGraphs(capture, way), wanted, None if self.afterwards else self.collector),
            backend,
            self.gradients,
        )
        if again.problem is not None:
            raise again.problem
        if again.stopped_at is not None:
            stage, graph_module, args, names = again.stopped_at
            with random_state_kept():
                computed, _ = self.collector(stage, graph_module, args, list(names), False)
            return {(stage, captured): computed[live] for live, captured in names.items()}
        return again.found

    def _from_trace(
        self, question: Question, wanted: Sequence[CapturedNode]
    ) -> dict[tuple[str, str], NodeValues] | None:
        """The same without tracing; None when it must be traced after all."""
        trace = question.trace
        found: dict[tuple[str, str], NodeValues] = {}
        for stage in dict.fromkeys(each.stage for each in wanted):
            try:
                names = trace.live.names(stage, [each for each in wanted if each.stage == stage])
            except NotFoundError:  # an input, which Dynamo names after the frame that it traces; or it is told there
                return None
            if not names:
                continue
            if (entry := question.entry(stage, self.gradients)) is None:
                return None
            with as_called(trace.call, trace.training), nullcontext() if stage == "dynamo" else as_aot_runs():
                torch.set_rng_state(entry.run.random_state)
                if self.collector is eager_mode:
                    computed = resumed(stage, entry, list(names))
                else:
                    args = clone_inputs(entry.args)
                    computed, _ = self.collector(stage, entry.graph_module, args, list(names), False)
            found |= {(stage, captured): computed[live] for live, captured in names.items()}
        return found


class Watcher(Protocol):
    """What is told while a call runs again."""

    problem: InductorDebugError | None
    unlike: list[str]

    @property
    def recognised(self) -> bool:
        """Whether the compile was seen again."""
        ...


W = TypeVar("W", bound=Watcher)


def run_again(
    calls: Sequence[ModelCall],
    capture: CompileCapture,
    watcher: Callable[[], W],
    backend_of: Callable[[W], Callable[..., Any]],
    gradients: Sequence[torch.Tensor] | None = None,
) -> W:
    """Run the calls, that of the capture's name first, until the captured compile was seen again; who watched that.

    Raises:
        NotFoundError: the captured graph does not come out again.
        InductorDebugError: the model raised.
    """
    unlike: list[str] = []
    for call in in_order(calls, capture):
        for kind in kinds_of_sizes(capture):
            watching = watcher()
            with sizes(kind), random_state_kept(), call.modes.again():
                if call.random_state is not None:
                    torch.set_rng_state(call.random_state)
                execution = _execute(call, capture, backend_of(watching), gradients)
            if watching.recognised:
                if execution.error and not execution.error.startswith(ReachedError.__name__):
                    raise InductorDebugError(f"{call.name}, run again, raised {execution.error}")
                return watching
            unlike += [why for why in watching.unlike if why]
            if execution.error:
                unlike.append(f"it raised {execution.error}")
    names = ", ".join(call.name for call in calls)
    raise NotFoundError(
        f"{names}, run again, does not give the graph of compile {capture.compile_id} any more"
        + (f" ({unlike[0]})" if unlike else "")
        + "; only the first call of each model can be run again, and with the model as it is now"
    )


def _execute(
    call: ModelCall, capture: CompileCapture, backend: Callable[..., Any], gradients: Sequence[torch.Tensor] | None
) -> Execution:
    model = plain_model(call.model)
    again = Call(model, call.args, call.kwargs, backward=is_training(capture), gradients=gradients)
    return again.execute(Backend("node", backend), ComparisonConfig())


def _ways(capture: CompileCapture, wanted: Iterable[CapturedNode]) -> tuple[str, ...]:
    """How to lower: first to eager mode's own ops; then, for what is not among them, as it was captured."""
    if all(each.stage == "dynamo" for each in wanted):
        return ("dynamo",)
    return ("aot", "inductor") if is_inductors(capture) else ("aot",)
