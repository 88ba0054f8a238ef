"""Results of the conformance suite for one adapter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from inductor_debug_jupyter.pipeline.harmless import one_line
from inductor_debug_jupyter.pipeline.records.crash import CrashRecord
from inductor_debug_jupyter.pipeline.records.in_words import InWords

CheckStatus = Literal["holds", "fails", "does_not_apply"]

_MARKS = {"holds": "✓", "fails": "✗", "does_not_apply": "–"}


@dataclass(frozen=True, slots=True)
class CheckRecord(InWords):
    """One check: its requirement (``title``), the result, what was observed, and what the author can do about it."""

    check_id: str
    title: str
    status: CheckStatus
    detail: str = ""
    advice: str = ""
    crash: CrashRecord | None = None

    def __str__(self) -> str:
        """One line; a check that fails has its advice, and what a crashed process wrote, on further lines."""
        detail = f": {one_line(self.detail)}" if self.detail else ""
        lines = [f"  {_MARKS[self.status]} {self.check_id} – {self.title}{detail}"]
        if self.status == "fails":
            lines += [f"      → {one_line(self.advice)}"] if self.advice else []
            lines += [f"      | {line}" for line in self.crash.stderr_lines[:12]] if self.crash else []
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ConformanceRecord(InWords):
    """All checks of one adapter; ``capabilities`` is its own description in one line."""

    adapter: str
    checks: tuple[CheckRecord, ...]
    capabilities: str = ""

    @property
    def failures(self) -> tuple[CheckRecord, ...]:
        """The checks that fail."""
        return tuple(check for check in self.checks if check.status == "fails")

    @property
    def passed(self) -> bool:
        """Whether nothing fails, and something holds."""
        return not self.failures and any(check.status == "holds" for check in self.checks)

    def __str__(self) -> str:
        count = {status: sum(check.status == status for check in self.checks) for status in _MARKS}
        totals = f"{count['holds']} hold, {count['fails']} fail, {count['does_not_apply']} do not apply"
        conforms = "it conforms" if self.passed else "it does not conform"
        about = [f"  {self.capabilities}"] if self.capabilities else []
        lines = [f"Conformance of {self.adapter}", *about, *map(str, self.checks), f"{totals}: {conforms}"]
        return "\n".join(lines)
