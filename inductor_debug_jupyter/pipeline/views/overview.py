"""The dicts of the Overview tab: verdict, next steps, one tile for each tab, time by phase, and what was captured."""

from __future__ import annotations

from collections.abc import Iterator

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.harmless import one_line, plain
from inductor_debug_jupyter.pipeline.records import (
    OP_STATUSES,
    CompileCapture,
    CoverageRecord,
    GraphBreak,
    GraphRecord,
    Phase,
    Recompile,
    SessionRecord,
)
from inductor_debug_jupyter.pipeline.records.compile import PHASE_WORDS
from inductor_debug_jupyter.pipeline.records.findings import severity_counts
from inductor_debug_jupyter.pipeline.records.placement import ON_TARGET
from inductor_debug_jupyter.pipeline.views import labels, text
from inductor_debug_jupyter.pipeline.views.crash import crash_views
from inductor_debug_jupyter.pipeline.views.labels import label_of
from inductor_debug_jupyter.pipeline.views.panel import diff_kind, header_view, verdict_kind
from inductor_debug_jupyter.pipeline.views.places import Lookup, called_text, code_text, model_text, where_text
from inductor_debug_jupyter.pipeline.views.recompile_advice import advice
from inductor_debug_jupyter.pipeline.views.recompiles import recompile_text
from inductor_debug_jupyter.pipeline.views.view_types import Row
from inductor_debug_jupyter.pipeline.words import ICONS, SEVERITIES

NEXT_STEPS = 3
_MAX_ITEMS = 100
_OTHER = "everything else in the compiler"
_LEAST_SHARE = 0.005
"""A phase with a smaller share of the time is counted as :data:`_OTHER`."""


def overview_view(record: SessionRecord, lookup: Lookup | None = None) -> Row:
    """The Overview tab: verdict, next steps, tiles, phases, and the captured and missing stages.

    The verdict and its ``kind`` are of all that is known: findings, numbers, breaks and recompiles.

    ``breaks`` and ``recompiles`` are the first of very many; ``counts`` counts all.
    """
    lookup = lookup or Lookup(record)
    breaks = [_break_item(item, lookup) for item in record.graph_breaks[:_MAX_ITEMS]]
    recompiles = [_recompile_item(item, lookup) for item in record.recompiles[:_MAX_ITEMS]]
    crashes = record.diff.crashes if record.diff is not None else ()
    tabs = {tab["id"] for tab in header_view(record)["tabs"]}
    return Row(
        verdict=_verdict(record),
        kind=_kind(record),
        next=_next_steps(lookup, breaks, recompiles),
        tiles=[{**tile, "tab": tile["tab"] if tile["tab"] in tabs else ""} for tile in _tiles(record)],
        phases=phase_views(record),
        phases_note=_phases_note(record),
        crashes=crash_views(crashes),
        counts={"breaks": len(record.graph_breaks), "recompiles": len(record.recompiles)},
        captures=[_capture(capture) for capture in record.captures],
        breaks=breaks,
        recompiles=recompiles,
        notes=[f"{plain(note.part)}: {plain(note.message)}" for note in record.notes],
        repros=list(record.repros),
    )


def _tiles(record: SessionRecord) -> Iterator[Row]:
    """The tiles that the session has data for; breaks and recompiles have one even when there are none."""
    ops = sum(len(graph.calls) for capture in record.captures for graph in _opened(capture))
    yield Row(title="Graphs", value=f"{len(record.captures):,}", note=words.count(ops, "op"), tab="graph", kind="")
    for title, number in (("Graph breaks", len(record.graph_breaks)), ("Recompiles", len(record.recompiles))):
        yield Row(title=title, value=f"{number:,}", note="", tab="guards", kind="warning" if number else "")
    yield _findings_tile(record)
    if record.coverage is not None and record.coverage.graphs:
        yield _coverage_tile(record, record.coverage)
    if record.peak_memory is not None:
        yield _memory_tile(record, record.peak_memory)
    if record.diff is not None:
        value = text.diff_verdict(record.diff).replace("KernelDiff: ", "")
        note = f"{plain(record.diff.reference)} against {plain(record.diff.candidate)}"
        yield Row(title="KernelDiff", value=value, note=note, tab="diff", kind=diff_kind(record))
    if record.transfers or record.kernel_specs:
        moved = words.size(sum(transfer.bytes for transfer in record.transfers))
        note = f"{moved}, {words.count(len(record.kernel_specs), 'kernel')}"
        value = f"{len(record.transfers):,}"
        yield Row(title="Transfers", value=value, note=note, tab="transfers", kind="")


def _findings_tile(record: SessionRecord) -> Row:
    found = {severity: number for severity, number in severity_counts(record.findings).items() if number}
    value = " ".join(f"{ICONS[severity]} {number:,}" for severity, number in found.items())
    note = ", ".join(words.count(number, severity) for severity, number in found.items())
    unchecked = "" if record.captures and record.target else "nothing was checked"
    return Row(
        title="Findings",
        value=value or ("–" if unchecked else "0"),
        note=note or unchecked,
        tab="findings",
        kind=next(iter(found), ""),
    )


