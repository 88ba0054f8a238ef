"""The record that a session holds now: every new one is set here, saved, and announced to observers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.capture.on_demand import completed
from inductor_debug_jupyter.pipeline.errors import StoreError, UsageError, in_a_line
from inductor_debug_jupyter.pipeline.interrupts import held_back
from inductor_debug_jupyter.pipeline.observers import Observers
from inductor_debug_jupyter.pipeline.records import DeferredTexts, Note, SessionRecord
from inductor_debug_jupyter.pipeline.settings import Settings
from inductor_debug_jupyter.pipeline.store import ArtifactStore

log = logging.getLogger("inductor_debug_jupyter")

_UNSAVED = "artifacts"
"""The part that a note names when the store could not write."""


class CurrentRecord:
    """A session's record, its copy in the artifact folder, and who follows it.

    Args:
        settings: say where the artifact folder is.
        record: the first record; None while the session captures.
        saves: whether each new record is written. What-if sessions are written only when the user saves them.
    """

    def __init__(self, settings: Settings, record: SessionRecord | None = None, *, saves: bool = True) -> None:
        self._settings = settings
        self._record = record
        self._saves = saves
        self.observers = Observers()

    @property
    def is_there(self) -> bool:
        """Whether there is one: the session has captured."""
        return self._record is not None

    @property
    def now(self) -> SessionRecord:
        """The record.

        Raises:
            UsageError: there is none yet.
        """
        if self._record is None:
            raise UsageError("the session is still capturing: leave its block first")
        return self._record

    def set(self, record: SessionRecord, *, save: bool = True) -> None:
        """Make this the session's record: write it, then call the observers, unless they know it already.

        What cannot be written is a note of the record, logged once and never raised.
        """
        before, self._record = self._record, record
        try:
            if save and self._saves:
                self._record = self._saved(record)
        finally:  # the record is there, also where Ctrl-C stops the writing
            if self._record is not before:
                self.observers.tell()

    def complete(self) -> SessionRecord:
        """Have Inductor make what it has not made of plain models yet; the whole record."""
        if (made := completed(self.now)) is not self.now:
            with held_back():  # observers hear of all of it or of nothing
                self.set(made)
        return self.now

    def update(self, **changes: Any) -> None:
        """:meth:`set` the record with some fields changed."""
        self.set(replace(self.now, **changes))

    # The artifact folder ----------------------------------------------------------------------------------------

    def store(self) -> ArtifactStore:
        """The artifact folder."""
        return ArtifactStore.of(self._settings)

    def usable_store(self) -> ArtifactStore | None:
        """The artifact folder; None when the record could not be written there."""
        return None if _unsaved(self.now) else self.store()

    @contextmanager
    def saved_once(self) -> Iterator[None]:
        """Changes inside the block are not written one by one: the caller saves once afterwards, by :meth:`saving`."""
        before, self._saves = self._saves, False
        try:
            yield
        finally:
            self._saves = before

    def can_wait(self) -> bool:
        """Whether the store can probably write later; if not, it is tried now, so that the note comes in time."""
        if not self.now.captures:
            return True
        try:
            self.store().probe()
        except StoreError:
            self.set(self.now)
            return False
        return True

    def saving(self) -> Iterator[None]:
        """Write the record in many short steps: most of the time goes into rendering deferred texts."""
        for capture in self.now.captures:
            if isinstance(capture.texts, DeferredTexts):
                yield from capture.texts.steps()
        self.set(self.now)

    def file_away(self, record: SessionRecord) -> Path:
        """Write a record because the user says so, and from now on after each change; where its file lies.

        Raises:
            StoreError: it cannot be written.
        """
        store = self.store()
        store.save_session(record, pinned=True)
        self._saves = True
        return store.folder / store.artifacts(record.id, "sessions")[-1].path

    def _saved(self, record: SessionRecord) -> SessionRecord:
        """Write a record where the command line finds it; returns it with a note if that fails."""
        if not record.captures:
            return record
        said = _unsaved(record)
        clean = replace(record, notes=tuple(note for note in record.notes if note is not said)) if said else record
        try:
            self.store().save_session(clean)
        except StoreError as error:
            reason = str(error)
        except Exception as error:  # a fault of the store is no reason to end the user's run
            log.debug("the store failed", exc_info=True)
            reason = f"unexpected {in_a_line(error)}"
        else:
            return clean
        if said is not None:
            return record
        note = Note(_UNSAVED, f"nothing was saved: {reason}. The session is in memory; session.save(path) keeps it")
        log.warning("%s", note)
        return replace(record, notes=(*record.notes, note))


def _unsaved(record: SessionRecord) -> Note | None:
    """The note that says why a record is in memory only."""
    return next((note for note in record.notes if note.part == _UNSAVED), None)
