"""The graphs of two runs that belong together, and what differs between them, node by node.

Graphs belong together when they are of one function and one recompile of it: what Dynamo resumes after a graph break is
still that function. Where one run has functions that the other has not, all functions are looked at as one: a break
inside a module makes the module's own forward a graph, and a renamed function is still the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from inductor_debug_jupyter.pipeline.comparing.changes import GraphComparison, NodeChange
from inductor_debug_jupyter.pipeline.comparing.matching import Matching, Program, arguments_of, match
from inductor_debug_jupyter.pipeline.comparing.union_find import Groups
from inductor_debug_jupyter.pipeline.records import BACKWARD, CompileCapture, CoverageRecord, NodeRecord, SessionRecord

STAGES = ("dynamo", "joint", "forward", "backward", "post_grad", f"post_grad{BACKWARD}")
"""The keys of graphs, in the order of a compile."""

Function = tuple[str, str]
"""The name of a function without the suffix of a resumed part, and which recompile of it."""
Sides = Mapping[tuple[str, str, str], str]
"""Compile id, stage and node → ``device`` or ``cpu``."""


def sides_of(coverage: CoverageRecord | None) -> Sides:
    """Where each node of a run is placed."""
    if coverage is None:
        return {}
    return {
        (graph.compile_id, graph.stage, node): segment.side
        for graph in coverage.graphs
        for segment in graph.segments
        for node in segment.nodes
    }


@dataclass(frozen=True)
class Captures:
    """The captures of one function in both runs; one of the lists is empty when only one run has it."""

    function: str
    before: tuple[CompileCapture, ...]
    after: tuple[CompileCapture, ...]


def paired(before: SessionRecord, after: SessionRecord) -> list[Captures]:
    """The captures of both runs, function by function."""
    names = [{_name(capture) for capture in record.captures} for record in (before, after)]
    apart = names[0] == names[1]
    ours, theirs = (_functions(record, apart=apart) for record in (before, after))
    keys = dict.fromkeys((*ours, *theirs))
    return [Captures(_title(key, ours, theirs), tuple(ours.get(key, ())), tuple(theirs.get(key, ()))) for key in keys]


def _name(capture: CompileCapture) -> str:
    """The function's name, without the suffix of a part that is resumed after a break."""
    return capture.name.partition(" (")[0]


def _functions(record: SessionRecord, *, apart: bool) -> dict[Function, list[CompileCapture]]:
    found: dict[Function, list[CompileCapture]] = defaultdict(list)
    for capture in record.captures:
        recompile = capture.compile_id.partition("/")[2].partition("_")[0]
        found[_name(capture) if apart else "", recompile].append(capture)
    return found


def _title(key: Function, *runs: Mapping[Function, Sequence[CompileCapture]]) -> str:
    return key[0] or next((_name(capture) for run in runs for capture in run.get(key, ())), "")


