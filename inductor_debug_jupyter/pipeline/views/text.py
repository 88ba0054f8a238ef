"""A session as text: for terminals, ``str(session)``, the snapshot and strict errors.

The text is deterministic: the same record gives the same characters, and figures that change from run to run (seconds)
are there only with ``timings``. Every line of :func:`session_text` goes through :func:`harmless.plain` at the end, so
that nothing of a session can send escape codes to a terminal; what a user's program named goes through it before it is
put into a line, so that a name cannot start a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    DiffRecord,
    Note,
    Place,
    SessionRecord,
    SourceLine,
    Violation,
)
from inductor_debug_jupyter.pipeline.records.findings import severity_counts
from inductor_debug_jupyter.pipeline.records.in_words import written_by
from inductor_debug_jupyter.pipeline.views import labels
from inductor_debug_jupyter.pipeline.views.bisect import bisect_text
from inductor_debug_jupyter.pipeline.views.diff import diff_text
from inductor_debug_jupyter.pipeline.views.labels import label_of
from inductor_debug_jupyter.pipeline.views.localization import localization_text
from inductor_debug_jupyter.pipeline.views.placement import fallback_line
from inductor_debug_jupyter.pipeline.views.places import model_text, worst_first
from inductor_debug_jupyter.pipeline.words import ICONS

NOTHING_CAPTURED = "Nothing was captured, so NOTHING WAS CHECKED."
_COLOURS = {"error": "31", "warning": "33", "info": "34", "lit": "1", "good": "32", "quiet": "2"}
_CONTEXT = 1
_PLACES_SHOWN = 3


def severity_text(findings: Sequence[Violation]) -> str:
    """``✗ 3 errors ⚠ 4 warnings``, or the empty string."""
    return " ".join(
        f"{ICONS[severity]} {words.count(number, severity)}"
        for severity, number in severity_counts(findings).items()
        if number
    )


def memory_text(record: SessionRecord) -> str:
    """``peak 38 MiB of 16 GiB``, or the empty string when it is not known."""
    if record.peak_memory is None:
        return ""
    limit = f" of {words.size(record.memory_limit)}" if record.memory_limit else ""
    return f"peak {words.size(record.peak_memory)}{limit}"


def title_text(record: SessionRecord) -> str:
    """``TinyGPT on stick128 · strict``."""
    on = f" on {plain(record.target)}" if record.target else ""
    return f"{plain(record.name) or 'Session'}{on}" + (" · strict" if record.strict else "")


def verdict_text(record: SessionRecord) -> str:
    """The findings in a few words; what was not checked never counts as good."""
    if not record.captures:
        return "nothing captured, NOTHING CHECKED"
    if found := severity_text(record.findings):
        return found
    return "✓ no findings" if record.target else "no target: not checked against a device"


def diff_verdict(record: DiffRecord) -> str:
    """A comparison in a few words."""
    if record.verdict == "mismatch":
        wrong = sum(output.verdict == "mismatch" for output in record.outputs)
        return f"✗ KernelDiff: {words.count(wrong, 'output')} differ" + ("s" if wrong == 1 else "")
    good = {"match": "✓ KernelDiff: match", "rounding": "✓ KernelDiff: rounding"}
    return good.get(record.verdict, "⚠ KernelDiff: not compared")


def header_line(record: SessionRecord, *, timings: bool = True) -> str:
    """The answer in one line."""
    parts = [title_text(record)]
    if record.captures:
        parts.append(words.count(len(record.captures), "graph"))
        parts.append(words.count(len(record.graph_breaks), "break"))
    if record.recompiles:
        parts.append(words.count(len(record.recompiles), "recompile"))
    parts.append(verdict_text(record))
    if record.diff is not None:
        parts.append(diff_verdict(record.diff))
    parts.append(memory_text(record))
    if timings and record.seconds:
        parts.append(words.duration(record.seconds))
    return " · ".join(filter(None, parts))


def session_text(record: SessionRecord, *, colour: bool = False, timings: bool = False, limit: int | None = 50) -> str:
    """The whole session: header, findings worst first, graph breaks, recompiles, transfers, notes.

    Args:
        record: the session.
        colour: with ANSI escape codes, for a terminal.
        timings: also what differs from run to run.
        limit: at most so many findings, breaks and recompiles each; what is left out is counted. None for all.
    """
    ink = _Ink(colour)
    lines = [ink("lit", header_line(record, timings=timings))]
    if not record.captures:
        lines += ["", ink("warning", f"⚠ {NOTHING_CAPTURED}"), *_nothing_hints(record)]
    for _, finding in worst_first(record.findings)[:limit]:
        lines += ["", *_finding_lines(finding, record.sources, ink)]
    lines += _left_out(len(record.findings), limit, "finding")
    for text in _numbers(record, timings=timings):
        lines += ["", *text.splitlines()]
    lines += _section(
        "Graph breaks", [_event(item.reason, item.source, item.hints) for item in record.graph_breaks], limit
    )
    recompiles = [_event("; ".join(item.reasons), item.source, (), item.compile_id) for item in record.recompiles]
    lines += _section("Recompiles", recompiles, limit)
    lines += _section("Transfers", [[str(each)] for each in record.transfers], limit)
    lines += _section("Kernels of the device", [[str(each)] for each in record.kernel_specs], limit)
    lines += _section("Not captured", _missing(record), limit)
    fallbacks = record.coverage.fallbacks if record.coverage else ()
    lines += _section("Not on the target", [[fallback_line(entry)] for entry in fallbacks], limit)
    lines += _section("Notes", [[f"{plain(note.part)}: {plain(note.message)}"] for note in record.notes], limit)
    if record.minimal is not None:
        lines += _section("Smallest failing graph", [[plain(str(record.minimal).splitlines()[0])]], limit)
    lines += _section("Repro scripts", [[plain(path)] for path in record.repros], limit)
    return "\n".join(line if isinstance(line, _Inked) else plain(line) for line in lines)


def _missing(record: SessionRecord) -> list[list[str]]:
    return [
        [f"{plain(capture.compile_id)} {stage}: {plain(reason)}"]
        for capture in record.captures
        for stage, reason in gaps(capture)
    ]


def gaps(capture: CompileCapture) -> list[tuple[str, str]]:
    """The stages that are missing, with the reason; not those that are lowered on demand."""
    return [] if capture.rest is not None else list(capture.missing.items())


def _numbers(record: SessionRecord, *, timings: bool) -> Iterator[str]:
    """The comparison, and the searches for what is wrong in it."""
    if record.diff is not None:
        yield diff_text(record.diff, localization=record.localization)
    if record.localization is not None:
        yield localization_text(record.localization, timings=timings)
    if record.bisect is not None:
        yield bisect_text(record.bisect, timings=timings)


written_by(SessionRecord, session_text)


def strict_message(
    findings: Sequence[Violation], *, target: str, repro: str | None = None, unchecked: Sequence[Note] = ()
) -> str:
    """The text of a strict failure: a headline, the findings with the user's own lines, and where the repro is.

    ``unchecked`` are notes on what the rules did not see: strict mode does not pass it.
    """
    counts = severity_counts(findings)
    tally = ", ".join(words.count(number, severity) for severity, number in counts.items() if number)
    refused = f"refuses this: {tally or 'no reason recorded'}"
    lines = [f"{plain(target)} {refused if findings or not unchecked else 'may refuse this: it could not be checked'}"]
    lines += [f"could not be checked: {plain(note.part)}: {plain(note.message)}" for note in unchecked]
    for _, finding in worst_first(tuple(findings)):
        lines += ["", _headline(finding)]
        lines += [f"  {line}" for line in _place_lines(finding)]
        lines += [f"  {line}" for line in _reasons(finding)]
    if repro:
        lines += ["", f"Standalone script that shows it: {plain(repro)}"]
    return "\n".join(lines)


def line_text(line: SourceLine) -> str:
    """``In [4], line 17: h = self.up(h)``."""
    code = plain(line.text.strip())
    return f"{plain(label_of(line))}, line {line.line}" + (f": {code}" if code else "")


class _Inked(str):
    """A line that is harmless, with our own ANSI codes around it."""

    __slots__ = ()


class _Ink:
    """Makes a line harmless and wraps it in ANSI codes, or does not wrap it."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, kind: str, text: str) -> str:
        return _Inked(f"\x1b[{_COLOURS[kind]}m{plain(text)}\x1b[0m") if self.colour else text


