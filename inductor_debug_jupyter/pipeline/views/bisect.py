"""The bisect ladder, from eager to the device, as text."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import BisectRecord, DiffRecord
from inductor_debug_jupyter.pipeline.records.in_words import written_by
from inductor_debug_jupyter.pipeline.words import clip, duration

_OUTCOMES = {"good": "✓ good", "bad": "✗ wrong numbers", "failed": "✗ failed", "not_run": "· not run"}
_REASON_WIDTH = 100


def bisect_text(record: BisectRecord, *, timings: bool = True) -> str:
    """The ladder as a table, with the first rung that is not good marked, and the explanation."""
    if not record.rungs:
        return f"{plain(record.model)}: no rung was run"
    if record.first_bad:
        head = f"{plain(record.model)}: the first rung that is not good is {plain(record.first_bad)}"
    else:
        head = f"{plain(record.model)}: every rung agrees with eager"
    names = max(len("rung"), *(len(plain(rung.name)) for rung in record.rungs))
    lines = [head, "", _line("  ", "rung", "against eager", "max error", "time" if timings else "", "", names)]
    for rung in record.rungs:
        mark = "→ " if record.first_bad and rung.name == record.first_bad else "  "
        outcome = _OUTCOMES.get(rung.outcome, f"? {plain(rung.outcome)}")
        was_run = rung.outcome != "not_run"
        time = duration(rung.seconds) if timings and was_run else ""
        reason = clip(plain(rung.reason), _REASON_WIDTH) if was_run else ""
        lines.append(_line(mark, plain(rung.name), outcome, _largest_error(rung.diff), time, reason, names))
    return "\n".join([*lines, "", plain(record.explanation)])


written_by(BisectRecord, bisect_text)


def _line(mark: str, name: str, outcome: str, error: str, time: str, reason: str, width: int) -> str:
    return f"{mark}{name:<{width}}  {outcome:<15}  {error:>9}  {time:>7}  {reason}".rstrip()


def _largest_error(diff: DiffRecord | None) -> str:
    errors = (
        [output.max_absolute_error for output in diff.outputs if output.max_absolute_error is not None] if diff else []
    )
    return f"{max(errors):.2g}" if errors else ""
