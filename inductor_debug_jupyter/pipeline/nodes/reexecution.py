"""Run a kept call again up to a captured node, and copy its inputs and outputs.

The call runs on copies of the model and of its inputs, from the generator's state at its first run, so the user's
objects do not change. Dynamo traces it again; the captured graph is recognised, lowered once more, and run node by
node. Graphs before it run unchanged; the call is stopped as soon as the node has its value.

With ``traces``, a call is traced only once for all its nodes.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from inductor_debug_jupyter.pipeline.capture.calls import CallModes, ModelCall, RandomState
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, NotFoundError
from inductor_debug_jupyter.pipeline.nodes.checkpoints import GraphRun
from inductor_debug_jupyter.pipeline.nodes.matching import CapturedNode, LiveGraphs, is_inductors, why_not_same
from inductor_debug_jupyter.pipeline.nodes.stepping import ReachedError, Stepper, as_it_is, resumable
from inductor_debug_jupyter.pipeline.nodes.traced_calls import (
    Entry,
    TracedCall,
    TracedCalls,
    in_order,
    kinds_of_sizes,
)
from inductor_debug_jupyter.pipeline.nodes.values import NodeValues
from inductor_debug_jupyter.pipeline.records import CompileCapture
from inductor_debug_jupyter.pipeline.rerun.again import as_called, in_modes, plain_model
from inductor_debug_jupyter.pipeline.rerun.copies import clone_inputs
from inductor_debug_jupyter.pipeline.torch_compat.replay import ReplayBackend, as_aot_runs
from inductor_debug_jupyter.pipeline.torch_compat.state import sizes

DECOMPOSED = (
    "computed in the graph that Inductor was given, op by op: where that has ops in the place of one of eager mode's, "
    "the last digits differ from eager mode's"
)


Collector = Callable[[str, torch.fx.GraphModule, list[Any], str], NodeValues]
"""Computes one node of a graph: stage, graph, arguments and the node's name → its values."""


def eager_mode(
    stage: str, graph_module: torch.fx.GraphModule, args: list[Any], wanted: str, run: GraphRun | None = None
) -> NodeValues:
    """The reference: each op as eager mode runs it. A Dynamo graph may write anywhere, so all its nodes run.

    With ``run`` it begins at the nearest checkpoints, and the arguments are not changed.
    """
    is_dynamo = stage == "dynamo"
    stepper = Stepper(graph_module, args, wanted, borrowed=run is not None)
    with torch.set_grad_enabled(is_dynamo and torch.is_grad_enabled()):
        if run is not None and not is_dynamo and resumable(graph_module, wanted):
            return stepper.resume(run)
        return stepper.reach(everything=is_dynamo)


@dataclass(kw_only=True)
class Watcher(ABC):
    """Waits for one captured compile while a call runs again, and finds the values of one of its nodes."""

    wanted: CapturedNode
    found: NodeValues | None = None
    problem: InductorDebugError | None = None
    recognised: bool = False
    unlike: list[str] = field(default_factory=list)
    """Why graphs of the call are not that of the compile."""

    @abstractmethod
    def backend(self) -> Callable[..., Any]:
        """What compiles the call."""

    def recognises(self, graph_module: torch.fx.GraphModule) -> bool:
        """Whether a Dynamo graph is that of the captured compile; only the first one is."""
        why_not = why_not_same(self.wanted.capture, graph_module)
        is_first = not self.recognised
        self.unlike.append(why_not)
        self.recognised |= not why_not
        return is_first and not why_not


