"""Run a kept call again, as far as some captured nodes, and keep what they were given and what they made.

The call runs on copies of the model and of its inputs, from the random numbers that it began with, so that the user's
things stay as they are. Dynamo traces it again; the graph that was captured is recognised, lowered once more, and run
node by node. Graphs before it run as they are; as soon as the last wanted node has its value, everything stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call, Execution
from inductor_debug_jupyter.pipeline.diff.harness import plain_model
from inductor_debug_jupyter.pipeline.diff.state import random_state_kept
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, NotFoundError
from inductor_debug_jupyter.pipeline.nodes.matching import CapturedNode, by_name, by_op, same_dynamo_graph
from inductor_debug_jupyter.pipeline.nodes.stepping import Stepper
from inductor_debug_jupyter.pipeline.nodes.values import NodeValues
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord
from inductor_debug_jupyter.pipeline.torch_compat.graphs import origins_by_sequence
from inductor_debug_jupyter.pipeline.torch_compat.replay import GraphUser, ReplayBackend
from inductor_debug_jupyter.pipeline.torch_compat.state import sizes

DECOMPOSED = (
    "computed in the graph that Inductor was given, op by op: where that has ops in the place of one of eager mode's, "
    "the last digits differ from eager mode's"
)


class ReachedError(Exception):
    """Everything that was wanted is known: nothing after it needs to run."""


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


@dataclass
class _Again:
    """One compile that is looked for while a call runs again, and what was found.

    Args:
        capture: the compile that was captured.
        wanted: the nodes, all of this compile.
        way: how graphs are lowered; see :data:`WAYS`.
        collector: who computes them; None leaves that to be done afterwards, with :attr:`stopped_at`.
    """

    capture: CompileCapture
    wanted: Sequence[CapturedNode]
    way: str
    collector: Collector | None
    found: dict[tuple[str, str], NodeValues] = field(default_factory=dict)
    problem: InductorDebugError | None = None
    unlike: list[str] = field(default_factory=list)
    stopped_at: tuple[str, torch.fx.GraphModule, list[Any], dict[str, str]] | None = None
    """Stage, graph, its arguments, and the names of the wanted nodes in it → the captured ones."""
    _graphs: dict[str, torch.fx.GraphModule] = field(default_factory=dict)
    _recognised: bool = False

    def user_of(self, graph_module: torch.fx.GraphModule) -> GraphUser:
        """Whether a Dynamo graph is the one."""
        why_not = same_dynamo_graph(self.capture, graph_record("dynamo", graph_module))
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
        self._graphs[stage] = graph_module

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run a graph of it, as far as something is wanted."""
        here = [each for each in self.wanted if each.stage == stage and (stage, each.record.name) not in self.found]
        later = {each.stage for each in self.wanted} - {stage} - {key[0] for key in self.found}
        try:
            names = self._names(stage, here)
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

    def _names(self, stage: str, here: Sequence[CapturedNode]) -> dict[str, str]:
        """Name in the graph that was made again → the captured one; without those that cannot be told for certain."""
        if not here:
            return {}
        again = self._record(stage)
        if self.way == "aot" and is_inductors(self.capture):
            pairs = {by_op(each.record, each.graph, again): each.record.name for each in here}
            return {live: captured for live, captured in pairs.items() if live}
        return {by_name(each.record, again): each.record.name for each in here}

    def _record(self, stage: str) -> GraphRecord:
        origins: dict[int, tuple[str, ...]] = {}
        for graph_module in self._graphs.values():
            for number, names in origins_by_sequence(graph_module).items():
                origins.setdefault(number, names)
        return graph_record(stage, self._graphs[stage], origins=origins)


class _Passing:
    """A graph of which nothing is wanted."""

    def lowered(self, stage: str, graph_module: torch.fx.GraphModule) -> None:
        """Nothing to remember."""

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run it as it is."""
        return as_it_is(graph_module, args)


def as_it_is(graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
    """Run a whole graph; arguments are let go of after their last use."""
    return torch.fx.Interpreter(graph_module).boxed_run(args)


def is_inductors(capture: CompileCapture) -> bool:
    """Whether a compile went through Inductor, which has AOTAutograd trace with its own decompositions."""
    return bool(capture.kernels) or not {"post_grad", "ir_pre_fusion", "code"}.isdisjoint(capture.stages)


@dataclass(frozen=True)
class Reexecution:
    """Runs kept calls again.

    Args:
        calls: the calls that were kept.
        gradients: what a backward starts from; see :class:`Call`.
        collector: who computes wanted nodes; the reference by default.
        afterwards: whether it can do so only when the call is over: a backend cannot compile in the middle of one. It
            is then asked for the nodes of one graph only.
    """

    calls: Sequence[ModelCall]
    gradients: Sequence[torch.Tensor] | None = None
    collector: Collector = eager_mode
    afterwards: bool = False

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
        def backend(again: _Again) -> Callable[..., Any]:
            return ReplayBackend(way, again.user_of)

        again = run_again(
            self.calls,
            capture,
            lambda: _Again(capture, wanted, way, None if self.afterwards else self.collector),
            backend,
            self.gradients,
        )
        if again.problem is not None:
            raise again.problem
        if again.stopped_at is not None:
            stage, graph_module, args, names = again.stopped_at
            with random_state_kept():
                found, _ = self.collector(stage, graph_module, args, list(names), False)
            return {(stage, captured): found[live] for live, captured in names.items()}
        return again.found


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
    for call in sorted(calls, key=lambda each: each.name != capture.name):
        for kind in _sizes(capture):
            watching = watcher()
            with sizes(kind), random_state_kept():
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
    training = not {"joint", "backward"}.isdisjoint(capture.graphs)
    again = Call(plain_model(call.model), call.args, call.kwargs, backward=training, gradients=gradients)
    return again.execute(Backend("node", backend), ComparisonConfig())


def _sizes(capture: CompileCapture) -> tuple[str, ...]:
    symbolic = any(graph.symbols for graph in capture.graphs.values())
    return ("usual", "open") if symbolic else ("fixed",)


def _ways(capture: CompileCapture, wanted: Iterable[CapturedNode]) -> tuple[str, ...]:
    """How to lower: first to eager mode's own ops; then, for what is not among them, as it was captured."""
    if all(each.stage == "dynamo" for each in wanted):
        return ("dynamo",)
    return ("aot", "inductor") if is_inductors(capture) else ("aot",)
