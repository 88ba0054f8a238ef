"""The first page: the verdict, what to do next, one tile for each tab, time by phase, and what was captured."""

from __future__ import annotations

from collections.abc import Iterator

from inductor_debug_jupyter.pipeline.records import (
    OP_STATUSES,
    CompileCapture,
    GraphBreak,
    GraphRecord,
    Phase,
    Recompile,
    SessionRecord,
)
from inductor_debug_jupyter.pipeline.records.compile import PHASE_WORDS
from inductor_debug_jupyter.pipeline.views import text, words
from inductor_debug_jupyter.pipeline.views.advice import advice
from inductor_debug_jupyter.pipeline.views.crash import crash_views
from inductor_debug_jupyter.pipeline.views.panel import diff_kind, header_view, plain_lines, verdict_kind
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.recompiles import told_recompile
from inductor_debug_jupyter.pipeline.views.shapes import (
    CaptureView,
    ItemView,
    MissingView,
    OverviewView,
    PhaseView,
    StageView,
    TileView,
)
from inductor_debug_jupyter.pipeline.views.words import ICONS, label_of, plain

NEXT_STEPS = 3
_MAX_ITEMS = 100
_OTHER = "everything else in the compiler"
_LEAST_SHARE = 0.005
"""A phase that took less of the time is part of the rest."""


def overview_view(record: SessionRecord, lookup: Lookup | None = None) -> OverviewView:
    """The first page: the verdict, what to do next, what was captured and what was not."""
    lookup = lookup or Lookup(record)
    breaks = [_break_item(item, lookup) for item in record.graph_breaks[:_MAX_ITEMS]]
    recompiles = [_recompile_item(item, lookup) for item in record.recompiles[:_MAX_ITEMS]]
    crashes = record.diff.crashes if record.diff is not None else ()
    return OverviewView(
        verdict=_verdict(record),
        kind=verdict_kind(record),
        next=_next_steps(lookup, breaks, recompiles),
        tiles=_tiles(record),
        phases=phase_views(record),
        crashes=crash_views(crashes),
        counts={"breaks": len(record.graph_breaks), "recompiles": len(record.recompiles)},
        captures=[_capture(capture) for capture in record.captures],
        breaks=breaks,
        recompiles=recompiles,
        notes=[f"{plain(note.part)}: {plain(note.message)}" for note in record.notes],
        repros=list(record.repros),
    )


def _tiles(record: SessionRecord) -> list[TileView]:
    """One figure for each tab that is there; a tile whose tab is not there is no link."""
    tabs = {tab["id"] for tab in header_view(record)["tabs"]}
    return [{**tile, "tab": tile["tab"] if tile["tab"] in tabs else ""} for tile in _all_tiles(record)]


def _all_tiles(record: SessionRecord) -> Iterator[TileView]:
    ops = sum(len(graph.calls) for capture in record.captures for graph in _opened(capture))
    yield TileView(title="Graphs", value=f"{len(record.captures):,}", note=words.count(ops, "op"), tab="graph", kind="")
    for title, number in (("Graph breaks", len(record.graph_breaks)), ("Recompiles", len(record.recompiles))):
        yield TileView(title=title, value=f"{number:,}", note="", tab="guards", kind="warning" if number else "")
    counts = text.severity_counts(record.findings)
    told = " ".join(f"{ICONS[severity]} {number:,}" for severity, number in counts.items() if number)
    named = ", ".join(words.count(number, severity) for severity, number in counts.items() if number)
    unchecked = "" if record.captures and record.target else "nothing was checked"
    yield TileView(
        title="Findings", value=told or ("–" if unchecked else "0"), note=named or unchecked, tab="findings",
        kind=next((severity for severity, number in counts.items() if number), ""),
    )  # fmt: skip
    if record.coverage is not None and record.coverage.graphs:
        yield _coverage_tile(record)
    if record.peak_memory is not None:
        over = record.memory_limit is not None and record.peak_memory > record.memory_limit
        limit = f"of {words.size(record.memory_limit)}" if record.memory_limit else "no limit known"
        value, kind = words.size(record.peak_memory), "error" if over else ""
        yield TileView(title="Peak memory", value=value, note=limit, tab="memory", kind=kind)
    if record.diff is not None:
        value = text.diff_verdict(record.diff).replace("KernelDiff: ", "")
        note = f"{plain(record.diff.reference)} against {plain(record.diff.candidate)}"
        yield TileView(title="KernelDiff", value=value, note=note, tab="diff", kind=diff_kind(record))
    if record.transfers or record.kernel_specs:
        moved = words.size(sum(transfer.bytes for transfer in record.transfers))
        note = f"{moved}, {words.count(len(record.kernel_specs), 'kernel')}"
        value = f"{len(record.transfers):,}"
        yield TileView(title="Transfers", value=value, note=note, tab="transfers", kind="")


def _opened(capture: CompileCapture) -> list[GraphRecord]:
    """The graphs that a device would be given; the traced one when there is none of them."""
    lowered = [capture.graphs[stage] for stage in ("forward", "backward") if stage in capture.graphs]
    return lowered or list(capture.graphs.values())[:1]


