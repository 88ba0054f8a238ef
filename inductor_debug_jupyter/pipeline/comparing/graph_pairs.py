"""Two graphs side by side: which node of one is which of the other, and what became of those that have no equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.comparing.changes import GraphComparison
from inductor_debug_jupyter.pipeline.comparing.matching import Program
from inductor_debug_jupyter.pipeline.comparing.programs import MatchedStage, matched_stages, paired, sides_of
from inductor_debug_jupyter.pipeline.comparing.stages import lowered, stages_of
from inductor_debug_jupyter.pipeline.records import CompileCapture, SessionRecord

Place = tuple[str, str, str]
"""Compile id, stage and name of a node."""


@dataclass(frozen=True)
class GraphPair:
    """The graphs of one function and stage in both runs, or those of two stages of one capture.

    Attributes:
        comparison: what differs, node by node.
        graphs: compile id and stage of each graph, before and after.
        links: which node before is which node after.
        status: what became of each node that is not the same, before and after.
    """

    comparison: GraphComparison
    graphs: tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
    links: tuple[tuple[Place, Place], ...]
    status: tuple[dict[Place, str], dict[Place, str]]


def run_pairs(before: SessionRecord, after: SessionRecord) -> Iterator[GraphPair]:
    """The pairs of two runs that differ."""
    sides = sides_of(before.coverage), sides_of(after.coverage)
    for captures in paired(before, after):
        for stage in matched_stages(captures, sides):
            if stage.edited or stage.moved:
                yield _pair(stage, stage.stage, stage.stage)


def stage_pair(capture: CompileCapture, before: str, after: str) -> GraphPair:
    """Two stages of one capture.

    Raises:
        NotFoundError: one of the two graphs was not captured.
    """
    one, other = stages_of(capture, before, after)
    if before != "dynamo" or after == "dynamo":
        ids = (capture.compile_id,), (capture.compile_id,)
        return _pair(
            MatchedStage(capture.name, f"{before} → {after}", Program([one]), Program([other]), ids), before, after
        )
    found = lowered(capture, one, other)
    graphs = ((capture.compile_id, before),), ((capture.compile_id, after),)
    links = [((*graphs[0][0], origin), (*graphs[1][0], node.name)) for node in other.calls for origin in node.origins]
    status = _named(found, graphs)
    parts = {other: status[0][one] for one, other in links if one in status[0]}
    return GraphPair(found, graphs, tuple(links), (status[0], {**parts, **status[1]}))


def _named(
    found: GraphComparison, graphs: tuple[tuple[tuple[str, str], ...], ...]
) -> tuple[dict[Place, str], dict[Place, str]]:
    ours, theirs = graphs[0][0], graphs[1][0]
    return (
        {(*ours, node.before): node.status for node in found.nodes if node.before},
        {(*theirs, node.after): node.status for node in found.nodes if node.after},
    )


def _pair(stage: MatchedStage, before: str, after: str) -> GraphPair:
    def place(run: int, at: int) -> Place:
        program = (stage.before, stage.after)[run]
        return stage.ids[run][program.graph_of[at]], (before, after)[run], program.nodes[at].name

    status: tuple[dict[Place, str], dict[Place, str]] = ({}, {})
    for edit, change in stage.edited.items():
        for run, at in enumerate(edit):
            if at >= 0:
                status[run][place(run, at)] = change.status
    for at, change in stage.moved.items():
        for run, position in ((0, stage.matching.before[at]), (1, at)):
            status[run][place(run, position)] = change.status
    links = tuple((place(0, one), place(1, other)) for one, other in enumerate(stage.matching.after) if other >= 0)
    graphs = tuple(tuple((each, key) for each in ids) for ids, key in zip(stage.ids, (before, after), strict=True))
    return GraphPair(stage.comparison, (graphs[0], graphs[1]), links, status)
