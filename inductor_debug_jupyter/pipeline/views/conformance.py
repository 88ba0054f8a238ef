"""The conformance report as text: one line for each check, with advice under those that fail."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.harmless import one_line
from inductor_debug_jupyter.pipeline.records import CheckRecord, ConformanceRecord

_MARKS = {"holds": "✓", "fails": "✗", "does_not_apply": "–"}


def conformance_text(record: ConformanceRecord) -> str:
    """The whole report."""
    count = {status: sum(check.status == status for check in record.checks) for status in _MARKS}
    lines = [f"Conformance of {record.adapter}"]
    if record.capabilities:
        lines.append(f"  {record.capabilities}")
    for check in record.checks:
        lines += check_lines(check)
    lines.append(
        f"{count['holds']} hold, {count['fails']} fail, {count['does_not_apply']} do not apply: "
        + ("it conforms" if record.passed else "it does not conform")
    )
    return "\n".join(lines)


def check_lines(check: CheckRecord) -> list[str]:
    """One check; one that fails has its advice, and what a crashed process wrote, on further lines."""
    detail = f": {one_line(check.detail)}" if check.detail else ""
    lines = [f"  {_MARKS[check.status]} {check.check_id} – {check.title}{detail}"]
    if check.status == "fails":
        lines += [f"      → {one_line(check.advice)}"] if check.advice else []
        if check.crash is not None and check.crash.stderr:
            lines += [f"      | {line}" for line in check.crash.stderr.splitlines()[:12]]
    return lines
