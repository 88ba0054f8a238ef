"""Results of the conformance suite for one adapter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from inductor_debug_jupyter.pipeline.records.crash import CrashRecord

CheckStatus = Literal["holds", "fails", "does_not_apply"]


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One check: its requirement (``title``), the result, what was observed, and what the author can do about it."""

    check_id: str
    title: str
    status: CheckStatus
    detail: str = ""
    advice: str = ""
    crash: CrashRecord | None = None


@dataclass(frozen=True, slots=True)
class ConformanceRecord:
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
