"""Recorder + profile + rules → :class:`SessionRecord`: findings, coverage and memory of everything captured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from inductor_debug_jupyter.pipeline.capture import Recorder
from inductor_debug_jupyter.pipeline.capture.sources import texts_of
from inductor_debug_jupyter.pipeline.devices.checker import PlacedProblem, folded, problems_of
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint
from inductor_debug_jupyter.pipeline.devices.context import JudgingContext
from inductor_debug_jupyter.pipeline.devices.coverage import coverage_of
from inductor_debug_jupyter.pipeline.devices.memory import memory_notes, memory_of
from inductor_debug_jupyter.pipeline.devices.profile import DeviceProfile
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    CoverageRecord,
    MemoryRecord,
    Note,
    SessionRecord,
    SourceLine,
    Violation,
)
from inductor_debug_jupyter.pipeline.torch_compat.versions import torch_version
from inductor_debug_jupyter.version import __version__


def judge(
    recorder: Recorder,
    context: JudgingContext,
    *,
    session_id: str,
    created: str,
    name: str,
    seconds: float = 0.0,
) -> SessionRecord:
    """Check all captures of a recorder. A rule that raises becomes a note, and the other rules still run."""
    captures, profile, rules = recorder.captures, context.profile, context.rules
    notes: list[Note] = list(recorder.notes)
    problems = _problems(captures, profile, rules, notes)
    findings = folded(problems)
    memory = _memory(captures)
    notes += memory_notes(captures)
    coverage = _coverage(captures, profile, rules, problems, notes)
    return SessionRecord(
        id=session_id,
        created=created,
        name=name or recorder.name or _name_of(captures),
        target=profile.name,
        strict=context.strict,
        torch_version=torch_version(),
        tool_version=__version__,
        captures=captures,
        findings=findings,
        graph_breaks=recorder.graph_breaks,
        recompiles=recorder.recompiles,
        guards=recorder.guards,
        symbols=recorder.symbols,
        notes=tuple(notes),
        sources=texts_of(_lines(captures, findings, recorder)),
        seconds=seconds,
        peak_memory=max((record.peak for record in memory), default=None),
        memory_limit=profile.peak_limit or profile.memory_limit,
        coverage=coverage,
        memory=memory,
    )


def judge_again(record: SessionRecord, context: JudgingContext) -> SessionRecord:
    """The same captures, checked against another target or other rules; nothing is compiled."""
    profile, rules = context.profile, context.rules
    notes = [note for note in record.notes if note.part != _COVERAGE and not note.part.startswith(RULE)]
    problems = _problems(record.captures, profile, rules, notes)
    findings = folded(problems)
    coverage = _coverage(record.captures, profile, rules, problems, notes)
    lines = (line for finding in findings for place in finding.places for line in (place.cell, place.source))
    return replace(
        record,
        target=profile.name,
        findings=findings,
        coverage=coverage,
        memory_limit=profile.peak_limit or profile.memory_limit,
        notes=tuple(notes),
        sources={**texts_of(lines), **record.sources},
    )


RULE = "rule "
_COVERAGE = "coverage"
"""``Note.part`` of the notes that this module adds; :func:`judge_again` drops those of the earlier judgement."""


def _problems(
    captures: Sequence[CompileCapture], profile: DeviceProfile, rules: Sequence[Constraint], notes: list[Note]
) -> list[PlacedProblem]:
    """Every problem that the rules report. A rule that raises becomes a note, and the other rules still run."""
    problems: list[PlacedProblem] = []
    for rule in rules:
        try:
            problems += list(problems_of([rule], captures, profile.cpu))
        except Exception as error:
            notes.append(Note(f"{RULE}{rule.rule_id}", f"could not check ({type(error).__name__}: {error})"))
    return problems


def _memory(captures: Iterable[CompileCapture]) -> tuple[MemoryRecord, ...]:
    """Memory over time of every AOT graph whose sizes are known."""
    records = (
        memory_of(graph, capture)
        for capture in captures
        for stage in ("forward", "backward")
        if (graph := capture.graph(stage)) is not None
    )
    return tuple(record for record in records if record is not None)


def _coverage(
    captures: Sequence[CompileCapture],
    profile: DeviceProfile,
    rules: Sequence[Constraint],
    problems: Sequence[PlacedProblem],
    notes: list[Note],
) -> CoverageRecord | None:
    """The op coverage; a failure here becomes a note and never an error of the user's run."""
    if not captures:
        return None
    try:
        return coverage_of(captures, profile, rules, problems)
    except Exception as error:
        notes.append(Note(_COVERAGE, f"could not be told ({type(error).__name__}: {error})"))
        return None


def _name_of(captures: Sequence[CompileCapture]) -> str:
    """The name of the first graph's function, without the suffix of a graph that resumes it after a break."""
    return captures[0].name.partition(" (")[0].removesuffix(".forward") if captures else "cell"


def _lines(
    captures: Iterable[CompileCapture], findings: Iterable[Violation], recorder: Recorder
) -> Iterable[SourceLine | None]:
    """The lines whose files are stored with the session: of findings, breaks, recompiles, guards and cells."""
    for violation in findings:
        for place in violation.places:
            yield place.cell
            yield place.source
    yield from (graph_break.source for graph_break in recorder.graph_breaks)
    yield from (recompile.source for recompile in recorder.recompiles)
    yield from (guard.source for guard in recorder.guards)
    yield from (symbol.source for symbol in recorder.symbols)
    for capture in captures:
        yield capture.source
        for graph in capture.graphs.values():
            for node in graph.calls:
                yield node.cell
