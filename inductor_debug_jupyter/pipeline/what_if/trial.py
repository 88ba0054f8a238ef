"""What ``session.try_out()`` returns: the request, both records, what changed, and the new session."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.records.in_words import InWords
from inductor_debug_jupyter.pipeline.what_if.differences import Changes
from inductor_debug_jupyter.pipeline.what_if.request import WhatIfRequest
from inductor_debug_jupyter.pipeline.what_if.table import (
    FigureRow,
    FindingRow,
    figure_rows,
    finding_rows,
    trial_dict,
    trial_text,
)
from inductor_debug_jupyter.pipeline.words import duration


@dataclass(frozen=True)
class WhatIfTrial(InWords):
    """A session before and after some changes.

    Attributes:
        asked: the changes as the user requested them.
        told: the changes in words, with the values before.
        before: the record without the changes.
        session: the session with the changes, like any other; it is written only by :meth:`save`.
        changes: the differences between the two.
        notes: on the comparison.
        seconds: how long it took.
    """

    asked: WhatIfRequest
    told: tuple[str, ...]
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
        return ", ".join(self.told)

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
        """Everything that changed, for JSON."""
        return trial_dict(self.title, self.before, self.after, self.changes, self.notes)

    def __str__(self) -> str:
        return trial_text(self.title, self.changes, self.notes)


class TrialView(TypedDict):
    """One what-if. ``saved`` is the id of the saved session; ``counts`` counts all findings, also those not listed."""

    title: str
    summary: str
    what: list[str]
    figures: list[FigureRow]
    findings: list[FindingRow]
    counts: dict[str, int]
    notes: list[str]
    saved: str
    took: str


def trial_view(trial: WhatIfTrial) -> TrialView:
    """The rows of both tables, and the texts above and below them."""
    changes = trial.changes
    return TrialView(
        title=plain(trial.title),
        summary=str(changes),
        what=list(changes.what),
        figures=figure_rows(changes),
        findings=finding_rows(changes),
        counts={kind: len(getattr(changes, kind)) for kind in ("new", "gone", "reworded", "same")},
        notes=[plain(note) for note in trial.notes],
        saved=trial.after.id if trial.saved is not None else "",
        took=("ran again in " if trial.asked.reruns else "judged again in ") + duration(trial.seconds),
    )
