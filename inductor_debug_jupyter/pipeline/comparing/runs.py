"""Compare two runs, and separate causes from consequences.

A program is compared stage by stage, and the first stage that differs is the cause: an op that is new in the Dynamo
graph makes new nodes in every later graph. In the same way the guards of a graph that a new break begins, and the
kernels and findings at nodes that were edited or stand beside one, follow from the break or the edit. What stands
alone is a cause itself: a kernel that is split although no node of it changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.comparing.changes import Change, NodeChange, RunComparison
from inductor_debug_jupyter.pipeline.comparing.findings import equal_findings, reworded_findings
from inductor_debug_jupyter.pipeline.comparing.kernels import launch_count, regroupings
from inductor_debug_jupyter.pipeline.comparing.numbers import culprit_changes, number_changes, why_no_numbers
from inductor_debug_jupyter.pipeline.comparing.programs import (
    Captures,
    MatchedStage,
    clusters,
    matched_stages,
    paired,
    sides_of,
)
from inductor_debug_jupyter.pipeline.comparing.quantities import quantities_of
from inductor_debug_jupyter.pipeline.records import (
    CoverageRecord,
    Fallback,
    Guard,
    Place,
    SessionRecord,
    SourceLine,
    Violation,
)

_NUMBERED = re.compile(r"0x[0-9a-f]+|___\d+|(?<=_)\d{6,}")
"""Addresses and counters in torch's names of things, which differ from process to process."""
_NAMED = 4
"""How many names a title lists."""


@dataclass
class _Cause:
    """A change that consequences are still added to."""

    change: Change
    function: str
    consequences: list[Change] = field(default_factory=list)

    @property
    def finished(self) -> Change:
        return Change(self.change.kind, self.change.title, self.change.source, tuple(self.consequences))


def compare_runs(before: SessionRecord, after: SessionRecord) -> RunComparison:
    """What changed from one run to another.

    What could not be compared (no kernels, no comparison of numbers, nothing captured) is in ``.unknown``.
    """
    comparing = _Runs(before, after)
    return RunComparison(
        (before.id, before.name),
        (after.id, after.name),
        comparing.changes(),
        quantities_of(before, after),
        tuple(stage.comparison for stages in comparing.stages for stage in stages),
        _environment(before, after),
        tuple(_unknown(before, after)),
        (before, after),
    )


