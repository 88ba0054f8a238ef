"""What ``session.try_out()`` returns: the request, both records, what changed, and the new session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import SessionRecord, Violation
from inductor_debug_jupyter.pipeline.records.in_words import InWords
from inductor_debug_jupyter.pipeline.what_if.differences import Changes
from inductor_debug_jupyter.pipeline.what_if.request import WhatIfRequest
from inductor_debug_jupyter.pipeline.words import ICONS, clip, duration

_FINDING_SIGNS = {"gone": "−", "new": "+", "reworded": "≠", "same": "="}
_WIDEST = 44
_SHOWN = 50


@dataclass(frozen=True)
class WhatIfTrial(InWords):
    """A session before and after some changes.

    Attributes:
        request: the changes as the user requested them.
        descriptions: the changes in words, with the values before.
        before: the record without the changes.
        session: the session with the changes, like any other; it is written only by :meth:`save`.
        changes: the differences between the two.
        notes: on the comparison.
        seconds: how long it took.
    """

    request: WhatIfRequest
    descriptions: tuple[str, ...]
    before: SessionRecord
    session: Any
    changes: Changes
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    _saved: list[Path] = field(default_factory=list, repr=False, compare=False)

    @property
    def after(self) -> SessionRecord:
        """The record with the changes."""
        record: SessionRecord = self.session.record
        return record

    @property
    def title(self) -> str:
        """``batch 1 → 64 (dimension 0 of x)``."""
        return ", ".join(self.descriptions)

    @property
    def saved(self) -> Path | None:
        """The file of the last :meth:`save`."""
        return self._saved[-1] if self._saved else None

    def save(self, path: str | Path | None = None) -> Path:
        """Write the session: into the artifact folder, where ``inductor-debug list`` finds it, or to a file.

        Raises:
            StoreError: it cannot be written.
        """
        self._saved.append(self.session.save(path))
        return self._saved[-1]

    def to_dict(self) -> dict[str, Any]:
        """Everything that changed, for JSON; sizes in bytes."""
        changes, before, after = self.changes, self.before, self.after
        numbers = changes.numbers
        return {
            "what_if": self.title,
            "changes": list(changes.what),
            "sessions": {"before": before.id, "after": after.id},
            "figures": figure_rows(changes),
            "peak_memory": {"before": before.peak_memory, "after": after.peak_memory},
            "findings": {
                **{kind: _listed(getattr(changes, kind)) for kind in ("gone", "new", "same")},
                "reworded": _listed([now for _, now in changes.reworded]),
            },
            "numbers": {
                "verdict": numbers.verdict,
                "why": numbers.why,
                "outputs": [
                    {
                        "path": each.path,
                        "verdict": each.verdict,
                        "max_absolute_error": each.max_absolute_error,
                        "why": each.reason,
                    }
                    for each in numbers.outputs
                ],
            },
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        notes = ["", *(f"Note: {plain(note)}" for note in self.notes)] if self.notes else []
        head = [f"What if: {plain(self.title)}", f"  {self.changes}", ""]
        return "\n".join([*head, *_table(self.changes), *_findings(self.changes), *notes])


def _listed(findings: Sequence[Violation]) -> list[dict[str, Any]]:
    return [
        {"rule_id": each.rule_id, "severity": each.severity, "title": each.title, "places": len(each.places)}
        for each in findings
    ]


def figure_rows(changes: Changes) -> list[dict[str, str]]:
    """Every figure, in order."""
    names = ("part", "name", "before", "after", "change", "kind", "sign")
    return [{name: plain(getattr(each, name)) for name in names} for each in changes.figures]


def _finding_rows(changes: Changes) -> list[dict[str, Any]]:
    """The findings that are new, gone, reworded and the same, in this order; only the first 50 of each."""
    found: dict[str, list[tuple[Violation, str]]] = {
        "new": [(finding, "") for finding in changes.new],
        "gone": [(finding, "") for finding in changes.gone],
        "reworded": [(after, before.title) for before, after in changes.reworded],
        "same": [(finding, "") for finding in changes.same],
    }
    return [
        {
            "kind": kind,
            "sign": _FINDING_SIGNS[kind],
            "severity": finding.severity,
            "icon": ICONS[finding.severity],
            "rule_id": plain(finding.rule_id),
            "title": plain(finding.title),
            "before": plain(before),
            "count": len(finding.places),
        }
        for kind, findings in found.items()
        for finding, before in findings[:_SHOWN]
    ]


def trial_view(trial: WhatIfTrial) -> dict[str, Any]:
    """The rows of both tables, and the texts above and below them.

    ``saved`` is the id of the saved session; ``counts`` counts all findings, also those that are not listed.
    """
    changes = trial.changes
    return {
        "title": plain(trial.title),
        "summary": str(changes),
        "what": list(changes.what),
        "figures": figure_rows(changes),
        "findings": _finding_rows(changes),
        "counts": {kind: len(getattr(changes, kind)) for kind in ("new", "gone", "reworded", "same")},
        "notes": [plain(note) for note in trial.notes],
        "saved": trial.after.id if trial.saved is not None else "",
        "took": ("ran again in " if trial.request.reruns or trial.request.numerics is not None else "judged again in ")
        + duration(trial.seconds),
    }


def _table(changes: Changes) -> Iterator[str]:
    rows = figure_rows(changes)
    columns = [
        ["", *(row["name"] for row in rows)],
        ["before", *(row["before"] for row in rows)],
        ["after", *(clip(row["after"], _WIDEST) for row in rows)],
        ["", *(f"{row['sign']} {row['change']}".strip() for row in rows)],
    ]
    widths = [max(map(len, column)) for column in columns]
    for cells in zip(*columns, strict=True):
        yield ("  " + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))).rstrip()


def _findings(changes: Changes) -> Iterator[str]:
    groups = {
        "New": [_line(finding) for finding in changes.new],
        "Gone": [_line(finding) for finding in changes.gone],
        "In other words": [f"{_line(after)}; before: {plain(before.title)}" for before, after in changes.reworded],
    }
    for title, lines in groups.items():
        if lines:
            yield ""
            yield f"{title} ({len(lines):,})"
            yield from (f"  {line}" for line in lines[:_SHOWN])
            if len(lines) > _SHOWN:
                yield f"  … and {len(lines) - _SHOWN:,} more"


def _line(finding: Violation) -> str:
    return f"{ICONS[finding.severity]} {plain(str(finding))}"
