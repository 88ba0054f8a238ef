"""Op coverage: each op of a graph is supported, decomposable, falling back or refused, with the reason and the lines.

The rules decide first: a node about which a rule reports an error does not run on the target, whatever the rule. It
falls back to the CPU, or is refused where the profile allows no fallback, and the reason is the problem's title. For
the other nodes :mod:`~inductor_debug_jupyter.pipeline.devices.support` says whether the target has the op or runs its
parts. The parts of a decomposed op share the worst verdict among them. The verdicts give each op its side (device or
CPU), the sides give segments and transfers, and these give the ledger of what falls back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from inductor_debug_jupyter.pipeline.devices.checker import (
    PlacedProblem,
    checked_graphs,
    place_of,
    problems_of,
    rules_for,
)
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint
from inductor_debug_jupyter.pipeline.devices.ops import VIEWS, bare_name
from inductor_debug_jupyter.pipeline.devices.partition import Traffic, full_sides, segments_of, traffic_of
from inductor_debug_jupyter.pipeline.devices.profile import MEANT, DeviceProfile
from inductor_debug_jupyter.pipeline.devices.support import (
    RUNS_ON_DEVICE,
    OpSupport,
    OpVerdict,
    UnsupportedOpsConstraint,
)
from inductor_debug_jupyter.pipeline.records import (
    OP_STATUSES,
    CompileCapture,
    CoverageRecord,
    Fallback,
    GraphCoverage,
    GraphRecord,
    NodeRecord,
    OpRow,
    OpStatus,
    Place,
    Side,
)


def coverage_of(
    captures: Sequence[CompileCapture],
    profile: DeviceProfile,
    rules: Sequence[Constraint] | None = None,
    problems: Iterable[PlacedProblem] | None = None,
) -> CoverageRecord:
    """The coverage of every captured graph on a target.

    Args:
        captures: the compiles.
        profile: the target.
        rules: the rules that refuse nodes; the profile's own when not given.
        problems: what these rules report, where the caller has it already.
    """
    rules = rules_for(profile) if rules is None else rules
    problems = problems_of(rules, captures, profile.cpu) if problems is None else problems
    surveyor = _Surveyor(profile, rules, problems)
    graphs = [surveyor.survey(graph, capture.compile_id) for capture in captures for graph in checked_graphs(capture)]
    return CoverageRecord(profile.name, tuple(graphs))


def graph_coverage(graph: GraphRecord, profile: DeviceProfile, compile_id: str = "") -> GraphCoverage:
    """The coverage of one graph on a target."""
    return coverage_of([CompileCapture(compile_id, graphs={graph.stage: graph})], profile).graphs[0]


class _Surveyor:
    """Surveys graphs for one profile, its rules and the problems that they report."""

    def __init__(self, profile: DeviceProfile, rules: Sequence[Constraint], problems: Iterable[PlacedProblem]) -> None:
        self._profile = profile
        self._lacking: OpStatus = "fallback" if profile.fallback == "cpu" else "refused"
        by_name = (rule.support for rule in rules if isinstance(rule, UnsupportedOpsConstraint))
        self._support = next(by_name, None) or OpSupport(decompose=profile.decompose)
        self._refused = _refused(problems)

    def survey(self, graph: GraphRecord, compile_id: str) -> GraphCoverage:
        verdicts = self._verdicts(graph, compile_id)
        sides: dict[str, Side] = {
            name: "device" if verdict.runs_on_device else "cpu" for name, verdict in verdicts.items()
        }
        segments = segments_of(graph, full_sides(graph, sides))
        traffic = traffic_of(graph, segments, self._profile)
        rows, narrow = _rows(graph, compile_id, verdicts), self._profile.narrow
        narrowed = Counter(spec.dtype for node in graph.nodes for spec in node.outputs if spec.dtype in narrow)
        return GraphCoverage(
            compile_id=compile_id,
            stage=graph.stage,
            nodes=len(graph.calls),
            rows=tuple(row for row, _ in rows),
            segments=segments,
            transfers=tuple(traffic.transfers),
            fallbacks=_ledger(rows, traffic),
            narrowed=tuple((dtype, narrow[dtype], number) for dtype, number in sorted(narrowed.items())),
        )

    def _verdicts(self, graph: GraphRecord, compile_id: str) -> dict[str, OpVerdict]:
        """Node → its verdict; all parts of a decomposed op get that of the first part that leaves the target."""
        on_cpu = self._profile.cpu.names(graph, compile_id)
        verdicts: dict[str, OpVerdict] = {}
        worst: dict[tuple[str, str], OpVerdict] = {}
        for node in graph.calls:
            verdict = self._verdict(node, graph, compile_id)
            if node.name in on_cpu:
                verdict = OpVerdict(verdict.op, "fallback", MEANT)
            verdicts[node.name] = verdict
            if node.composite and not verdict.runs_on_device:
                worst.setdefault((node.composite, node.call), verdict)
        parts = (node for node in graph.calls if node.composite) if worst else ()
        return verdicts | {node.name: worst.get((node.composite, node.call), verdicts[node.name]) for node in parts}

    def _verdict(self, node: NodeRecord, graph: GraphRecord, compile_id: str) -> OpVerdict:
        verdict = self._support.verdict(node, graph)
        if not verdict.runs_on_device:
            return replace(verdict, status=self._lacking)
        refused = self._refused.get((compile_id, graph.stage, node.name))
        return verdict if refused is None else OpVerdict(verdict.op, self._lacking, refused)


def _refused(problems: Iterable[PlacedProblem]) -> dict[tuple[str, str, str], str]:
    """Compile id, stage and name of every node that a rule refuses → the title of its first error."""
    refused: dict[tuple[str, str, str], str] = {}
    for each in problems:
        if each.severity != "error":
            continue
        for graph, name in _nodes_of(each):
            refused.setdefault((each.capture.compile_id, graph.stage, name), each.problem.title)
    return refused


def _nodes_of(placed: PlacedProblem) -> Iterator[tuple[GraphRecord, str]]:
    """The nodes that a problem is about; a Dynamo node that was lowered stands for the AOT nodes made from it."""
    lowered = checked_graphs(placed.capture)
    if any(placed.graph is graph for graph in lowered):
        yield placed.graph, placed.place.node
        return
    for graph in lowered:
        if graph.stage != "backward":
            made = [node for node in graph.calls if placed.problem.node in node.origins]
            computing = [node for node in made if bare_name(node.target) not in VIEWS]
            yield from ((graph, node.name) for node in computing or made)


def _rows(graph: GraphRecord, compile_id: str, verdicts: dict[str, OpVerdict]) -> list[tuple[OpRow, list[str]]]:
    """One row for each op and verdict with the names of its nodes, worst first, then the most frequent.

    An op that leaves the target has a place for each module and line, an op that the target runs for each line.
    """
    found: dict[OpVerdict, tuple[list[str], dict[object, Place]]] = {}
    for node in graph.calls:
        verdict, source = verdicts[node.name], node.source
        names, places = found.setdefault(verdict, ([], {}))
        names.append(node.name)
        where = (source.file, source.line) if source else (node.name, 0)
        key = where if verdict.runs_on_device else (*where, node.module_path)
        if key not in places:
            places[key] = place_of(compile_id, graph, node.name)
    rows = [
        (OpRow(each.op, each.status, len(names), each.reason, each.parts, tuple(places.values())), names)
        for each, (names, places) in found.items()
    ]
    order = {status: -rank for rank, status in enumerate(OP_STATUSES)}
    return sorted(rows, key=lambda row: (order[row[0].status], -row[0].count, row[0].op))


def _ledger(rows: list[tuple[OpRow, list[str]]], traffic: Traffic) -> tuple[Fallback, ...]:
    entries = []
    for row, names in rows:
        if row.status in RUNS_ON_DEVICE:
            continue
        sizes = [transfer.bytes for name in names for transfer in traffic.blamed.get(name, ())]
        moved = None if None in sizes else sum(size or 0 for size in sizes)
        entries.append(Fallback(row.op, row.reason, row.count, moved, row.places, row.status))
    return tuple(entries)
