"""Run a kept call again up to some captured nodes, and copy their inputs and outputs.

The call runs on copies of the model and of its inputs, from the generator's state at its first run, so the user's
objects do not change. Dynamo traces it again; the captured graph is recognised, lowered once more, and run node by
node. Graphs before it run unchanged; the call is stopped as soon as the last wanted node has its value.

With ``traces``, a call is traced only once for all its nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.capture.modes import CallModes, RandomState
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, NotFoundError
from inductor_debug_jupyter.pipeline.nodes.matching import CapturedNode, LiveGraphs, is_inductors
from inductor_debug_jupyter.pipeline.nodes.stepping import ReachedError, Stepper, as_it_is, resumable
from inductor_debug_jupyter.pipeline.nodes.traced_calls import (
    CallStart,
    Entry,
    TracedCall,
    TracedCalls,
    in_order,
    is_training,
    kinds_of_sizes,
)
from inductor_debug_jupyter.pipeline.nodes.values import NodeValues
from inductor_debug_jupyter.pipeline.records import CompileCapture
from inductor_debug_jupyter.pipeline.rerun.again import as_called, in_modes, plain_model
from inductor_debug_jupyter.pipeline.rerun.copies import clone_inputs
from inductor_debug_jupyter.pipeline.torch_compat.kept_traces import as_aot_runs
from inductor_debug_jupyter.pipeline.torch_compat.replay import GraphUser, ReplayBackend
from inductor_debug_jupyter.pipeline.torch_compat.state import sizes

DECOMPOSED = (
    "computed in the graph that Inductor was given, op by op: where that has ops in the place of one of eager mode's, "
    "the last digits differ from eager mode's"
)


class Collector(Protocol):
    """Computes wanted nodes of a graph; :func:`eager_mode` is the reference."""

    def __call__(
        self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any], wanted: Sequence[str], to_the_end: bool
    ) -> tuple[dict[str, NodeValues], Any]:
        """The values of the wanted nodes, and the graph's results if it runs to its end."""
        ...


def eager_mode(
    stage: str, graph_module: torch.fx.GraphModule, args: list[Any], wanted: Sequence[str], to_the_end: bool
) -> tuple[dict[str, NodeValues], Any]:
    """The reference: each op as eager mode runs it. A Dynamo graph may write anywhere, so all its nodes run."""
    is_dynamo = stage == "dynamo"
    stepper = Stepper(graph_module, args, wanted)
    with torch.set_grad_enabled(is_dynamo and torch.is_grad_enabled()):
        if to_the_end:
            return stepper.found, stepper.finish()
        stepper.reach(everything=is_dynamo)
    return stepper.found, None


def resumed(stage: str, entry: Entry, wanted: Sequence[str]) -> dict[str, NodeValues]:
    """The reference, run from the nearest checkpoints; the arguments are not changed."""
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
    """Waits for one captured compile while a call runs again, and collects the wanted nodes.

    Args:
        live: gets the compile's graphs.
        wanted: the nodes, all of this compile.
        collector: computes them; None stops the call before their graph and fills :attr:`stopped_at`.
    """

    live: LiveGraphs
    wanted: Sequence[CapturedNode]
    collector: Collector | None
    found: dict[tuple[str, str], NodeValues] = field(default_factory=dict)
    problem: InductorDebugError | None = None
    unlike: list[str] = field(default_factory=list)
    recognised: bool = False
    stopped_at: tuple[str, torch.fx.GraphModule, list[Any], dict[str, str], CallModes, RandomState] | None = None
    """Stage, graph, its arguments, the names of the wanted nodes in it → the captured names, and how it was to run."""

    @property
    def backend(self) -> Callable[..., Any]:
        """Replays the graphs of a call."""
        return ReplayBackend(self.live.way, self.user_of)

    def user_of(self, graph_module: torch.fx.GraphModule) -> GraphUser:
        """Choose who runs a Dynamo graph: this object if it is the captured one."""
        why_not = self.live.why_not(graph_module)
        if self.recognised or why_not:
            self.unlike.append(why_not)
            return _Passing()
        self.recognised = True
        return self

    def lowered(self, stage: str, graph_module: torch.fx.GraphModule) -> None:
        """Keep a graph of the compile."""
        self.live.graphs[stage] = graph_module

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run a graph of the compile as far as its nodes are wanted."""
        here = [each for each in self.wanted if each.stage == stage and (stage, each.record.name) not in self.found]
        later = {each.stage for each in self.wanted} - {stage} - {key[0] for key in self.found}
        try:
            names = self.live.names(stage, here)
            if not names and later:
                return as_it_is(graph_module, args)
            if self.collector is None and names:
                self.stopped_at = stage, graph_module, list(args), names, CallModes.now(), RandomState.now()
                raise ReachedError
            found: dict[str, NodeValues] = {}
            result: Any = None
            if self.collector is not None and names:
                found, result = self.collector(stage, graph_module, args, list(names), bool(later))
        except InductorDebugError as error:
            self.problem = error
            raise ReachedError from None
        self.found |= {(stage, captured): found[live] for live, captured in names.items()}
        if not later:
            raise ReachedError
        return result


class _Passing:
    """Runs graphs of which no node is wanted."""

    def lowered(self, stage: str, graph_module: torch.fx.GraphModule) -> None:
        """Nothing is kept."""

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run the whole graph."""
        return as_it_is(graph_module, args)


