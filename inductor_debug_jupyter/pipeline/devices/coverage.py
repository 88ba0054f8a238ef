"""Every op of a graph on a target: supported, decomposable, falling back or refused, with the reason and the lines.

There is one judgement, that of the rules: a node that a rule refuses (a finding that is an error) does not run on the
target, whatever the rule is about; it falls back to the CPU, or is refused where the profile allows no fallback, and
the reason is the finding's. For the others the list of ops says whether the target has the op or is given its parts
(see :mod:`~inductor_debug_jupyter.pipeline.devices.support`). The parts of a decomposed op share one verdict, the
worst. From the verdicts follow the sides, from these the segments and transfers, and the ledger of what falls back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from inductor_debug_jupyter.pipeline.devices.checker import Found, checked_graphs, found_by, place_of, rules_for
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint
from inductor_debug_jupyter.pipeline.devices.cpu_side import MEANT
from inductor_debug_jupyter.pipeline.devices.ops import VIEWS, bare_name
from inductor_debug_jupyter.pipeline.devices.partition import Traffic, full_sides, segments_of, traffic_of
from inductor_debug_jupyter.pipeline.devices.profile import DeviceProfile
from inductor_debug_jupyter.pipeline.devices.support import OpSupport, OpVerdict, UnsupportedOpsConstraint
from inductor_debug_jupyter.pipeline.records import (
    OP_STATUSES,
    CompileCapture,
    CoverageRecord,
    Fallback,
    GraphCoverage,
    GraphRecord,
    OpRow,
    OpStatus,
    Place,
    Side,
)


def coverage_of(
    captures: Sequence[CompileCapture],
    profile: DeviceProfile,
    rules: Sequence[Constraint] | None = None,
    found: Iterable[Found] | None = None,
) -> CoverageRecord:
    """Every captured graph on a target.

    Args:
        captures: what was captured.
        profile: the target.
        rules: what it is judged by; the target's own rules when not given.
        found: what these rules found, where that is known already.
    """
    rules = rules_for(profile) if rules is None else rules
    found = found_by(rules, captures, profile.cpu) if found is None else found
    surveyor = _Surveyor(profile, rules, found)
    graphs = [surveyor.survey(graph, capture.compile_id) for capture in captures for graph in checked_graphs(capture)]
    return CoverageRecord(profile.name, tuple(graphs))


def graph_coverage(graph: GraphRecord, profile: DeviceProfile, compile_id: str = "") -> GraphCoverage:
    """One graph on a target."""
    return coverage_of([CompileCapture(compile_id, graphs={graph.stage: graph})], profile).graphs[0]


class _Surveyor:
    """Looks at graphs with one profile, the rules and what they found."""

    def __init__(self, profile: DeviceProfile, rules: Sequence[Constraint], found: Iterable[Found]) -> None:
        self._profile = profile
        self._lacking: OpStatus = "fallback" if profile.fallback == "cpu" else "refused"
        by_name = (rule.support for rule in rules if isinstance(rule, UnsupportedOpsConstraint))
        self._support = next(by_name, None) or OpSupport(decompose=profile.decompose)
        self._refused = _refused(found)

    def survey(self, graph: GraphRecord, compile_id: str) -> GraphCoverage:
        verdicts = self._verdicts(graph, compile_id)
        sides: dict[str, Side] = {
            name: "device" if verdict.runs_on_device else "cpu" for name, verdict in verdicts.items()
        }
        segments = segments_of(graph, full_sides(graph, sides))
        traffic = traffic_of(graph, segments, self._profile)
        rows = _rows(graph, compile_id, verdicts)
        return GraphCoverage(
            compile_id=compile_id,
            stage=graph.stage,
            nodes=len(graph.calls),
            rows=tuple(row.record() for row in rows),
            segments=segments,
            transfers=tuple(traffic.transfers),
            fallbacks=_ledger(rows, traffic),
            narrowed=self._narrowed(graph),
        )

    def _verdicts(self, graph: GraphRecord, compile_id: str) -> dict[str, OpVerdict]:
        meant = self._profile.cpu.names(graph, compile_id)
        verdicts: dict[str, OpVerdict] = {}
        worst: dict[tuple[str, str], OpVerdict] = {}
        for node in graph.calls:
            verdict = self._support.verdict(node, graph)
            refused = self._refused.get((compile_id, graph.stage, node.name))
            if not verdict.runs_on_device:
                verdict = replace(verdict, status=self._lacking)
            elif refused is not None:
                verdict = OpVerdict(verdict.op, self._lacking, refused)
            if node.name in meant:
                verdict = OpVerdict(verdict.op, "fallback", MEANT)
            verdicts[node.name] = verdict
            if node.composite and not verdict.runs_on_device:
                worst.setdefault((node.composite, node.call), verdict)
        if worst:
            for node in graph.calls:
                if node.composite and (shared := worst.get((node.composite, node.call))) is not None:
                    verdicts[node.name] = shared
        return verdicts

    def _narrowed(self, graph: GraphRecord) -> tuple[tuple[str, str, int], ...]:
        counts: dict[str, int] = {}
        narrow = self._profile.narrow
        for node in graph.nodes if narrow else ():
            for spec in node.outputs:
                if spec.dtype in narrow:
                    counts[spec.dtype] = counts.get(spec.dtype, 0) + 1
        return tuple((dtype, narrow[dtype], number) for dtype, number in sorted(counts.items()))


def _refused(found: Iterable[Found]) -> dict[tuple[str, str, str], str]:
    """Compile id, stage and name of every node that a rule refuses → what the first such finding says."""
    refused: dict[tuple[str, str, str], str] = {}
    for each in found:
        if each.severity != "error":
            continue
        for graph, name in _nodes_of(each):
            refused.setdefault((each.capture.compile_id, graph.stage, name), each.problem.title)
    return refused


def _nodes_of(found: Found) -> Iterator[tuple[GraphRecord, str]]:
    """The nodes that a problem is about; for one of a Dynamo graph that was lowered, what it became."""
    lowered = checked_graphs(found.capture)
    if any(found.graph is graph for graph in lowered):
        yield found.graph, found.place.node
        return
    for graph in lowered:
        if graph.stage != "backward":
            made = [node for node in graph.calls if found.problem.node in node.origins]
            computing = [node for node in made if bare_name(node.target) not in VIEWS]
            yield from ((graph, node.name) for node in computing or made)


@dataclass
class _Row:
    """One op with one verdict, while it is being counted."""

    verdict: OpVerdict
    nodes: list[str]
    places: dict[object, Place]

    def record(self) -> OpRow:
        verdict = self.verdict
        return OpRow(
            verdict.op, verdict.status, len(self.nodes), verdict.reason, verdict.parts, tuple(self.places.values())
        )


def _rows(graph: GraphRecord, compile_id: str, verdicts: dict[str, OpVerdict]) -> list[_Row]:
    """One row for each op and verdict, worst first, then the most frequent.

    What leaves the target has a place for each module and line; what the target runs, for each line.
    """
    rows: dict[OpVerdict, _Row] = {}
    for node in graph.calls:
        verdict = verdicts[node.name]
        row = rows.get(verdict)
        if row is None:
            row = rows[verdict] = _Row(verdict, [], {})
        row.nodes.append(node.name)
        source = node.source
        where = (source.file, source.line) if source else (node.name, 0)
        key = where if verdict.runs_on_device else (*where, node.module_path)
        if key not in row.places:
            row.places[key] = place_of(compile_id, graph, node.name)
    order = {status: -rank for rank, status in enumerate(OP_STATUSES)}
    return sorted(rows.values(), key=lambda row: (order[row.verdict.status], -len(row.nodes), row.verdict.op))


def _ledger(rows: list[_Row], traffic: Traffic) -> tuple[Fallback, ...]:
    entries = []
    for row in rows:
        if row.verdict.runs_on_device:
            continue
        moved = [transfer.bytes for name in row.nodes for transfer in traffic.blamed.get(name, ())]
        record = row.record()
        entries.append(
            Fallback(
                record.op,
                record.reason,
                record.count,
                None if None in moved else sum(size or 0 for size in moved),
                record.places,
                record.status,
            )
        )
    return tuple(entries)