class _Runs:
    def __init__(self, before: SessionRecord, after: SessionRecord) -> None:
        self.before = before
        self.after = after
        sides = sides_of(before.coverage), sides_of(after.coverage)
        self.functions = paired(before, after)
        self.stages = [list(matched_stages(captures, sides)) for captures in self.functions]
        self.causes: list[_Cause] = []
        self.fallback_origins: list[tuple[_Cause, int, set[tuple[str, str]]]] = []
        self.function_of = (
            {capture.compile_id: each.function for each in self.functions for capture in each.before},
            {capture.compile_id: each.function for each in self.functions for capture in each.after},
        )

    def changes(self) -> tuple[Change, ...]:
        """Every change: what may be a cause of others first."""
        self._breaks()
        self._recompiles()
        self._fallbacks()
        for captures, stages in zip(self.functions, self.stages, strict=True):
            self._graphs(captures)
            self._edits(captures.function, stages)
            self._moved(captures.function, stages)
            self._kernels(captures, stages)
        self._findings()
        self._guards()
        self._numbers()
        self._memory()
        return tuple(cause.finished for cause in self.causes)

    # Where a change goes ----------------------------------------------------------------------------------------

    def _add(self, change: Change, function: str = "") -> _Cause:
        cause = _Cause(change, function)
        self.causes.append(cause)
        return cause

    def _follows(self, change: Change, function: str, *kinds: str) -> None:
        """Put it under a cause in that function, of these kinds first; without one it is a cause itself."""
        causes = [cause for cause in self.causes if cause.function == function]
        wanted = [cause for kind in kinds for cause in causes if cause.change.kind == kind]
        cause = next(iter((*wanted, *causes)), None)
        if cause is None:
            self._add(change, function)
        else:
            cause.consequences.append(change)

    def _function(self, compile_id: str, run: int) -> str:
        """The function of a compile; a compile that ended without a graph is of the only function, if there is one."""
        only = self.functions[0].function if len({each.function for each in self.functions}) == 1 else ""
        return self.function_of[run].get(compile_id, only)

    # Breaks, recompiles, graphs ---------------------------------------------------------------------------------

    def _breaks(self) -> None:
        def key(each: Any) -> Hashable:
            return each.gb_type or each.reason.partition("\n")[0], _line(each.source)

        gone, new = _differing(self.before.graph_breaks, self.after.graph_breaks, key)
        for kind, run, found in (("break-gone", 0, gone), ("new-break", 1, new)):
            for each in found:
                reason = each.reason.strip().partition("\n")[0] or each.gb_type or "torch gave no reason"
                self._add(Change(kind, reason, each.source), self._function(each.compile_id, run))

    def _recompiles(self) -> None:
        def key(each: Any) -> Hashable:
            return _plain(each.expression), each.aspect, _line(each.source)

        gone, new = _differing(self.before.recompiles, self.after.recompiles, key)
        for kind, run, found in (("recompile-gone", 0, gone), ("new-recompile", 1, new)):
            for each in found:
                why = each.check or "; ".join(each.reasons) or "torch gave no reason"
                self._add(Change(kind, why.partition("\n")[0], each.source), self._function(each.compile_id, run))

    def _graphs(self, captures: Captures) -> None:
        """A function or recompile that only one run has."""
        if captures.before and captures.after:
            return
        kind, found = ("new-graph", captures.after) if captures.after else ("graph-gone", captures.before)
        for capture in found:
            change = Change(kind, f"{capture.compile_id} {capture.name}", capture.source)
            self._follows(change, captures.function, "new-recompile", "recompile-gone", "new-break", "break-gone")

    # Nodes --------------------------------------------------------------------------------------------------------

    def _edits(self, function: str, stages: Sequence[MatchedStage]) -> None:
        """The first stage with edited nodes is the cause, unless a break is; later ones follow."""
        differing = [stage for stage in stages if stage.edited]
        if not differing:
            return
        first, *later = differing
        if first.stage != "dynamo" and any(stage.stage == "dynamo" for stage in stages):
            later = differing if self._has_cause(function) else later
        if first not in later:
            self._first_edits(function, first)
        for stage in later:
            self._follows(_edit(list(stage.edited.values()), stage.stage), function, "new-break", "break-gone")

    def _first_edits(self, function: str, stage: MatchedStage) -> None:
        for keys in clusters(stage):
            nodes = [stage.edited[key] for key in keys]
            change = _edit(nodes, stage.stage)
            if self._leaves_with_a_break(function, {node.status for node in nodes}):
                self._follows(change, function, "new-break", "break-gone")
            else:
                self._edited(change, function, stage, keys)

    def _leaves_with_a_break(self, function: str, statuses: set[str]) -> bool:
        """Whether nodes are only gone where a break is new, or only new where one is gone: Dynamo left them out."""
        kinds = {cause.change.kind for cause in self.causes if cause.function == function}
        return (statuses == {"gone"} and "new-break" in kinds) or (statuses == {"new"} and "break-gone" in kinds)

    def _has_cause(self, function: str) -> bool:
        return any(cause.function == function for cause in self.causes)

    def _edited(self, change: Change, function: str, stage: MatchedStage, keys: Sequence[tuple[int, int]]) -> None:
        """An edit follows from the fallback of an op that it brings in or takes away."""
        programs = stage.before, stage.after
        for cause, run, origins in self.fallback_origins:
            program, ids = programs[run], stage.ids[run]
            edited = [key[run] for key in keys if key[run] >= 0]
            names = {(ids[program.graph_of[at]], program.nodes[at].name) for at in edited}
            if cause.function == function and names & origins:
                cause.consequences.append(change)
                return
        self._add(change, function)

    def _fallbacks(self) -> None:
        """Ops that the target runs less of, or more of."""
        if self.before.coverage is None or self.after.coverage is None:
            return
        ours, theirs = (_fallback_counts(each) for each in (self.before.coverage, self.after.coverage))
        for op in dict.fromkeys((*ours, *theirs)):
            if more := theirs[op] - ours[op]:
                self._fallback(op, more)

    def _fallback(self, op: str, more: int) -> None:
        kind, run = ("new-fallback", 1) if more > 0 else ("fallback-gone", 0)
        record = (self.before, self.after)[run]
        entries = [each for each in _fallbacks(record) if each.op == op]
        places = [place for entry in entries for place in entry.places]
        times = f" ×{abs(more)}" if abs(more) > 1 else ""
        change = Change(kind, f"{op}{times}: {entries[0].reason}", places[0].line if places else None)
        cause = self._add(change, self._function(places[0].compile_id, run) if places else "")
        self.fallback_origins.append((cause, run, _origins(record, places)))

    def _moved(self, function: str, stages: Sequence[MatchedStage]) -> None:
        for stage in stages:
            if stage.moved:
                nodes = list(stage.moved.values())
                title = f"{stage.stage}: {words.count(len(nodes), 'node')} moved ({nodes[0].what}): {_names(nodes)}"
                change = Change("moved", title, nodes[0].source)
                self._follows(change, function, "new-fallback", "fallback-gone")

    def _kernels(self, captures: Captures, stages: Sequence[MatchedStage]) -> None:
        for each in regroupings(captures, stages):
            change = Change(each.kind, str(each))
            if each.is_explained or each.kind == "kernels-regrouped":  # as many as before, in another order
                self._follows(change, captures.function, "new-break", "break-gone")
            else:
                self._add(change, captures.function)

    # Findings, guards ---------------------------------------------------------------------------------------------

    def _findings(self) -> None:
        _, left, unpaired = equal_findings(self.before.findings, self.after.findings)
        reworded, gone, new = reworded_findings(left, unpaired)
        differing = [("finding-gone", 0, each, each.title) for each in gone]
        differing += [("new-finding", 1, each, each.title) for each in new]
        differing += [("finding-changed", 1, now, f"{was.title} → {now.title}") for was, now in reworded]
        for kind, run, finding, title in differing:
            line = finding.places[0].line if finding.places else None
            change = Change(kind, f"{finding.severity} {finding.rule_id}: {title}", line)
            if cause := self._of_fallback(finding, run):
                cause.consequences.append(change)
            elif self._is_disturbed(finding, run):
                self._follows(change, self._function(finding.places[0].compile_id, run))
            else:
                self._add(change)

    def _of_fallback(self, finding: Violation, run: int) -> _Cause | None:
        places = {(place.compile_id, place.node) for place in finding.places}
        found = (cause for cause, of, origins in self.fallback_origins if of == run and places and places <= origins)
        return next(found, None)

    def _is_disturbed(self, finding: Violation, run: int) -> bool:
        """Whether every place of a finding is at a node that was edited, or beside one."""
        where = {
            (stage.stage, *name) for stages in self.stages for stage in stages for name in stage.disturbed_names[run]
        }
        places = {(place.stage, place.compile_id, place.node) for place in finding.places}
        return bool(places) and places <= where

    def _guards(self) -> None:
        gone, new = _differing(_distinct(self.before.guards), _distinct(self.after.guards), _guard_key)
        for kind, run, found in (("guard-gone", 0, gone), ("new-guard", 1, new)):
            functions: dict[str, list[Guard]] = {}
            for guard in found:
                functions.setdefault(self._function(guard.compile_id, run), []).append(guard)
            for function, guards in functions.items():
                texts = [_guard_text(guard) for guard in guards[:_NAMED]]
                title = f"{words.count(len(guards), 'guard')}: {_listed(texts, len(guards))}"
                self._follows(Change(kind, title, guards[0].source), function, "new-break", "break-gone")

    # Numbers, memory ------------------------------------------------------------------------------------------------

    def _numbers(self) -> None:
        grew = [self._add(change) for change in number_changes(self.before.diff, self.after.diff)]
        for change in culprit_changes(self.before.localization, self.after.localization):
            if grew:
                grew[0].consequences.append(change)
            else:
                self._add(change)

    def _memory(self) -> None:
        was, now = self.before.peak_memory, self.after.peak_memory
        if was is None or now is None or was == now:
            return
        kind = "memory-grew" if now > was else "memory-shrank"
        change = Change(kind, f"peak memory {words.size(was)} → {words.size(now)}")
        causes = [cause for cause in self.causes if cause.function]
        if causes:
            causes[0].consequences.append(change)
        else:
            self._add(change)


