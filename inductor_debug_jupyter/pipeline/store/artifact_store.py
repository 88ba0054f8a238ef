"""Save, find, load and clean sessions and their files in one folder."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from inductor_debug_jupyter.pipeline.errors import NotFoundError, StoreError
from inductor_debug_jupyter.pipeline.harmless import quoted
from inductor_debug_jupyter.pipeline.reading import LARGEST_RECORD, read_regular
from inductor_debug_jupyter.pipeline.records import SessionRecord, load_session
from inductor_debug_jupyter.pipeline.settings import Settings
from inductor_debug_jupyter.pipeline.store.cleaning import CleanReport, clean_folder, shrink
from inductor_debug_jupyter.pipeline.store.file_layout import Content, content_of, session_contents
from inductor_debug_jupyter.pipeline.store.files import (
    explained,
    make_folder,
    refuse_link,
    sha256_of,
    why_not_ours,
    write_temporary,
)
from inductor_debug_jupyter.pipeline.store.index import (
    Artifact,
    Index,
    SavedSession,
    open_for_reading,
    open_for_writing,
)

_log = logging.getLogger("inductor_debug_jupyter")

_PROBE_BYTES = 1 << 16

SETTINGS = ("artifacts", "artifacts_limit")
"""The settings that :meth:`ArtifactStore.of` reads."""

_warned: set[str] = set()
"""Folders of which this process has warned that they were too large."""


class ArtifactStore:
    """Sessions, graphs, kernels, statistics, reports and repros in one folder.

    Nothing is created until something is written. Every failure of the disk or the index is a
    :class:`~inductor_debug_jupyter.pipeline.errors.StoreError` of one line; what was stored before stays readable.

    Args:
        folder: the artifact folder; made on the first write. It may not be a link, nor may a room in it.
        limit: bytes that the files may have together; a save that exceeds it removes the oldest sessions. 0 for none.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int = 0) -> None:
        self.folder = Path(folder)
        self.limit = limit

    @classmethod
    def of(cls, settings: Settings) -> ArtifactStore:
        """The store that the settings (of :data:`SETTINGS` at least) name."""
        return cls(settings["artifacts"], settings["artifacts_limit"])

    def __repr__(self) -> str:
        return f"ArtifactStore({str(self.folder)!r})"

    def save_session(self, record: SessionRecord, *, pinned: bool = False) -> str:
        """Store a session with its readable texts and statistics, in place of one with the same id; returns its id.

        The folder's limit never removes a ``pinned`` session.
        """
        contents = list(session_contents(record))
        self._store(contents, record.id, record, pinned=pinned)
        return record.id

    def probe(self) -> None:
        """Try to write a file of 64 KiB.

        Raises:
            StoreError: it cannot.
        """
        refuse_link(self.folder)
        with explained("write", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_temporary(self.folder, b"\0" * _PROBE_BYTES).unlink()

    def write(self, room: str, name: str, content: str | bytes, session_id: str) -> Path:
        """Store one text or picture for a session, which need not be saved yet; returns the absolute path."""
        (path,) = self._store([content_of(room, name, content)], session_id, None)
        return path

    def sessions(self) -> tuple[SavedSession, ...]:
        """Every saved session, the last saved first."""
        with open_for_reading(self.folder) as index:
            return index.sessions() if index else ()

    def artifacts(self, session_id: str | None = None, room: str | None = None) -> tuple[Artifact, ...]:
        """Every stored file, oldest first; one that two sessions share is listed for each."""
        with open_for_reading(self.folder) as index:
            return index.artifacts(session_id, room) if index else ()

    def find_session(self, name: str) -> SavedSession:
        """Find the session with that id, with an id that starts so, or the ``last`` one.

        Raises:
            NotFoundError: there is none, or there are several.
        """
        sessions = self.sessions()
        if not sessions:
            raise NotFoundError(f"nothing was captured in {self.folder} yet")
        if name == "last":
            return sessions[0]
        exact = [session for session in sessions if session.id == name]
        found = exact or [session for session in sessions if name and session.id.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise NotFoundError(
                f"{name!r} fits {len(found)} sessions ({_some(s.id for s in found)}); give more of the id"
            )
        raise NotFoundError(f"no session {name!r} in {self.folder}; there are {_some(s.id for s in sessions)}")

    def find_artifact(self, sha256: str) -> Artifact:
        """Find the file whose SHA-256 starts so.

        Raises:
            NotFoundError: there is none, or there are several.
        """
        wanted = sha256.lower()
        found = {artifact.sha256: artifact for artifact in self.artifacts() if artifact.sha256.startswith(wanted)}
        if wanted and len(found) == 1:
            return next(iter(found.values()))
        if wanted and found:
            raise NotFoundError(f"{sha256!r} fits {len(found)} artifacts ({_some(found)}); give more digits")
        raise NotFoundError(
            f"no artifact {sha256!r} in {self.folder}; `inductor-debug list SESSION` shows what there is"
        )

    def load(self, name: str = "last") -> SessionRecord:
        """Load the session with that id or prefix, or the ``last`` one.

        Raises:
            NotFoundError: there is none, or there are several.
            StoreError: its file is missing or damaged.
            RecordError: its file was written by a newer release.
        """
        session = self.find_session(name)
        own = [a for a in self.artifacts(session.id, "sessions") if a.sha256 == session.sha256]
        if not own:
            raise StoreError(
                f"session {session.id} has no file in {self.folder}: the index is incomplete; capture again"
            )
        record = load_session(self.read_bytes(own[-1]))
        if record.id != session.id:
            problem = f"is of session {quoted(record.id)}, not {quoted(session.id)}"
            raise StoreError(f"{self.folder / own[-1].path} {problem}: capture again")
        return record

    def read(self, sha256: str) -> str:
        """Read the text of the artifact whose SHA-256 starts so."""
        return self.read_bytes(self.find_artifact(sha256)).decode("utf-8", "replace")

    def clean(
        self,
        older_than: float | None = None,
        keep_last: int | None = None,
        *,
        max_bytes: int | None = None,
        dry_run: bool = False,
    ) -> CleanReport:
        """Delete sessions with their files: all of them, or those that no rule protects.

        Args:
            older_than: seconds; younger sessions are kept.
            keep_last: that many of the newest sessions are kept.
            max_bytes: the newest sessions that fit into so many bytes are kept.
            dry_run: delete nothing; the report lists what would be deleted.
        """
        refuse_link(self.folder)
        with open_for_reading(self.folder) as found:
            if found is None:
                return CleanReport((), (), (), {}, dry_run)
            if dry_run:
                return self._clean(found, older_than, keep_last, max_bytes, dry_run=True)
        with open_for_writing(self.folder) as index, index.locked():
            return self._clean(index, older_than, keep_last, max_bytes, dry_run=False)

    def _clean(
        self, index: Index, older_than: float | None, keep_last: int | None, max_bytes: int | None, *, dry_run: bool
    ) -> CleanReport:
        with explained("clean", self.folder):
            return clean_folder(
                self.folder,
                index,
                now=time.time(),
                older_than=older_than,
                keep_last=keep_last,
                max_bytes=max_bytes,
                dry_run=dry_run,
            )

    def total_bytes(self) -> int:
        """Bytes of all files together."""
        with open_for_reading(self.folder) as index:
            return 0 if index is None else index.total_bytes()

    def read_bytes(self, artifact: Artifact) -> bytes:
        """Read a stored file.

        Raises:
            StoreError: it is gone, or is not what was written.
        """
        path = self.folder / artifact.path
        with explained("read", path):
            data = read_regular(path, LARGEST_RECORD)
        if Content(artifact.room, artifact.name, data).sha256 != artifact.sha256:
            raise StoreError(f"{path} was changed since it was written: open it yourself, or capture again")
        return data

    def _store(
        self, contents: Sequence[Content], session_id: str, record: SessionRecord | None, *, pinned: bool = False
    ) -> list[Path]:
        """Write the contents and their rows; with ``record``, as that session's new state."""
        refuse_link(self.folder)
        for room in {content.room: None for content in contents}:
            refuse_link(self.folder / room)
            make_folder(self.folder / room)
        staged: dict[tuple[str, str], Path] = {}
        try:
            with open_for_writing(self.folder) as index:
                for content in contents:
                    if self._intact(index, content) is None:
                        self._stage(content, staged)
                paths = self._commit(index, contents, staged, session_id, record)
                self._settle(index, session_id, pinned=pinned)
        finally:
            for temporary in staged.values():
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
        _log.debug("stored %d artifacts of session %s in %s", len(paths), session_id, self.folder)
        return [(self.folder / path).absolute() for path in paths]

    def _settle(self, index: Index, session_id: str, *, pinned: bool) -> None:
        """Pin the saved session, and bring the folder back to its limit; an error in here is only logged."""
        try:
            if pinned:
                with index.locked():
                    index.pin(session_id)
            if not self.limit or index.total_bytes() <= self.limit:
                return
            with index.locked():
                summary = shrink(self.folder, index, self.limit, now=time.time(), keep=session_id)
        except (OSError, sqlite3.Error) as error:
            _log.info("%s could not be brought back to its limit: %s", self.folder, error)
            return
        _log.log(logging.DEBUG if str(self.folder) in _warned else logging.WARNING, "%s", summary)
        _warned.add(str(self.folder))

    def _commit(
        self,
        index: Index,
        contents: Sequence[Content],
        staged: dict[tuple[str, str], Path],
        session_id: str,
        record: SessionRecord | None,
    ) -> list[str]:
        """Give everything its final name and its row; when that fails half-way (a full disk), nothing of it stays."""
        placed: list[tuple[str, str]] = []
        try:
            with index.locked():
                paths = [self._place(index, content, staged, placed) for content in contents]
                outdated = index.forget_record(session_id) if record else ()
                for content, path in zip(contents, paths, strict=True):
                    row = (content.sha256, content.room, content.name, path, len(content.data), time.time())
                    index.put_artifact(Artifact(*row, session_id), part_of_record=record is not None)
                if record:
                    index.put_session(record, contents[0].sha256)
        except BaseException:
            self._drop_unused(index, placed)
            raise
        if outdated:
            self._drop_unused(index, outdated)
        return paths

    def _stage(self, content: Content, staged: dict[tuple[str, str], Path]) -> Path:
        """Write the content under a temporary name in its room, once."""
        key = (content.room, content.sha256)
        if key not in staged:
            with explained("write", self.folder / content.path()):
                staged[key] = write_temporary(self.folder / content.room, content.data)
        return staged[key]

    def _place(
        self, index: Index, content: Content, staged: dict[tuple[str, str], Path], placed: list[tuple[str, str]]
    ) -> str:
        """Give the content its final name, unless it is stored already, and add it to ``placed``. Needs the lock."""
        if (path := self._intact(index, content)) is not None:
            return path
        temporary = self._stage(content, staged)
        attempt = 1
        while os.path.lexists(self.folder / content.path(attempt)):
            attempt += 1  # a file that the user edited or put there: not ours to overwrite
        path = content.path(attempt)
        with explained("write", self.folder / path):
            temporary.replace(self.folder / path)
        placed.append((path, content.sha256))
        del staged[content.room, content.sha256]  # another artifact with the same text is staged anew
        return path

    def _intact(self, index: Index, content: Content) -> str | None:
        """The path of the content if it is stored already, by the index or by a process killed before its row."""
        for path in (*index.paths_of(content.room, content.sha256), content.path()):
            with explained("read", self.folder / path):
                if sha256_of(self.folder / path) == content.sha256:
                    return path
        return None

    def _drop_unused(self, index: Index, files: Iterable[tuple[str, str]]) -> None:
        """Delete files (path, SHA-256) of ours that no session uses. One that cannot be deleted does no harm."""
        try:
            with index.locked():
                for path, sha256 in files:
                    if not index.users_of(path) and why_not_ours(self.folder, path, sha256) is None:
                        (self.folder / path).unlink(missing_ok=True)
        except (OSError, sqlite3.Error) as error:
            _log.info("an unused file stays in %s: %s", self.folder, error)


@dataclass(frozen=True, slots=True)
class Shelf:
    """The files of one session in a store: what is put here is listed with the session, and cleaned with it."""

    store: ArtifactStore
    session_id: str

    def put(self, room: str, name: str, content: str | bytes) -> Path:
        """Store one text or picture; returns its path.

        Raises:
            StoreError: it cannot be written.
        """
        return self.store.write(room, name, content, self.session_id)


def _some(names: Iterable[str]) -> str:
    """Join the first few names."""
    listed = [name[:20] for name in names]
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return ", ".join(listed[:5]) + more
