"""Find a captured node by name, and find it again in a graph that is traced anew.

The kept call is traced once more and gives the same nodes under the same names; that is checked, never assumed. The
graph that Inductor compiles has other ops than eager mode runs (a decomposed ``layer_norm``), and so rounds otherwise.
A node of it that eager mode has too is therefore matched in the graph without decompositions: the node of the same op,
from the same Dynamo node, with the same tensors, if both graphs have equally many of these.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.errors import NotFoundError, OptionError
from inductor_debug_jupyter.pipeline.records import BACKWARD, CompileCapture, GraphRecord, NodeRecord, TensorSpec
from inductor_debug_jupyter.pipeline.torch_compat.graphs import origins_by_sequence

RUN_STAGES = ("forward", "backward", "dynamo")
"""The stages whose graphs are run."""
_SEARCHED = (*RUN_STAGES, "joint", "post_grad", f"post_grad{BACKWARD}")


@dataclass(frozen=True, slots=True)
class CapturedNode:
    """A node of a captured graph: of one of :data:`RUN_STAGES`, or of post-grad if it need not be run."""

    capture: CompileCapture
    stage: str
    record: NodeRecord

    @property
    def graph(self) -> GraphRecord:
        """The graph of the node."""
        return self.capture.graphs[self.stage]


def find_node(
    captures: Sequence[CompileCapture], name: str, stage: str = "", compile_id: str = "", *, to_run: bool = True
) -> CapturedNode:
    """The captured node of that name.

    Without ``stage`` the forward is searched first, then the backward and the Dynamo graph. A node of the joint or
    post-grad graph stands for the node of that name in the forward or backward; with ``to_run=False`` a post-grad node
    may be in neither.

    Raises:
        OptionError: there is no such stage.
        NotFoundError: there is no such node, or it is in no graph that can be run.
    """
    graphs = _searched_graphs(captures, stage, compile_id)
    for capture, each, graph in graphs:
        if (record := graph.node(name)) is not None and record.op != "output":
            return _in_a_graph_that_runs(capture, each, record, to_run)
    names = [node.name for _, _, graph in graphs for node in graph.nodes]
    where = " ".join(filter(None, ["no captured", stage, "graph", compile_id and f"of {compile_id}"]))
    raise NotFoundError(f"{where} has a node {name!r}{near(name, names)}")


def _searched_graphs(
    captures: Sequence[CompileCapture], stage: str, compile_id: str
) -> list[tuple[CompileCapture, str, GraphRecord]]:
    if stage and stage not in _SEARCHED:
        raise OptionError(f"stage={stage!r}; allowed: {', '.join(_SEARCHED)}")
    known = [capture.compile_id for capture in captures]
    if compile_id and compile_id not in known:
        raise NotFoundError(f"compile_id={compile_id!r} was not captured; captured: {', '.join(known) or 'nothing'}")
    stages = [each for each in _SEARCHED if not stage or each in {stage, f"{stage}{BACKWARD}"}]
    return [
        (capture, each, graph)
        for capture in captures
        if compile_id in {"", capture.compile_id}
        for each in stages
        if (graph := capture.graph(each)) is not None
    ]


def _in_a_graph_that_runs(capture: CompileCapture, stage: str, record: NodeRecord, to_run: bool) -> CapturedNode:
    if stage in RUN_STAGES:
        return CapturedNode(capture, stage, record)
    sides = {"post_grad": ("forward",), f"post_grad{BACKWARD}": ("backward",)}.get(stage, ("forward", "backward"))
    for side in sides:
        graph = capture.graph(side)
        twin = graph.node(record.name) if graph is not None else None
        if twin is not None and twin.target == record.target:
            return CapturedNode(capture, side, twin)
    if not to_run and stage != "joint":
        return CapturedNode(capture, stage, record)
    why = (
        "the joint graph was divided without it"
        if stage == "joint"
        else "Inductor's own passes made it; candidate='inductor' gives what its kernel computes"
    )
    raise NotFoundError(f"{record.name} of the {stage} graph is not in the {' or '.join(sides)} graph: {why}")


def near(name: str, names: Iterable[str]) -> str:
    """The end of an error message: known names that resemble an unknown one."""
    close = difflib.get_close_matches(name, list(dict.fromkeys(names)), n=4, cutoff=0.6)
    return f"; near: {', '.join(close)}" if close else ""


# The same graph again ---------------------------------------------------------------------------------------------


def why_not_same(captured: CompileCapture, graph_module: torch.fx.GraphModule) -> str:
    """Why a Dynamo graph is not the one that was captured; empty when it is, or when none was captured."""
    graph = captured.graph("dynamo")
    if graph is None:
        return ""
    again = graph_record("dynamo", graph_module)
    old, new = ([_signature(node) for node in each.calls] for each in (graph, again))
    for at, (before, now) in enumerate(zip(old, new, strict=False)):
        if before != now:
            was, now_is = _described(graph.calls[at]), _described(again.calls[at])
            return f"at {graph.calls[at].name}: {was} was captured, now it is {now_is}"
    return "" if len(old) == len(new) else f"it has {len(new)} ops, and {len(old)} were captured"


def _signature(node: NodeRecord) -> tuple[Any, ...]:
    return node.name, node.target, _tensors(node.outputs)


def _tensors(specs: Iterable[TensorSpec]) -> tuple[Any, ...]:
    """Shapes and dtypes; one symbolic size is like another, since symbols are numbered anew."""
    return tuple((tuple(size if isinstance(size, int) else "?" for size in spec.shape), spec.dtype) for spec in specs)


def _described(node: NodeRecord) -> str:
    return " ".join([node.name, node.target, *map(str, node.outputs)])


def by_name(captured: NodeRecord, again: GraphRecord) -> str:
    """The node of that name in the graph that was traced again.

    Raises:
        NotFoundError: it is missing, or has another op or other tensors.
    """
    found = again.node(captured.name)
    if found is None:
        close = near(captured.name, (node.name for node in again.nodes))
        raise NotFoundError(f"run again, the {again.stage} graph has no node {captured.name!r}{close}")
    if _signature(found) != _signature(captured):
        raise NotFoundError(f"run again, {captured.name} is {_described(found)}; captured was {_described(captured)}")
    return found.name


def by_op(captured: NodeRecord, graph: GraphRecord, again: GraphRecord) -> str:
    """The same op in a graph without decompositions; empty when that is ambiguous."""
    if captured.composite or not captured.origins:
        return ""
    key = _kind(captured, graph)
    old, new = (
        [node.name for node in each.calls if not node.composite and _kind(node, each) == key] for each in (graph, again)
    )
    return new[old.index(captured.name)] if len(old) == len(new) else ""


def _kind(node: NodeRecord, graph: GraphRecord) -> tuple[Any, ...]:
    """A node's op, the Dynamo nodes that it comes from, its tensors and those that it reads."""
    read = tuple(_tensors(graph.by_name[name].outputs) for name in node.inputs if name in graph.by_name)
    return node.target, node.origins, _tensors(node.outputs), read


