"""The data of each part of the page: records sorted, grouped and cut to what a person reads.

Every choice (what belongs together, how much is shown, the text for an empty part) is made here, and the template only
lays out. What is left out is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inductor_debug_jupyter.pipeline.records import (
    BenchmarkRecord,
    DiffRecord,
    OutputDiff,
    SessionRecord,
    SourceLine,
    Violation,
)
from inductor_debug_jupyter.pipeline.reports.collect import ReportData
from inductor_debug_jupyter.pipeline.reports.images import graph_image, heatmap_image, stored_image
from inductor_debug_jupyter.pipeline.reports.json_report import kernel_diff_passed
from inductor_debug_jupyter.pipeline.store import Artifact
from inductor_debug_jupyter.pipeline.views.crash import crash_text
from inductor_debug_jupyter.pipeline.views.guards import guard_rows
from inductor_debug_jupyter.pipeline.views.labels import label_of
from inductor_debug_jupyter.pipeline.views.places import STAGE_PREFERENCE, Lookup, worst_first
from inductor_debug_jupyter.pipeline.views.text import header_line, severity_text
from inductor_debug_jupyter.pipeline.views.transfers import kernel_json, kernel_line, transfer_line, transfers_summary
from inductor_debug_jupyter.pipeline.views.view_types import Row
from inductor_debug_jupyter.pipeline.words import count

ILLUSTRATED_SESSIONS = 12
"""How many of the newest sessions are shown with pictures and code."""
PICTURES = 4
GUARDS = 100
LINES = 5
OUTPUTS = 40
KERNELS = 12
TRANSFERS = 200


@dataclass(frozen=True)
class Card:
    """One figure of the summary; ``tone`` is ``good``, ``bad`` or empty."""

    title: str
    value: str
    note: str = ""
    tone: str = ""


def summary_cards(data: ReportData) -> list[Card]:
    """The figures at the top. Sessions without a check or a comparison are never counted as good."""
    sessions = data.sessions
    names = Counter(record.name or "unnamed" for record in sessions)
    findings = [finding for record in sessions for finding in record.findings]
    checked = [record for record in sessions if record.captures and record.target]
    clean = [record for record in checked if all(finding.severity != "error" for finding in record.findings)]
    passes = [passed for record in sessions if (passed := kernel_diff_passed(record)) is not None]
    return [
        Card("Sessions", str(len(sessions)), count(sum(len(record.captures) for record in sessions), "graph")),
        Card("Models", str(len(names)), ", ".join(list(names)[:4]) + (", …" if len(names) > 4 else "")),
        Card("Findings", str(len(findings)), severity_text(findings) or "none"),
        _rate("Without errors", len(clean), len(checked), "checked session", "nothing was checked"),
        _rate("KernelDiff", sum(passes), len(passes), "comparison", "nothing was compared"),
        Card("Benchmarks", str(len(data.benchmarks)), _speedups(newest(data.benchmarks))),
    ]


def _rate(title: str, good: int, total: int, noun: str, nothing: str) -> Card:
    if not total:
        return Card(title, "–", nothing)
    tone = "good" if good == total else "bad"
    return Card(title, f"{100 * good / total:.0f}%", f"{good} of {count(total, noun)}", tone)


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


@dataclass
class ReportFinding:
    """A finding with its lines, and the sessions that have it."""

    finding: Violation
    lines: list[SourceLine]
    more_lines: int
    sessions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FindingKind:
    """The findings of one kind: ``align`` for ``align.innermost`` and its like."""

    kind: str
    findings: list[ReportFinding]

    @property
    def counts(self) -> str:
        """``✗ 3 errors``."""
        return severity_text([each.finding for each in self.findings])


def findings_by_model(sessions: Iterable[SessionRecord]) -> dict[str, list[FindingKind]]:
    """Model → kinds → findings, worst first; the same finding of several sessions is listed once."""
    models: dict[str, dict[tuple[object, ...], ReportFinding]] = {}
    for record in sessions:
        for _, finding in worst_first(record.findings):
            lines = _lines_of(finding)
            where = tuple((label_of(line), line.line) for line in lines)
            key = (finding.rule_id, finding.title, finding.observed, where)
            new = ReportFinding(finding, lines[:LINES], max(0, len(lines) - LINES))
            listed = models.setdefault(record.name or "unnamed", {}).setdefault(key, new)
            if record.id not in listed.sessions:
                listed.sessions.append(record.id)
    return {model: _by_kind(list(found.values())) for model, found in models.items()}


def _by_kind(findings: list[ReportFinding]) -> list[FindingKind]:
    kinds: dict[str, list[ReportFinding]] = {}
    for each in findings:
        kinds.setdefault(each.finding.rule_id.partition(".")[0], []).append(each)
    return [FindingKind(kind, found) for kind, found in kinds.items()]


def _lines_of(finding: Violation) -> list[SourceLine]:
    lines = (place.line for place in finding.places)
    return list({(label_of(line), line.line): line for line in lines if line}.values())


@dataclass(frozen=True)
class ReportOutput:
    """One compared output, and the picture of its errors."""

    output: OutputDiff
    heatmap: str


@dataclass(frozen=True)
class ReportDiff:
    """One comparison."""

    session: SessionRecord
    diff: DiffRecord
    outputs: list[ReportOutput]
    more_outputs: int
    images: list[str]
    crashes: list[str]


def diffs(data: ReportData) -> list[ReportDiff]:
    """Every comparison, with heatmaps drawn from the record, or else the PNGs that were stored."""
    return [_report_diff(record, record.diff, data.store.folder) for record in data.sessions if record.diff]


def _report_diff(record: SessionRecord, diff: DiffRecord, folder: Path) -> ReportDiff:
    outputs = [
        ReportOutput(output, heatmap_image(output.heatmap, passed=output.passed) if output.heatmap else "")
        for output in diff.outputs[:OUTPUTS]
    ]
    drawn = any(each.heatmap for each in outputs)
    images = [] if drawn else [image for path in diff.images if (image := stored_image(path, folder))]
    crashes = [crash_text(crash) for crash in diff.crashes]
    return ReportDiff(record, diff, outputs, max(0, len(diff.outputs) - OUTPUTS), images, crashes)


@dataclass(frozen=True)
class Picture:
    """A graph, drawn."""

    title: str
    address: str
    note: str


@dataclass(frozen=True)
class Text:
    """A stage's text or a kernel, to be highlighted."""

    title: str
    text: str
    language: str