def _edit(nodes: Sequence[NodeChange], stage: str) -> Change:
    """One edit of a graph in words: ``forward: 2 new, 1 changed: gelu, mul``."""
    counts = Counter(node.status for node in nodes)
    tally = ", ".join(f"{number:,} {status}" for status, number in counts.items())
    what = f" ({nodes[0].what})" if nodes[0].what else ""
    source = next((node.source for node in nodes if node.source), None)
    return Change("nodes-changed", f"{stage}: {tally}: {_names(nodes)}{what}", source)


def _names(nodes: Sequence[NodeChange]) -> str:
    return _listed(list(dict.fromkeys(node.after or node.before for node in nodes))[:_NAMED], len(nodes))


def _listed(names: Sequence[str], total: int) -> str:
    return ", ".join(names) + (", …" if total > len(names) else "")


def _differing(
    before: Iterable[Any], after: Iterable[Any], key: Callable[[Any], Hashable]
) -> tuple[list[Any], list[Any]]:
    """What only one side has, by key, counted."""
    ours, theirs = list(before), list(after)
    gone, new = Counter(map(key, ours)), Counter(map(key, theirs))
    return _rest(ours, key, gone - new), _rest(theirs, key, new - gone)


def _rest(items: Sequence[Any], key: Callable[[Any], Hashable], counts: Counter[Hashable]) -> list[Any]:
    found = []
    for item in reversed(items):
        if counts[key(item)] > 0:
            counts[key(item)] -= 1
            found.append(item)
    return found[::-1]