@dataclass
class MatchedStage:
    """One stage of one function in both runs, matched."""

    function: str
    stage: str
    before: Program
    after: Program
    ids: tuple[tuple[str, ...], tuple[str, ...]]
    sides: tuple[Sides, Sides] = field(default_factory=lambda: ({}, {}))

    @cached_property
    def matching(self) -> Matching:
        """Which node is which."""
        return match(self.before, self.after)

    @cached_property
    def edited(self) -> dict[tuple[int, int], NodeChange]:
        """Nodes that compute something and are not the same: position before and after (-1) → the change."""
        found: dict[tuple[int, int], NodeChange] = {}
        for one, other in enumerate(self.matching.after):
            node = self.before.nodes[one]
            if not node.is_call:
                continue
            if other < 0:
                found[one, -1] = _change("gone", node, node.name, "")
            elif what := _difference(node, self.after.nodes[other]):
                found[one, other] = _change("changed", self.after.nodes[other], node.name, what)
        for other, one in enumerate(self.matching.before):
            node = self.after.nodes[other]
            if one < 0 and node.is_call:
                found[-1, other] = _change("new", node, "", "")
        return found

    @cached_property
    def moved(self) -> dict[int, NodeChange]:
        """Matched nodes that run on another side than before: position after → the change."""
        found: dict[int, NodeChange] = {}
        for one, other in enumerate(self.matching.after):
            if other < 0:
                continue
            was, now = self._side(0, one), self._side(1, other)
            if was and now and was != now:
                node = self.after.nodes[other]
                found[other] = _change("moved", node, self.before.nodes[one].name, f"{was} → {now}")
        return found

    def _side(self, run: int, position: int) -> str:
        program = (self.before, self.after)[run]
        place = self.ids[run][program.graph_of[position]], self.stage, program.nodes[position].name
        return self.sides[run].get(place, "")

    @cached_property
    def disturbed(self) -> tuple[frozenset[int], frozenset[int]]:
        """Nodes that are not the same or stand beside one: positions before, and after.

        A node stands beside a graph's new border when what it reads or feeds is in another graph now.
        """
        ours = {one for one, _ in self.edited if one >= 0}
        theirs = {other for _, other in self.edited if other >= 0}
        for one, other in enumerate(self.matching.after):
            if other >= 0 and self._is_rewired(one, other):
                ours.add(one)
                theirs.add(other)
        return frozenset(ours), frozenset(theirs)

    def _is_rewired(self, one: int, other: int) -> bool:
        after = self.matching.after
        reads = [after[read] for read in self.before.inputs[one]]
        readers = [after[reader] for reader in self.before.readers[one]]
        return reads != list(self.after.inputs[other]) or sorted(readers) != sorted(self.after.readers[other])

    @property
    def comparison(self) -> GraphComparison:
        """The answer as a record."""
        nodes = (*self.edited.values(), *self.moved.values())
        same = sum(mate >= 0 for mate in self.matching.after) - sum(
            each.status != "gone" and each.status != "new" for each in nodes
        )
        return GraphComparison(self.function, self.stage, *self.ids, same=same, nodes=nodes)

    @cached_property
    def disturbed_names(self) -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
        """The same as :attr:`disturbed`, by compile id and name."""
        before, after = (
            frozenset((ids[program.graph_of[at]], program.nodes[at].name) for at in found)
            for program, ids, found in zip((self.before, self.after), self.ids, self.disturbed, strict=True)
        )
        return before, after


def matched_stages(captures: Captures, sides: tuple[Sides, Sides]) -> Iterator[MatchedStage]:
    """Every stage that both runs have of a function."""
    for stage in STAGES:
        ours, theirs = ([each for each in side if stage in each.graphs] for side in (captures.before, captures.after))
        if ours and theirs:
            yield MatchedStage(
                captures.function,
                stage,
                Program([each.graphs[stage] for each in ours]),
                Program([each.graphs[stage] for each in theirs]),
                (tuple(each.compile_id for each in ours), tuple(each.compile_id for each in theirs)),
                sides,
            )


Edit = tuple[int, int]
"""A key of :attr:`MatchedStage.edited`."""


def clusters(stage: MatchedStage) -> list[list[Edit]]:
    """The edited nodes that are connected, or come from one line: one edit of the program each."""
    groups = Groups(stage.edited)
    lines: dict[tuple[str, str], Edit] = {}
    for run, program in enumerate((stage.before, stage.after)):
        where = {edit[run]: edit for edit in stage.edited if edit[run] >= 0}
        for position, edit in where.items():
            for read in where.keys() & program.inputs[position]:
                groups.join(where[read], edit)
    for edit, change in stage.edited.items():
        if (line := change.source) is not None:
            groups.join(lines.setdefault((line.function, line.text.strip()), edit), edit)
    return groups.all()


def _difference(before: NodeRecord, after: NodeRecord) -> str:
    """What differs between two matched nodes, in words; empty when nothing does."""
    differences = []
    if before.target != after.target:
        differences.append(f"{before.target} → {after.target}")
    elif (was := arguments_of(before)) != (now := arguments_of(after)):
        differences.append(f"arguments {was} → {now}")
    ours, theirs = (_specs(node) for node in (before, after))
    if ours != theirs:
        differences.append(f"{', '.join(ours)} → {', '.join(theirs)}")
    return "; ".join(differences)


def _specs(node: NodeRecord) -> Sequence[str]:
    return [str(spec) for spec in node.outputs]


def _change(status: str, node: NodeRecord, before: str, what: str) -> NodeChange:
    after = "" if status == "gone" else node.name
    line = node.source or node.cell
    return NodeChange(status, before, after, node.target, what, node.module_path, line)  # type: ignore[arg-type]