@dataclass(frozen=True)
class SessionSection:
    """The page's section on one session."""

    record: SessionRecord
    header: str
    pictures: list[Picture]
    texts: list[Text]
    guards: list[Row]
    more_guards: int
    moved: str
    transfers: list[str]
    specs: list[tuple[str, str]]
    more_moved: int
    missing: list[tuple[str, str, str]]
    artifacts: tuple[Artifact, ...]
    illustrated: bool


def session_sections(data: ReportData) -> list[SessionSection]:
    """One section for each session, the newest first."""
    return [
        _session_section(record, data.artifacts[record.id], illustrated=position < ILLUSTRATED_SESSIONS)
        for position, record in enumerate(data.sessions)
    ]


def _session_section(record: SessionRecord, artifacts: tuple[Artifact, ...], *, illustrated: bool) -> SessionSection:
    guards = guard_rows(record.guards)
    return SessionSection(
        record=record,
        header=header_line(record),
        pictures=_pictures(record) if illustrated else [],
        texts=_texts(record) if illustrated else [],
        guards=guards[:GUARDS],
        more_guards=max(0, len(guards) - GUARDS),
        moved=transfers_summary(record.transfers, record.kernel_specs),
        transfers=[transfer_line(transfer) for transfer in record.transfers[:TRANSFERS]],
        specs=[(kernel_line(kernel), kernel_json(kernel)) for kernel in record.kernel_specs[:TRANSFERS]],
        more_moved=max(0, len(record.transfers) - TRANSFERS) + max(0, len(record.kernel_specs) - TRANSFERS),
        missing=[
            (capture.compile_id, stage, reason)
            for capture in record.captures
            for stage, reason in capture.missing.items()
        ],
        artifacts=artifacts,
        illustrated=illustrated,
    )


def _pictures(record: SessionRecord) -> list[Picture]:
    """One picture for each of the first compiles: the graph that a device is given."""
    lookup = Lookup(record)
    chosen: dict[str, str] = {}
    for stage in STAGE_PREFERENCE:
        for compile_id, have in lookup.graphs:
            if have == stage:
                chosen.setdefault(compile_id, stage)
    return [_picture(lookup, compile_id, stage) for compile_id, stage in list(chosen.items())[:PICTURES]]


def _picture(lookup: Lookup, compile_id: str, stage: str) -> Picture:
    address, note = graph_image(lookup, compile_id, stage)
    ops = count(len(lookup.graphs[compile_id, stage].calls), "op")
    return Picture(f"{compile_id} {stage}, {ops}", address, note)


def _texts(record: SessionRecord) -> list[Text]:
    found: list[Text] = []
    for capture in record.captures[:PICTURES]:
        for stage in capture.stages:
            if (text := capture.text(stage)) is not None:
                language = "text" if stage.startswith("ir_") else "python"
                found.append(Text(f"{capture.compile_id} {stage}", text, language))
        found += [
            Text(f"{capture.compile_id} kernel {kernel.name}", kernel.code, kernel.language)
            for kernel in capture.kernels[:KERNELS]
        ]
    return found
