"""The bisect ladder, from eager to the device, as text and as rows."""

from __future__ import annotations

from typing import TypedDict

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import BisectRecord, DiffRecord
from inductor_debug_jupyter.pipeline.records.in_words import written_by
from inductor_debug_jupyter.pipeline.words import clip, duration

_ICONS = {"good": "✓", "bad": "✗", "failed": "✗", "not_run": "·"}
_WORDS = {"good": "good", "bad": "wrong numbers", "failed": "failed", "not_run": "not run"}
_REASON_WIDTH = 100


class RungRow(TypedDict):
    """One rung, ready to show."""

    name: str
    outcome: str
    icon: str
    told: str
    error: str
    time: str
    reason: str
    is_first_bad: bool


def bisect_rows(record: BisectRecord) -> list[RungRow]:
    """One row for each rung, lowest first; every text is safe to print."""
    return [
        RungRow(
            name=plain(rung.name),
            outcome=rung.outcome,
            icon=_ICONS.get(rung.outcome, "?"),
            told=_WORDS.get(rung.outcome, plain(rung.outcome)),
            error=_largest_error(rung.diff),
            time="" if rung.outcome == "not_run" else duration(rung.seconds),
            reason=plain(rung.reason),
            is_first_bad=bool(record.first_bad) and rung.name == record.first_bad,
        )
        for rung in record.rungs
    ]


def bisect_text(record: BisectRecord, *, timings: bool = True) -> str:
    """The ladder as a table, with the first rung that is not good marked, and the explanation."""
    if not record.rungs:
        return f"{plain(record.model)}: no rung was run"
    if record.first_bad:
        head = f"{plain(record.model)}: the first rung that is not good is {plain(record.first_bad)}"
    else:
        head = f"{plain(record.model)}: every rung agrees with eager"
    rows = bisect_rows(record)
    names = max(len("rung"), *(len(row["name"]) for row in rows))
    lines = [head, "", _line("  ", "rung", "against eager", "max error", "time" if timings else "", "", names)]
    for row in rows:
        mark = "→ " if row["is_first_bad"] else "  "
        outcome = f"{row['icon']} {row['told']}"
        reason = "" if row["outcome"] == "not_run" else clip(row["reason"], _REASON_WIDTH)
        lines.append(_line(mark, row["name"], outcome, row["error"], row["time"] if timings else "", reason, names))
    return "\n".join([*lines, "", plain(record.explanation)])


written_by(BisectRecord, bisect_text)


def _line(mark: str, name: str, outcome: str, error: str, time: str, reason: str, width: int) -> str:
    return f"{mark}{name:<{width}}  {outcome:<15}  {error:>9}  {time:>7}  {reason}".rstrip()


def _largest_error(diff: DiffRecord | None) -> str:
    errors = (
        [output.max_absolute_error for output in diff.outputs if output.max_absolute_error is not None] if diff else []
    )
    return f"{max(errors):.2g}" if errors else ""