def _memory_tile(record: SessionRecord, peak: int) -> Row:
    limit = record.memory_limit
    note = f"of {words.size(limit)}" if limit else "no limit known"
    kind = "error" if limit is not None and peak > limit else ""
    return Row(title="Peak memory", value=words.size(peak), note=note, tab="memory", kind=kind)


def _opened(capture: CompileCapture) -> list[GraphRecord]:
    """The graphs that a device is given (AOT forward and backward), or the first one where there are none."""
    lowered = [capture.graphs[stage] for stage in ("forward", "backward") if stage in capture.graphs]
    return lowered or list(capture.graphs.values())[:1]


def _coverage_tile(record: SessionRecord, coverage: CoverageRecord) -> Row:
    counts: dict[str, int] = {status: coverage.count(status) for status in OP_STATUSES}
    total = sum(counts.values())
    on_target = coverage.count(*ON_TARGET)
    left = [words.count(counts[status], "op") + end for status, end in _LEFT.items() if counts[status]]
    value = words.share(on_target, total) if total else "–"
    kind = "" if on_target == total else "error" if severity_counts(record.findings)["error"] else "warning"
    note = ", ".join(left) or f"all {words.count(total, 'op')}"
    return Row(title="Coverage", value=value, note=note, tab="placement", kind=kind)


_LEFT = {"fallback": " left to the CPU", "refused": " refused"}


def phase_views(record: SessionRecord) -> list[Row]:
    """The compiler's time by phase, longest first; time of a phase inside another counts for the inner one only.

    ``share`` is that of all its time, from 0 to 1.
    """
    spent: dict[str, float] = {}
    for capture in record.captures:
        for name, seconds in _own_seconds(capture.phases):
            spent[name] = spent.get(name, 0.0) + seconds
    total = sum(spent.values())
    rest = sum(seconds for name, seconds in spent.items() if seconds < _LEAST_SHARE * total and name != _OTHER)
    shown = {name: seconds for name, seconds in spent.items() if seconds >= _LEAST_SHARE * total and name != _OTHER}
    ordered = sorted(shown.items(), key=lambda pair: -pair[1])
    if (other := spent.get(_OTHER, 0.0) + rest) > 0:
        ordered.append((_OTHER, other))
    return [Row(name=name, seconds=words.duration(took), share=took / total) for name, took in ordered if total]


def _phases_note(record: SessionRecord) -> str:
    """All of the compiler's time; where Inductor's part came after the findings, when these were there."""
    total = sum(seconds for capture in record.captures for _, seconds in _own_seconds(capture.phases))
    if not total:
        return ""
    later = f", the findings were there after {words.duration(record.seconds)}" if total > record.seconds > 0 else ""
    return f"{words.duration(total)} in all{later}"


def _own_seconds(phases: tuple[Phase, ...]) -> Iterator[tuple[str, float]]:
    """For each phase its title, or that of the phase around it, and its time without the phases inside it."""
    outer: list[tuple[Phase, str]] = []
    for phase in sorted(phases, key=lambda phase: (phase.start, phase.depth)):
        while outer and outer[-1][0].depth >= phase.depth:
            outer.pop()
        name = PHASE_WORDS.get(phase.name) or (outer[-1][1] if outer else _OTHER)
        yield name, phase.seconds
        if outer:
            yield outer[-1][1], -phase.seconds
        outer.append((phase, name))


def _kind(record: SessionRecord) -> str:
    """The worst of what the verdict says."""
    kinds = [verdict_kind(record), diff_kind(record), "warning" if record.graph_breaks or record.recompiles else ""]
    return next((kind for kind in (*SEVERITIES, "good") if kind in kinds), "")


def _verdict(record: SessionRecord) -> str:
    """What became of it in a sentence."""
    if not record.captures:
        return text.NOTHING_CAPTURED
    numbers = _numbers(record)
    if record.findings:
        found = text.severity_text(record.findings)
        refuses = "refuses this" if severity_counts(record.findings)["error"] else "would take this, with remarks"
        return f"{_target(record)} {refuses}: {found}{numbers}"
    counted = ((len(record.graph_breaks), "graph break"), (len(record.recompiles), "recompile"))
    events = ", ".join(words.count(number, noun) for number, noun in counted if number)
    if not record.target:
        in_graphs = f", in {words.count(len(record.captures), 'graph')}: {events}" if events else ""
        return f"Captured, but not checked: no target was given (--target NAME){numbers}{in_graphs}."
    sign = {**ICONS, "good": "✓"}[_kind(record)]
    takes = f"{_target(record)} takes everything that was captured{numbers}"
    in_graphs = f"{events} ({words.count(len(record.captures), 'graph')})"
    if numbers or not events:
        return f"{sign} {takes}{f'; {in_graphs}' if events else ''}."
    return f"{sign} {in_graphs}. {takes}."