def _coverage_tile(record: SessionRecord) -> TileView:
    assert record.coverage is not None
    counts: dict[str, int] = {status: record.coverage.count(status) for status in OP_STATUSES}
    total = sum(counts.values())
    on_target = counts["supported"] + counts["decomposable"]
    left = [words.count(counts[status], "op") + told for status, told in _LEFT.items() if counts[status]]
    value = f"{100 * on_target // total}%" if total else "–"  # rounded down: 100% is all
    kind = "error" if counts["refused"] else "warning" if counts["fallback"] else ""
    note = ", ".join(left) or f"all {words.count(total, 'op')} on {plain(record.target)}"
    return TileView(title="Coverage", value=value, note=note, tab="placement", kind=kind)


_LEFT = {"fallback": " on the CPU", "refused": " refused"}


def phase_views(record: SessionRecord) -> list[PhaseView]:
    """Where the compiler's time went, longest first; a phase inside another one counts once, for the inner one."""
    spent: dict[str, float] = {}
    for capture in record.captures:
        for told, seconds in _own_seconds(capture.phases):
            spent[told] = spent.get(told, 0.0) + seconds
    total = sum(spent.values())
    rest = sum(seconds for told, seconds in spent.items() if seconds < _LEAST_SHARE * total and told != _OTHER)
    shown = {told: seconds for told, seconds in spent.items() if seconds >= _LEAST_SHARE * total and told != _OTHER}
    ordered = sorted(shown.items(), key=lambda pair: -pair[1])
    if (other := spent.get(_OTHER, 0.0) + rest) > 0:
        ordered.append((_OTHER, other))
    return [PhaseView(name=told, seconds=words.duration(took), share=took / total) for told, took in ordered if total]


def _own_seconds(phases: tuple[Phase, ...]) -> Iterator[tuple[str, float]]:
    """For each phase its words, or those of the phase it is part of, and its time without what ran inside it."""
    outer: list[tuple[Phase, str]] = []
    for phase in sorted(phases, key=lambda phase: (phase.start, phase.depth)):
        while outer and outer[-1][0].depth >= phase.depth:
            outer.pop()
        told = PHASE_WORDS.get(phase.name) or (outer[-1][1] if outer else _OTHER)
        yield told, phase.seconds
        if outer:
            yield outer[-1][1], -phase.seconds
        outer.append((phase, told))


def _verdict(record: SessionRecord) -> str:
    target = plain(record.target)
    if not record.captures:
        return text.NOTHING_CAPTURED
    if record.findings:
        told = text.severity_text(record.findings)
        refuses = text.severity_counts(record.findings)["error"]
        return f"{target or 'The target'} {'refuses this' if refuses else 'would take this, with remarks'}: {told}"
    if not target:
        return "Captured, but not checked: no target was given (--target NAME)."
    return f"✓ {target} takes everything that was captured."


def _next_steps(lookup: Lookup, breaks: list[ItemView], recompiles: list[ItemView]) -> list[ItemView]:
    """At most three: what the worst findings hint at, then breaks, then recompiles."""
    steps: list[ItemView] = []
    for index, finding in lookup.ordered[:NEXT_STEPS]:
        place = finding.places[0] if finding.places else None
        line = place.line if place else None
        told = (*finding.fixits, *finding.hints)
        steps.append(
            ItemView(
                where=f"{plain(label_of(line))}, line {line.line}" if line else "",
                code=plain(line.text.strip()) if line else "",
                text=plain(told[0] if told else finding.title),
                hints=[],
                kind=finding.severity,
                tab="findings",
                selection=lookup.of_finding(index),
            )
        )
    for item in (*breaks, *recompiles):
        steps.append({**item, "text": item["hints"][0] if item["hints"] else item["text"], "hints": []})
    return steps[:NEXT_STEPS]


def _break_item(item: GraphBreak, lookup: Lookup) -> ItemView:
    many = f" (×{item.count})" if item.count > 1 else ""
    return _line_item(item, plain_lines(item.reason) + many, [plain(hint) for hint in item.hints], lookup)


def _recompile_item(item: Recompile, lookup: Lookup) -> ItemView:
    hints = [plain(advice(item).text)] if item.check else []
    return _line_item(item, f"{plain(item.compile_id)}: {told_recompile(item)}", hints, lookup)


def _line_item(item: GraphBreak | Recompile, told: str, hints: list[str], lookup: Lookup) -> ItemView:
    line = item.source
    return ItemView(
        where=f"{plain(label_of(line))}, line {line.line}" if line else "",
        code=plain(line.text.strip()) if line else "",
        text=told,
        hints=hints,
        kind="warning",
        tab="graph" if lookup.graphs and line else "",
        selection=lookup.of_line(label_of(line), line.line) if line else None,
    )


def _capture(capture: CompileCapture) -> CaptureView:
    stages = []
    for stage in capture.stages:
        graph = capture.graph(stage)
        nodes, calls = (len(graph.nodes), len(graph.calls)) if graph else (None, None)
        stages.append(StageView(stage=stage, nodes=nodes, calls=calls))
    return CaptureView(
        compile_id=plain(capture.compile_id),
        name=plain(capture.name),
        where=text.line_text(capture.source) if capture.source else "",
        stages=stages,
        kernels=len(capture.kernels),
        missing=[MissingView(stage=stage, reason=plain(why)) for stage, why in capture.missing.items()],
    )