def is_inductors(capture: CompileCapture) -> bool:
    """Whether a compile went through Inductor, which has AOTAutograd trace with its own decompositions."""
    return bool(capture.kernels) or not {"post_grad", "ir_pre_fusion", "code"}.isdisjoint(capture.stages)


@dataclass
class LiveGraphs:
    """The graphs that a captured compile gives when its call is traced again.

    Args:
        capture: the compile that was captured.
        way: how they were lowered; see :data:`replay.WAYS`.
    """

    capture: CompileCapture
    way: str
    graphs: dict[str, torch.fx.GraphModule] = field(default_factory=dict)
    """By stage."""
    _records: dict[str, GraphRecord] = field(default_factory=dict)

    def name_of(self, wanted: CapturedNode) -> str:
        """The node's name in the graph that was traced again; empty when that is ambiguous.

        Raises:
            NotFoundError: it is missing there, or has another op or other tensors.
        """
        again = self._record(wanted.stage)
        if self.way == "aot" and is_inductors(self.capture):
            return by_op(wanted.record, wanted.graph, again)
        return by_name(wanted.record, again)

    def _record(self, stage: str) -> GraphRecord:
        if stage not in self._records:
            origins: dict[int, tuple[str, ...]] = {}
            for graph_module in self.graphs.values():
                for number, names in origins_by_sequence(graph_module).items():
                    origins.setdefault(number, names)
            self._records[stage] = graph_record(stage, self.graphs[stage], origins=origins)
        return self._records[stage]