@dataclass(kw_only=True)
class _Again(Watcher):
    """Has the wanted node computed in graphs that are replayed.

    Args:
        live: gets the compile's graphs.
        collector: computes the node; None stops the call before its graph and fills :attr:`stopped_at`.
    """

    live: LiveGraphs
    collector: Collector | None
    stopped_at: tuple[torch.fx.GraphModule, list[Any], str, CallModes, RandomState] | None = None
    """The graph, its arguments, the name of the wanted node in it, and how it was to run."""

    def backend(self) -> Callable[..., Any]:
        """Replays the graphs of a call."""
        return ReplayBackend(self.live.way, lambda each: self if self.recognises(each) else None)

    def lowered(self, stage: str, graph_module: torch.fx.GraphModule) -> None:
        """Keep a graph of the compile."""
        self.live.graphs[stage] = graph_module

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run a graph of the compile; that of the wanted node as far as the node."""
        if stage != self.wanted.stage:
            return as_it_is(graph_module, args)
        try:
            name = self.live.name_of(self.wanted)
            if name and self.collector is None:
                self.stopped_at = graph_module, list(args), name, CallModes.now(), RandomState.now()
            elif name and self.collector is not None:
                self.found = self.collector(stage, graph_module, args, name)
        except InductorDebugError as error:
            self.problem = error
        raise ReachedError


@dataclass(frozen=True)
class Reexecution:
    """Runs kept calls again.

    Args:
        calls: the calls that were kept.
        gradients: the gradients that a backward starts from; see :class:`Call`.
        collector: computes the wanted node; the reference by default.
        afterwards: run the collector after the call, since a backend cannot compile inside one.
        traces: keeps traced calls for later nodes.
    """

    calls: Sequence[ModelCall]
    gradients: Sequence[torch.Tensor] | None = None
    collector: Collector = eager_mode
    afterwards: bool = False
    traces: TracedCalls | None = None

    def values(self, wanted: CapturedNode) -> NodeValues:
        """The values of a captured node.

        Raises:
            NotFoundError: tracing does not give the captured graph again, or not this node.
            InductorDebugError: the model raised.
        """
        # First eager mode's own ops; then, for a node that is not among them, those that Inductor is given.
        ways = ("aot", "inductor") if is_inductors(wanted.capture) else ("aot",)
        for way in ("dynamo",) if wanted.stage == "dynamo" else ways:
            if (found := self._one_way(wanted, way)) is not None:
                return replace(found, note=DECOMPOSED) if way == "inductor" else found
        raise NotFoundError(f"{wanted.record.name} was not reached when the call ran again")

    def _one_way(self, wanted: CapturedNode, way: str) -> NodeValues | None:
        """The values in the graphs that are lowered this way; None when these have no such node."""
        capture = wanted.capture
        if self.traces is not None and (start := self.traces.start(self.calls, capture, way)) is not None:
            traced, given, state = start
            try:
                name = traced.live.name_of(wanted)
                entry = traced.entry(wanted.stage, given, state, self.gradients) if name else None
            except NotFoundError:  # an input, which Dynamo names after the frame; a new trace raises all other cases
                name, entry = wanted.record.name, None
            if not name:
                return None
            if entry is not None:
                return self._without_tracing(traced, wanted.stage, entry, name)
        collector = None if self.afterwards else self.collector

        def watcher() -> _Again:
            return _Again(wanted=wanted, live=LiveGraphs(capture, way), collector=collector)

        again = run_again(self.calls, capture, watcher, self.gradients)
        if again.stopped_at is None:
            return again.found
        graph_module, args, name, modes, random_state = again.stopped_at
        with in_modes(modes, random_state):
            return self.collector(wanted.stage, graph_module, args, name)

    def _without_tracing(self, traced: TracedCall, stage: str, entry: Entry, name: str) -> NodeValues:
        """The values from a call that was traced before."""
        with as_called(traced.call), nullcontext() if stage == "dynamo" else as_aot_runs():
            torch.set_rng_state(entry.run.random_state)
            if self.collector is eager_mode:
                return eager_mode(stage, entry.graph_module, entry.args, name, entry.run)
            return self.collector(stage, entry.graph_module, clone_inputs(entry.args), name)


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
    is_training = not {"joint", "backward"}.isdisjoint(capture.graphs)
    for call, kind in itertools.product(in_order(calls, capture), kinds_of_sizes(capture)):
        watching = watcher()
        with as_called(call), sizes(kind):
            again = Call(plain_model(call.model), call.args, call.kwargs, backward=is_training, gradients=gradients)
            error = again.execute(Backend("node", watching.backend()), ComparisonConfig()).error
        if not watching.recognised:
            unlike += filter(None, [*watching.unlike, error and f"it raised {error}"])
            continue
        if error and not error.startswith(ReachedError.__name__):
            raise InductorDebugError(f"{call.name}, run again, raised {error}")
        if watching.problem is not None:
            raise watching.problem
        return watching
    names = ", ".join(call.name for call in calls)
    raise NotFoundError(
        f"{names}, run again, does not give the graph of compile {capture.compile_id} any more"
        + (f" ({unlike[0]})" if unlike else "")
        + "; only the first call of each model can be run again, and with the model as it is now"
    )
