"""Two stages of one capture: what the passes between them did to the graph, node by node."""

from __future__ import annotations

from collections.abc import Sequence

from inductor_debug_jupyter.pipeline.comparing.changes import GraphComparison, NodeChange, NodeStatus
from inductor_debug_jupyter.pipeline.comparing.matching import Program
from inductor_debug_jupyter.pipeline.comparing.programs import MatchedStage
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord, NodeRecord


def compare_stages(
    captures: Sequence[CompileCapture], before: str, after: str, compile_id: str = ""
) -> GraphComparison:
    """What became of the nodes of one stage in another, in the compile of that id or in the first.

    From the Dynamo graph on, ops have other names: a Dynamo node is the same when one node of the later graph was made
    of it, and changed when several were.

    Raises:
        NotFoundError: there is no such compile, or one of the two graphs was not captured.
    """
    capture = next((each for each in captures if compile_id in ("", each.compile_id)), None)
    if capture is None:
        there = ", ".join(each.compile_id for each in captures) or "none"
        raise NotFoundError(f"there is no compile {compile_id!r}; there are {there}")
    one, other = stages_of(capture, before, after)
    if before == "dynamo" != after:
        return lowered(capture, one, other)
    ids = (capture.compile_id,), (capture.compile_id,)
    matched = MatchedStage(capture.name, f"{before} → {after}", Program([one]), Program([other]), ids)
    return matched.comparison


def stages_of(capture: CompileCapture, *stages: str) -> list[GraphRecord]:
    """The graphs of these stages.

    Raises:
        NotFoundError: one was not captured.
    """
    graphs = []
    for stage in stages:
        graph = capture.graph(stage)
        if graph is None:
            why = capture.missing.get(stage) or f"there are {', '.join(capture.graphs) or 'none'}"
            raise NotFoundError(f"{capture.compile_id} has no graph of stage {stage!r}: {why}")
        graphs.append(graph)
    return graphs


def lowered(capture: CompileCapture, dynamo: GraphRecord, later: GraphRecord) -> GraphComparison:
    """By the Dynamo nodes that each later node says it was made from."""
    made: dict[str, list[str]] = {}
    for node in later.calls:
        for origin in node.origins:
            made.setdefault(origin, []).append(node.target)
    changes = [_change("new", "", node.name, node) for node in later.calls if not node.origins]
    for node in dynamo.calls:
        ops = made.get(node.name, [])
        if not ops:
            changes.append(_change("gone", node.name, "", node))
        elif len(ops) > 1:
            changes.append(_change("changed", node.name, "", node, f"became {', '.join(ops)}"))
    same = sum(len(made.get(node.name, ())) == 1 for node in dynamo.calls)
    ids = (capture.compile_id,), (capture.compile_id,)
    return GraphComparison(capture.name, f"dynamo → {later.stage}", *ids, same=same, nodes=tuple(changes))


def _change(status: NodeStatus, before: str, after: str, node: NodeRecord, what: str = "") -> NodeChange:
    return NodeChange(status, before, after, node.target, what, node.module_path, node.source or node.cell)
