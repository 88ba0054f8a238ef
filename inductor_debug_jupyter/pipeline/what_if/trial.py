"""One "what if": what was asked, both sides, what changed, and the session that came out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.records.in_words import InWords
from inductor_debug_jupyter.pipeline.what_if.asked import Asked
from inductor_debug_jupyter.pipeline.what_if.changes import Changes
from inductor_debug_jupyter.pipeline.what_if.table import trial_dict, trial_text


@dataclass(frozen=True)
class Trial(InWords):
    """What :meth:`DebugSession.try_out` answers with.

    Attributes:
        asked: what was changed, as it was said.
        told: the same in words, with what it was before.
        before: the record to compare with.
        session: what came out: a session like any other, with a panel; it is not saved until :meth:`save`.
        changes: what is different.
        notes: what to know about the comparison.
        seconds: how long it took.
    """

    asked: Asked
    told: tuple[str, ...]
    before: SessionRecord
    session: Any
    changes: Changes
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    _saved: list[Path] = field(default_factory=list, repr=False, compare=False)

    @property
    def after(self) -> SessionRecord:
        """The record that came out."""
        record: SessionRecord = self.session.record
        return record

    @property
    def title(self) -> str:
        """``batch 1 → 64 (dimension 0 of x)``."""
        return ", ".join(self.told)

    @property
    def saved(self) -> Path | None:
        """The file that it was saved in."""
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
