"""Every op of a graph on a target: supported, decomposable, falling back or refused, with the reason and the lines.

The verdict on a node is that on its op (see :mod:`~inductor_debug_jupyter.pipeline.devices.support`) and on the dtypes
that it reads and makes. The parts of a decomposed op share one verdict, the worst. From the verdicts follow the sides,
from these the segments and transfers, and the ledger of what falls back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.devices.checker import (
    checked_graphs,
    dtype_rule,
    op_support,
    place_of,
)
from inductor_debug_jupyter.pipeline.devices.cpu_side import MEANT
from inductor_debug_jupyter.pipeline.devices.ops import VIEWS, bare_name
from inductor_debug_jupyter.pipeline.devices.partition import Traffic, full_sides, segments_of, traffic_of
from inductor_debug_jupyter.pipeline.devices.profile import DeviceProfile
from inductor_debug_jupyter.pipeline.devices.support import OpVerdict
from inductor_debug_jupyter.pipeline.records import (
    OP_STATUSES,
    CompileCapture,
    CoverageRecord,
    Fallback,
    GraphCoverage,
    GraphRecord,
    OpRow,
    Place,
    Side,
)


def coverage_of(captures: Sequence[CompileCapture], profile: DeviceProfile) -> CoverageRecord:
    """Every captured graph on a target."""
    surveyor = _Surveyor(profile)
    graphs = [surveyor.survey(graph, capture.compile_id) for capture in captures for graph in checked_graphs(capture)]
    return CoverageRecord(profile.name, tuple(graphs))


def graph_coverage(graph: GraphRecord, profile: DeviceProfile, compile_id: str = "") -> GraphCoverage:
    """One graph on a target."""
    return _Surveyor(profile).survey(graph, compile_id)


class _Surveyor:
    """Looks at graphs with one profile."""

    def __init__(self, profile: DeviceProfile) -> None:
        self._profile = profile
        self._support = op_support(profile)
        self._dtypes = dtype_rule(profile)

    def survey(self, graph: GraphRecord, compile_id: str) -> GraphCoverage:
        verdicts = self._verdicts(graph, self._profile.cpu.names(graph, compile_id))
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

    def _verdicts(self, graph: GraphRecord, meant: frozenset[str]) -> dict[str, OpVerdict]:
        verdicts: dict[str, OpVerdict] = {}
        worst: dict[tuple[str, str], OpVerdict] = {}
        for node in graph.calls:
            verdict = self._support.verdict(node, graph)
            if verdict.runs_on_device and self._dtypes is not None and bare_name(node.target) not in VIEWS:
                dtype = None if node.name in graph.interior else self._dtypes.refused(node, graph)
                if dtype is not None:
                    status = "fallback" if self._profile.fallback == "cpu" else "refused"
                    verdict = OpVerdict(verdict.op, status, f"{dtype} is not supported", dtype)  # type: ignore[arg-type]
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
