"""Violations: what the rules of a target refuse, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from inductor_debug_jupyter.pipeline.records.graph import SourceLine
from inductor_debug_jupyter.pipeline.records.in_words import InWords
from inductor_debug_jupyter.pipeline.words import SEVERITIES

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a violation was seen: a node of a captured graph, and the user's line behind it."""

    compile_id: str
    stage: str
    node: str
    target: str = ""
    module_path: str = ""
    source: SourceLine | None = None
    cell: SourceLine | None = None

    @property
    def line(self) -> SourceLine | None:
        """The line to show first: the model's own (the deepest outside torch), else the cell's."""
        return self.source or self.cell

    @property
    def called_from(self) -> SourceLine | None:
        """The cell's line, where it is another one than :attr:`line`: of a library's model it says little."""
        return self.cell if self.cell != self.line else None


@dataclass(frozen=True, slots=True)
class Violation(InWords):
    """Something that the target refuses, folded over all places with the same cause.

    ``rule_id`` is stable (``align.innermost``); ``title`` is one line in the user's words; ``observed`` and ``allowed``
    are the two values; ``explanation`` is one sentence of why; ``hints`` say what to do. ``evidence`` is the expression
    that a repro script looks for.
    """

    rule_id: str
    severity: Severity
    title: str
    places: tuple[Place, ...]
    observed: str = ""
    allowed: str = ""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    fixits: tuple[str, ...] = ()
    evidence: str = ""

    @property
    def source(self) -> SourceLine | None:
        """The user's line of the first place."""
        return self.places[0].source if self.places else None

    def __str__(self) -> str:
        where = f" at {self.places[0].line}" if self.places and self.places[0].line else ""
        more = f" (×{len(self.places)})" if len(self.places) > 1 else ""
        return f"{self.rule_id}: {self.title}{where}{more}"


def severity_counts(findings: Sequence[Violation]) -> dict[str, int]:
    """Severity → how many findings; all severities, worst first."""
    counted = Counter(finding.severity for finding in findings)
    return {severity: counted[severity] for severity in SEVERITIES}