def _line(source: SourceLine | None) -> Hashable:
    """A line by what it says: its number changes with every line above it, a cell's label with every run."""
    return (source.function, source.text.strip()) if source else None


def _plain(text: str) -> str:
    return _NUMBERED.sub("", text)


def _guard_key(guard: Guard) -> Hashable:
    return guard.kind, _plain(guard.expression), _plain(guard.value)


def _distinct(guards: Iterable[Guard]) -> list[Guard]:
    """One guard for each condition: the parts of a divided function ask the same again."""
    return list({_guard_key(guard): guard for guard in guards}.values())


def _guard_text(guard: Guard) -> str:
    value = f" == {guard.value}" if guard.value else ""
    return f"{guard.kind} {_plain(guard.expression) or 'global state'}{words.clip(value, 60)}"


def _fallbacks(record: SessionRecord) -> tuple[Fallback, ...]:
    return record.coverage.fallbacks if record.coverage else ()


def _fallback_counts(coverage: CoverageRecord) -> Counter[str]:
    counts: Counter[str] = Counter()
    for entry in coverage.fallbacks:
        counts[entry.op] += entry.count
    return counts


def _origins(record: SessionRecord, places: Iterable[Place]) -> set[tuple[str, str]]:
    """The nodes of those places and the Dynamo nodes that they were made from, by compile id and name."""
    graphs = {
        (capture.compile_id, stage): graph for capture in record.captures for stage, graph in capture.graphs.items()
    }
    found = set()
    for place in places:
        graph = graphs.get((place.compile_id, place.stage))
        node = graph.node(place.node) if graph else None
        names = (place.node, *(node.origins if node else ()))
        found |= {(place.compile_id, name) for name in names}
    return found


def _environment(before: SessionRecord, after: SessionRecord) -> tuple[tuple[str, str, str], ...]:
    """What differs between the circumstances of two runs."""
    ours, theirs = (
        {
            "target": record.target,
            "torch": record.torch_version,
            "inductor-debug-jupyter": record.tool_version,
            **(
                dict(record.environment.rows) if before.environment and after.environment and record.environment else {}
            ),
        }
        for record in (before, after)
    )
    names = dict.fromkeys((*ours, *theirs))
    return tuple(
        (name, ours.get(name, "default"), theirs.get(name, "default"))
        for name in names
        if ours.get(name) != theirs.get(name)
    )


def _unknown(before: SessionRecord, after: SessionRecord) -> Iterable[str]:
    """What could not be compared."""
    runs = ("before", before), ("after", after)
    for name, record in runs:
        if not record.captures:
            yield f"{name}: nothing was captured"
        elif launch_count(record.captures) is None:
            yield f"kernels: none were captured {name}"
        if record.captures and record.coverage is None:
            yield f"placement: not known {name}"
        if record.environment is None:
            yield f"environment: not recorded {name}"
    yield from why_no_numbers(before.diff, after.diff)