def _nothing_hints(record: SessionRecord) -> list[str]:
    if record.notes:
        return ["  See the notes below for why."]
    if record.graph_breaks:
        return ["  Dynamo stopped before the first op: see the graph breaks below for why."]
    return [
        "  Was a model called? torch.compile does its work at the first call of what it returns.",
        "  What is not compiled is seen when it is an nn.Module, in a script only with capture(eager=True);",
        "  a plain function, or a graph of torch.fx, has to go through torch.compile.",
    ]


def _headline(finding: Violation) -> str:
    many = f" ×{len(finding.places):,}" if len(finding.places) > 1 else ""
    return f"{ICONS[finding.severity]} {finding.severity}: {plain(finding.title)} [{plain(finding.rule_id)}{many}]"


def _finding_lines(finding: Violation, sources: dict[str, str], ink: _Ink) -> Iterator[str]:
    yield ink(finding.severity, _headline(finding))
    shown: set[tuple[str, int]] = set()
    places = _distinct(finding.places)
    for place in places[:_PLACES_SHOWN]:
        yield f"  {_where(place)}"
        if (line := place.line) and (label_of(line), line.line) not in shown:
            shown.add((label_of(line), line.line))
            yield from _excerpt(line, sources, ink)
        if place.called_from:
            yield ink("quiet", f"          called from {line_text(place.called_from)}")
    if len(places) > _PLACES_SHOWN:
        yield f"  … and {words.count(len(places) - _PLACES_SHOWN, 'more line')}"
    for reason in _reasons(finding):
        yield f"  {reason}"


