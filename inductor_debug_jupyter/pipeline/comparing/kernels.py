"""Kernel launches of two runs: which were split, merged or regrouped, by the nodes that each computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.comparing.programs import Captures, MatchedStage
from inductor_debug_jupyter.pipeline.comparing.union_find import Groups
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records import BACKWARD, CompileCapture

_STAGES = {"post_grad": "forward", f"post_grad{BACKWARD}": "backward"}
"""The graph whose nodes a kernel computes → the kernel's stage."""


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel, and the nodes that it computes: ``after`` and the position there.

    A node that only the run before has is ``before`` and its position there.
    """

    kernel: str
    graph: int
    nodes: frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Regrouping(Harmless):
    """Launches before and after that compute the same nodes in another division."""

    before: tuple[Launch, ...]
    after: tuple[Launch, ...]
    is_explained: bool
    """Whether a node in them changed, or stands beside one that did or at a new border of a graph."""

    @property
    def kind(self) -> str:
        """``kernel-split``, ``kernels-merged`` or ``kernels-regrouped``."""
        if len(self.before) < len(self.after):
            return "kernel-split"
        return "kernels-merged" if len(self.before) > len(self.after) else "kernels-regrouped"

    def __str__(self) -> str:
        names = [", ".join(_counted(side)) for side in (self.before, self.after)]
        return f"{names[0]} → {names[1]}"


def _counted(launches: Sequence[Launch]) -> list[str]:
    return [f"{name} ×{number}" if number > 1 else name for name, number in _names(launches).items()]


def _names(launches: Sequence[Launch]) -> Counter[str]:
    return Counter(launch.kernel for launch in launches)


def launch_count(captures: Sequence[CompileCapture]) -> int | None:
    """The number of launches; None when no compile was lowered to kernels."""
    counts = [max(len(kernel.calls), 1) for each in captures for kernel in each.kernels]
    return sum(counts) if counts else None


def regroupings(captures: Captures, stages: Sequence[MatchedStage]) -> list[Regrouping]:
    """Every group of launches that shares nodes and is divided otherwise than before."""
    found: list[Regrouping] = []
    for matched in stages:
        if (wanted := _STAGES.get(matched.stage)) is None:
            continue
        ours, theirs = (_launches(captures, matched, wanted, run) for run in (0, 1))
        left = Counter(launch.nodes for launch in ours)
        right = Counter(launch.nodes for launch in theirs)
        same = left & right
        rest = _without(ours, same), _without(theirs, same)
        found += [each for each in _components(*rest, matched) if each.before and each.after]
    return found


def _launches(captures: Captures, matched: MatchedStage, stage: str, run: int) -> list[Launch]:
    program = (matched.before, matched.after)[run]
    graph_of = {compile_id: number for number, compile_id in enumerate(matched.ids[run])}
    at = {(program.graph_of[index], node.name): index for index, node in enumerate(program.nodes)}
    calls = (
        (kernel.name, graph_of.get(capture.compile_id, -1), call)
        for capture in (captures.before, captures.after)[run]
        for kernel in capture.kernels
        if kernel.stage == stage
        for call in kernel.calls
    )
    found = []
    for kernel, graph, call in calls:
        nodes = frozenset(_shared(matched, at[graph, name], run) for name in call if (graph, name) in at)
        if nodes:
            found.append(Launch(kernel, graph, nodes))
    return found


def _shared(matched: MatchedStage, index: int, run: int) -> tuple[str, int]:
    """A node's name for both runs."""
    if run == 1:
        return "after", index
    mate = matched.matching.after[index]
    return ("after", mate) if mate >= 0 else ("before", index)


def _without(launches: Sequence[Launch], same: Counter[frozenset[tuple[str, int]]]) -> list[Launch]:
    left = Counter(same)
    kept = []
    for launch in launches:
        if left[launch.nodes] > 0:
            left[launch.nodes] -= 1
        else:
            kept.append(launch)
    return kept


def _components(before: Sequence[Launch], after: Sequence[Launch], matched: MatchedStage) -> list[Regrouping]:
    """Launches connected by shared nodes."""
    sides = {0: before, 1: after}
    launches = [(run, at) for run, side in sides.items() for at in range(len(side))]
    groups = Groups(launches)
    first: dict[tuple[str, int], tuple[int, int]] = {}
    for run, at in launches:
        for node in sides[run][at].nodes:
            groups.join((run, at), first.setdefault(node, (run, at)))
    found = []
    for members in groups.all():
        ours, theirs = (tuple(sides[run][at] for run, at in members if run == wanted) for wanted in sides)
        found.append(Regrouping(ours, theirs, _is_explained(ours, theirs, matched)))
    return found


def _is_explained(before: Sequence[Launch], after: Sequence[Launch], matched: MatchedStage) -> bool:
    ours, theirs = matched.disturbed
    nodes = frozenset[tuple[str, int]]().union(*(launch.nodes for launch in (*before, *after)))
    divided = len({launch.graph for launch in after}) > len({launch.graph for launch in before})
    return divided or any(at in (theirs if side == "after" else ours) for side, at in nodes)