@dataclass(frozen=True)
class Reexecution:
    """Runs kept calls again.

    Args:
        calls: the calls that were kept.
        gradients: the gradients that a backward starts from; see :class:`Call`.
        collector: computes wanted nodes; the reference by default.
        afterwards: run the collector after the call, since a backend cannot compile inside one. It then gets the nodes
            of one graph only.
        traces: keeps traced calls for later nodes.
    """

    calls: Sequence[ModelCall]
    gradients: Sequence[torch.Tensor] | None = None
    collector: Collector = eager_mode
    afterwards: bool = False
    traces: TracedCalls | None = None

    def values(self, wanted: Sequence[CapturedNode]) -> dict[tuple[str, str], NodeValues]:
        """Stage and name → the values of each wanted node. All of them are of one compile.

        Raises:
            NotFoundError: tracing does not give the captured graph again, or not one of its nodes.
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
        if self.traces is not None and (start := self.traces.start(self.calls, capture, way)) is not None:
            found = self._without_tracing(start, wanted)
            if found is not None:
                return found
        collector = None if self.afterwards else self.collector
        again = run_again(
            self.calls, capture, lambda: _Again(LiveGraphs(capture, way), wanted, collector), self.gradients
        )
        if again.problem is not None:
            raise again.problem
        if again.stopped_at is not None:
            stage, graph_module, args, names, modes, random_state = again.stopped_at
            with in_modes(modes, random_state):
                computed, _ = self.collector(stage, graph_module, args, list(names), False)
            return {(stage, captured): computed[live] for live, captured in names.items()}
        return again.found

    def _without_tracing(
        self, start: CallStart, wanted: Sequence[CapturedNode]
    ) -> dict[tuple[str, str], NodeValues] | None:
        """The values of the wanted nodes from a call that was traced before; None when it must be traced anew."""
        found: dict[tuple[str, str], NodeValues] = {}
        for stage in dict.fromkeys(each.stage for each in wanted):
            try:
                names = start.traced.live.names(stage, [each for each in wanted if each.stage == stage])
            except NotFoundError:  # an input, which Dynamo names after the frame; a new trace raises all other cases
                return None
            if not names:
                continue
            if (entry := start.entry(stage, self.gradients)) is None:
                return None
            computed = self._computed(start.traced, stage, entry, list(names))
            found |= {(stage, captured): computed[live] for live, captured in names.items()}
        return found

    def _computed(self, traced: TracedCall, stage: str, entry: Entry, names: list[str]) -> dict[str, NodeValues]:
        with as_called(traced.call), nullcontext() if stage == "dynamo" else as_aot_runs():
            torch.set_rng_state(entry.run.random_state)
            if self.collector is eager_mode:
                return resumed(stage, entry, names)
            return self.collector(stage, entry.graph_module, clone_inputs(entry.args), names, False)[0]


class Watcher(Protocol):
    """A backend, whether it was given the captured compile, and why other graphs are not it."""

    unlike: list[str]
    recognised: bool

    @property
    def backend(self) -> Callable[..., Any]:
        """What compiles the call."""
        ...


W = TypeVar("W", bound=Watcher)


def run_again(
    calls: Sequence[ModelCall],
    capture: CompileCapture,
    watcher: Callable[[], W],
    gradients: Sequence[torch.Tensor] | None,
) -> W:
    """Run the calls, that of the capture's name first, until the captured compile is recognised; returns its watcher.

    Raises:
        NotFoundError: no call gives the captured graph again.
        InductorDebugError: the model raised.
    """
    unlike: list[str] = []
    for call, kind in itertools.product(in_order(calls, capture), kinds_of_sizes(capture)):
        watching = watcher()
        with as_called(call), sizes(kind):
            again = Call(
                plain_model(call.model), call.args, call.kwargs, backward=is_training(capture), gradients=gradients
            )
            error = again.execute(Backend("node", watching.backend), ComparisonConfig()).error
        if not watching.recognised:
            unlike += filter(None, [*watching.unlike, error and f"it raised {error}"])
            continue
        if error and not error.startswith(ReachedError.__name__):
            raise InductorDebugError(f"{call.name}, run again, raised {error}")
        return watching
    names = ", ".join(call.name for call in calls)
    raise NotFoundError(
        f"{names}, run again, does not give the graph of compile {capture.compile_id} any more"
        + (f" ({unlike[0]})" if unlike else "")
        + "; only the first call of each model can be run again, and with the model as it is now"
    )


def _ways(capture: CompileCapture, wanted: Iterable[CapturedNode]) -> tuple[str, ...]:
    """How to lower: first to eager mode's own ops; then, for nodes that are not among them, as Inductor does."""
    if all(each.stage == "dynamo" for each in wanted):
        return ("dynamo",)
    return ("aot", "inductor") if is_inductors(capture) else ("aot",)