def _distinct(places: tuple[Place, ...]) -> list[Place]:
    """One place for each line; places without a line by their node."""
    kept: dict[tuple[str, object], Place] = {}
    for place in places:
        line = place.line
        kept.setdefault((label_of(line), line.line) if line else ("", place.node), place)
    return list(kept.values())


def _where(place: Place) -> str:
    op = labels.short_op(place.target) if place.target else place.node
    where = model_text(place) if place.line else " · ".join(filter(None, ["no line known", plain(place.module_path)]))
    return " · ".join(filter(None, [where, plain(op), f"{place.compile_id} {place.stage}".strip()]))


def _place_lines(finding: Violation) -> Iterator[str]:
    places = _distinct(finding.places)
    for place in places[:_PLACES_SHOWN]:
        yield line_text(place.line) if place.line else f"node {plain(place.node)} (no line known)"
        if place.called_from:
            yield f"  called from {line_text(place.called_from)}"
    if len(places) > _PLACES_SHOWN:
        yield f"… and {words.count(len(places) - _PLACES_SHOWN, 'more line')}"


def _reasons(finding: Violation) -> Iterator[str]:
    if finding.observed:
        yield f"seen:    {plain(finding.observed)}"
    if finding.allowed:
        yield f"allowed: {plain(finding.allowed)}"
    if finding.explanation:
        yield f"why:     {plain(finding.explanation)}"
    for hint in (*finding.hints, *finding.fixits):
        yield f"do:      {plain(hint)}"


def _excerpt(line: SourceLine, sources: dict[str, str], ink: _Ink) -> Iterator[str]:
    """The line with its neighbours, the line itself marked; only the line when its file was not kept."""
    text = sources.get(label_of(line), "").splitlines()
    if not 1 <= line.line <= len(text):
        if line.text:
            yield ink("lit", f"  > {line.line:4}  {plain(line.text.strip())}")
        return
    for number in range(max(1, line.line - _CONTEXT), min(len(text), line.line + _CONTEXT) + 1):
        code = plain(text[number - 1])
        if number == line.line:
            yield ink("lit", f"  > {number:4}  {code}")
        else:
            yield ink("quiet", f"    {number:4}  {code}".rstrip())


def _event(what: str, line: SourceLine | None, hints: Sequence[str], prefix: str = "") -> list[str]:
    """One graph break or recompile: the line, the reason (its first line), what to do."""
    where = line_text(line) if line else ""
    head = " · ".join(filter(None, [plain(prefix), where]))
    reason = [plain(part) for part in what.strip().splitlines()] or ["no reason recorded"]
    lines = [head, *(f"  {part}" for part in reason)] if head else reason
    return [*lines, *(f"  do: {plain(hint)}" for hint in hints)]


def _section(title: str, items: Sequence[Sequence[str]], limit: int | None) -> list[str]:
    if not items:
        return []
    shown = [f"  {line}" for item in items[:limit] for line in item]
    return ["", f"{title} ({len(items):,})", *shown, *_left_out(len(items), limit, "line", "  ")]


def _left_out(total: int, limit: int | None, noun: str, indent: str = "") -> list[str]:
    if limit is None or total <= limit:
        return []
    return (
        ["", f"{indent}… and {words.count(total - limit, f'more {noun}')}"]
        if not indent
        else [f"{indent}… and {total - limit:,} more"]
    )