def _target(record: SessionRecord) -> str:
    """The target as the beginning of a sentence; ``default`` alone would be no word for one."""
    return plain(record.target) if record.target not in ("", "default") else "The default target"


def _numbers(record: SessionRecord) -> str:
    """The end of a verdict that says what is wrong with the numbers; empty when they are right or not compared."""
    if record.diff is None or diff_kind(record) == "good":
        return ""
    verdict = text.diff_verdict(record.diff).partition("KernelDiff: ")[2]
    return (
        f", but the numbers are wrong: {verdict}"
        if diff_kind(record) == "error"
        else f", but the numbers were {verdict}"
    )


def _next_steps(lookup: Lookup, breaks: list[Row], recompiles: list[Row]) -> list[Row]:
    """At most three: what is wrong, where in the model, and what to do.

    Wrong numbers come first, then findings, breaks and recompiles.
    """
    steps = [*_wrong_numbers(lookup)]
    for index, finding in lookup.ordered[:NEXT_STEPS]:
        place = finding.places[0] if finding.places else None
        advice_line = next(iter((*finding.fixits, *finding.hints)), "")
        steps.append(
            Row(
                where=model_text(place) if place else "",
                called_from=called_text(place) if place else "",
                code=code_text(place.line if place else None),
                title=plain(finding.title),
                rule_id=plain(finding.rule_id),
                verified=bool(finding.fixits),
                text=": ".join(filter(None, [plain(finding.title), plain(advice_line)])),
                hints=[],
                kind=finding.severity,
                tab="findings",
                selection=lookup.of_finding(index),
            )
        )
    for item in (*breaks, *recompiles):
        steps.append({**item, "text": item["headline"], "hints": item["hints"][:1]})
    return steps[:NEXT_STEPS]


def _wrong_numbers(lookup: Lookup) -> Iterator[Row]:
    """The op that brings a wrong number in, and its line; while that is not known, how to find it."""
    record = lookup.record
    found = record.localization
    step = Row(where="", code="", hints=[], kind="error", tab="diff", selection=None)
    for culprit in found.culprits if found else ():
        op, candidate = labels.short_op(plain(culprit.op)), plain(found.candidate) if found else ""
        crashed = culprit.allowed is None
        yield step | Row(
            text=f"{op} ends the process of {candidate}" if crashed else f"{op} computes wrong numbers on {candidate}",
            where=" · ".join(filter(None, [where_text(culprit.source), plain(culprit.module_path)])),
            code=code_text(culprit.source),
            hints=["session.reproduce() writes a script that shows it, session.bug_report(path) a report"],
        )
    if record.diff is not None and record.diff.verdict == "mismatch" and found is None:
        verdict = text.diff_verdict(record.diff).partition("KernelDiff: ")[2]
        hint = "session.localize() finds the op that brings it in, and its line"
        yield step | Row(text=f"The numbers are wrong: {verdict}", hints=[hint])


def _break_item(item: GraphBreak, lookup: Lookup) -> Row:
    many = f" (×{item.count})" if item.count > 1 else ""
    headline = f"Graph break: {plain(item.gb_type) or one_line(item.reason)}{many}"
    return _line_item(item, one_line(item.reason) + many, headline, [plain(hint) for hint in item.hints], lookup)


def _recompile_item(item: Recompile, lookup: Lookup) -> Row:
    hints = [plain(advice(item).text)] if item.check else []
    message = recompile_text(item)
    return _line_item(item, f"{plain(item.compile_id)}: {message}", f"Recompile: {message}", hints, lookup)


def _line_item(item: GraphBreak | Recompile, message: str, headline: str, hints: list[str], lookup: Lookup) -> Row:
    """A graph break or recompile: the user's line, the message and hints; clicking it opens ``tab``."""
    line = item.source
    return Row(
        where=where_text(line),
        code=code_text(line),
        text=message,
        headline=headline,
        hints=hints,
        kind="warning",
        tab="graph" if lookup.graphs and line else "",
        selection=lookup.of_line(label_of(line), line.line) if line else None,
    )


def _capture(capture: CompileCapture) -> Row:
    """One compile id; ``nodes`` and ``calls`` of a stage are None where the stage is text."""
    stages = []
    for stage in capture.stages:
        graph = capture.graph(stage)
        nodes, calls = (len(graph.nodes), len(graph.calls)) if graph else (None, None)
        stages.append(Row(stage=stage, nodes=nodes, calls=calls))
    return Row(
        compile_id=plain(capture.compile_id),
        name=plain(capture.name),
        where=text.line_text(capture.source) if capture.source else "",
        stages=stages,
        kernels=len(capture.kernels),
        missing=[Row(stage=stage, reason=plain(why)) for stage, why in text.gaps(capture)],
    )
