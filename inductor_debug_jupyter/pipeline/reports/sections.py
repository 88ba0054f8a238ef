"""The data of each part of the page: records sorted and grouped, with their pictures.

What belongs together and the text for an empty part is decided here; the template lays out, shows the first of very
many (:data:`SHOWN`) and counts the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from inductor_debug_jupyter.pipeline.reading import read_regular
from inductor_debug_jupyter.pipeline.records import BenchmarkRecord, DiffRecord, SessionRecord, SourceLine, Violation
from inductor_debug_jupyter.pipeline.records.compile import PHASE_WORDS
from inductor_debug_jupyter.pipeline.reports.collect import ReportData
from inductor_debug_jupyter.pipeline.reports.images import graph_image, heatmap_image, stored_image
from inductor_debug_jupyter.pipeline.reports.json_report import kernel_diff_passed
from inductor_debug_jupyter.pipeline.reports.offline_panel import pieces
from inductor_debug_jupyter.pipeline.store import Artifact
from inductor_debug_jupyter.pipeline.views.guards import guard_rows
from inductor_debug_jupyter.pipeline.views.labels import label_of
from inductor_debug_jupyter.pipeline.views.localization import localization_text
from inductor_debug_jupyter.pipeline.views.memory import memory_lines
from inductor_debug_jupyter.pipeline.views.placement import fallback_line
from inductor_debug_jupyter.pipeline.views.places import STAGE_PREFERENCE, Lookup, worst_first
from inductor_debug_jupyter.pipeline.views.text import header_line, severity_text
from inductor_debug_jupyter.pipeline.views.transfers import transfers_summary
from inductor_debug_jupyter.pipeline.views.view_types import Row
from inductor_debug_jupyter.pipeline.words import count, duration

ILLUSTRATED_SESSIONS = 12
"""How many of the newest sessions are shown with pictures and code."""
PANELS = 3
"""How many of the newest sessions have a panel."""
SHOWN: Final = {"guards": 100, "lines": 5, "outputs": 40, "transfers": 200}
"""How many of each the page shows."""
LARGEST_REPRO = 200_000
"""Bytes of a repro script that is shown."""
_COMPILES = 4
_KERNELS = 12


def summary_cards(data: ReportData) -> list[Row]:
    """The figures at the top. Sessions without a check or a comparison are never counted as good."""
    sessions = data.sessions
    names = Counter(record.name or "unnamed" for record in sessions)
    findings = _distinct_findings(sessions)
    checked = [record for record in sessions if record.captures and record.target]
    clean = [record for record in checked if all(finding.severity != "error" for finding in record.findings)]
    passes = [passed for record in sessions if (passed := kernel_diff_passed(record)) is not None]
    return [
        _card("Sessions", str(len(sessions)), count(sum(len(record.captures) for record in sessions), "graph")),
        _card("Models", str(len(names)), ", ".join(list(names)[:4]) + (", …" if len(names) > 4 else "")),
        _card("Findings", str(len(findings)), severity_text(findings) or "none"),
        _rate("Without errors", len(clean), len(checked), "checked session", "nothing was checked"),
        _rate("KernelDiff", sum(passes), len(passes), "comparison", "nothing was compared"),
        *(
            [_card("Benchmarks", str(len(data.benchmarks)), _speedups(newest(data.benchmarks)))]
            if data.benchmarks
            else []
        ),
    ]


def _distinct_findings(sessions: Sequence[SessionRecord]) -> list[Violation]:
    """Each finding once: the same cell, run again, finds the same."""
    kinds = [kind for of_model in findings_by_model(sessions).values() for kind in of_model]
    return [row["finding"] for kind in kinds for row in kind["findings"]]


def _card(title: str, value: str, note: str, tone: str = "") -> Row:
    """One figure; ``tone`` is ``good``, ``bad`` or empty."""
    return Row(title=title, value=value, note=note, tone=tone)


def _rate(title: str, good: int, total: int, noun: str, nothing: str) -> Row:
    if not total:
        return _card(title, "–", nothing)
    tone = "good" if good == total else "bad"
    return _card(title, f"{100 * good / total:.0f}%", f"{good} of {count(total, noun)}", tone)


def _speedups(benchmarks: Sequence[BenchmarkRecord]) -> str:
    known = [record.speedup for record in benchmarks if record.speedup]
    return f"Inductor {min(known):.2f}× to {max(known):.2f}×" if known else ""


def newest(benchmarks: Sequence[BenchmarkRecord]) -> list[BenchmarkRecord]:
    """The newest result of each model on each device, by name."""
    first: dict[tuple[str, str], BenchmarkRecord] = {}
    for record in benchmarks:
        first.setdefault((record.model, record.device), record)
    return sorted(first.values(), key=lambda record: (record.model, record.device))


def older(benchmarks: Sequence[BenchmarkRecord]) -> list[BenchmarkRecord]:
    """The results that are not among the :func:`newest`, the newest first."""
    shown = {id(record) for record in newest(benchmarks)}
    return [record for record in benchmarks if id(record) not in shown]


def findings_by_model(sessions: Iterable[SessionRecord]) -> dict[str, list[Row]]:
    """Model → kinds (``align`` for ``align.innermost`` and its like) → findings, worst first.

    The same finding of several sessions is listed once, with its lines and the ids of those sessions.
    """
    models: dict[str, dict[tuple[object, ...], Row]] = {}
    for record in sessions:
        for _, finding in worst_first(record.findings):
            lines = _lines_of(finding)
            where = tuple((label_of(line), line.line) for line in lines)
            key = (finding.rule_id, finding.title, finding.observed, where)
            listed = models.setdefault(record.name or "unnamed", {})
            listed.setdefault(key, Row(finding=finding, lines=lines, sessions={}))["sessions"][record.id] = None
    return {model: _by_kind(found.values()) for model, found in models.items()}


def _by_kind(findings: Iterable[Row]) -> list[Row]:
    kinds: dict[str, list[Row]] = {}
    for each in findings:
        kinds.setdefault(each["finding"].rule_id.partition(".")[0], []).append(each)
    return [
        Row(kind=kind, findings=found, counts=severity_text([each["finding"] for each in found]))
        for kind, found in kinds.items()
    ]


def _lines_of(finding: Violation) -> list[SourceLine]:
    lines = (place.line for place in finding.places)
    return list({(label_of(line), line.line): line for line in lines if line}.values())


def diffs(data: ReportData) -> list[Row]:
    """Every comparison, with heatmaps drawn from the record, or else the PNGs that were stored."""
    return [_diff(record, record.diff, data.store.folder) for record in data.sessions if record.diff]


def _diff(record: SessionRecord, diff: DiffRecord, folder: Path) -> Row:
    heatmaps = [
        (output, heatmap_image(output.heatmap, passed=output.passed))
        for output in diff.outputs[: SHOWN["outputs"]]
        if output.heatmap
    ]
    images = [] if heatmaps else [image for path in diff.images if (image := stored_image(path, folder))]
    return Row(session=record, diff=diff, heatmaps=heatmaps, images=images)


def session_sections(data: ReportData) -> list[Row]:
    """One section for each session, the newest first."""
    return [
        _session_section(
            record, data.artifacts[record.id], data.store.folder, illustrated=position < ILLUSTRATED_SESSIONS
        )
        | Row(pieces=list(pieces(record, list(data.trials))) if position < PANELS else [])
        for position, record in enumerate(data.sessions)
    ]


def _session_section(record: SessionRecord, artifacts: tuple[Artifact, ...], folder: Path, *, illustrated: bool) -> Row:
    return Row(
        record=record,
        header=header_line(record),
        pictures=_pictures(record) if illustrated else [],
        texts=_texts(record) if illustrated else [],
        guards=guard_rows(record.guards),
        texts_of_parts=list(texts_of_parts(record)),
        repros=repros_of(artifacts, folder) if illustrated else [],
        moved=transfers_summary(record.transfers, record.kernel_specs),
        missing=[
            (capture.compile_id, stage, reason)
            for capture in record.captures
            for stage, reason in capture.missing.items()
        ],
        artifacts=artifacts,
    )


def texts_of_parts(record: SessionRecord) -> Iterator[tuple[str, str]]:
    """Title and text of what was searched, planned and timed; empty parts are left out."""
    if record.localization is not None:
        yield "Where the error comes in", localization_text(record.localization)
    if record.error_budget is not None:
        yield "Error budget", str(record.error_budget)
    if record.kernel_times is not None:
        yield "Where the time goes", str(record.kernel_times)
    if record.prescription is not None:
        yield "Ops to keep in float32", str(record.prescription)
    if record.coverage is not None and record.coverage.graphs:
        yield "Placement", "\n".join([str(record.coverage), *map(fallback_line, record.coverage.fallbacks)])
    if record.memory:
        lines = [line for each in record.memory for line in memory_lines(each, record.memory_limit)]
        yield "Memory", "\n".join(lines)
    times = [
        f"{capture.compile_id} {PHASE_WORDS[name]}: {duration(seconds)}"
        for capture in record.captures
        for name, seconds in capture.seconds.items()
        if name in PHASE_WORDS
    ]
    if times:
        yield "Time to compile", "\n".join(times)


def repros_of(artifacts: Iterable[Artifact], folder: Path) -> list[tuple[str, str]]:
    """Name and text of the repro scripts that are still there."""
    found = []
    for artifact in artifacts:
        if artifact.room == "repros":
            try:
                data = read_regular(folder / artifact.path, LARGEST_REPRO)
            except OSError:
                continue
            found.append((artifact.name, data.decode("utf-8", "replace")))
    return found


def _pictures(record: SessionRecord) -> list[Row]:
    """One picture for each of the first compiles: the graph that a device is given."""
    lookup = Lookup(record)
    chosen: dict[str, str] = {}
    for stage in STAGE_PREFERENCE:
        for compile_id, have in lookup.graphs:
            if have == stage:
                chosen.setdefault(compile_id, stage)
    pictures = []
    for compile_id, stage in list(chosen.items())[:_COMPILES]:
        address, note = graph_image(lookup, compile_id, stage)
        ops = count(len(lookup.graphs[compile_id, stage].calls), "op")
        pictures.append(Row(title=f"{compile_id} {stage}, {ops}", address=address, note=note))
    return pictures


def _texts(record: SessionRecord) -> list[tuple[str, str, str]]:
    """Title, text and language of each stage and kernel of the first compiles."""
    found: list[tuple[str, str, str]] = []
    for capture in record.captures[:_COMPILES]:
        for stage in capture.stages:
            if (text := capture.text(stage)) is not None:
                found.append((f"{capture.compile_id} {stage}", text, "text" if stage.startswith("ir_") else "python"))
        found += [
            (f"{capture.compile_id} kernel {kernel.name}", kernel.code, kernel.language)
            for kernel in capture.kernels[:_KERNELS]
        ]
    return found
