"""The SQLite index of an artifact folder.

WAL mode, so that readers and a writer do not wait for each other; one writer at a time (``BEGIN IMMEDIATE``), others
wait up to :data:`BUSY_SECONDS`. A connection lives for one operation only, which makes the store safe to use from
threads and after a fork. One row of ``artifacts`` is one use of a file by a session: identical contents share the file.
A row of ``pinned`` is a session that the user saved by hand, which the folder's size limit never removes.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from inductor_debug_jupyter.pipeline.errors import StoreError
from inductor_debug_jupyter.pipeline.reading import LARGEST_NUMBER
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.store.files import explained, refuse_link

INDEX_NAME = "index.sqlite"
INDEX_VERSION = 2
BUSY_SECONDS = 60.0
_LATEST = 253402300799.0
"""Seconds since 1970: the end of the year 9999, and of Python's calendar."""

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS sessions (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, created TEXT NOT NULL, saved REAL NOT NULL, target TEXT NOT NULL,
        graphs INTEGER NOT NULL, findings INTEGER NOT NULL, sha256 TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS artifacts (
        sha256 TEXT NOT NULL, room TEXT NOT NULL, name TEXT NOT NULL, path TEXT NOT NULL, bytes INTEGER NOT NULL,
        created REAL NOT NULL, session_id TEXT NOT NULL, part_of_record INTEGER NOT NULL,
        PRIMARY KEY (session_id, room, name, sha256))""",
    "CREATE TABLE IF NOT EXISTS pinned (session_id TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS artifacts_by_content ON artifacts (room, sha256)",
    "CREATE INDEX IF NOT EXISTS artifacts_by_path ON artifacts (path)",
    f"PRAGMA user_version = {INDEX_VERSION}",
)


@dataclass(frozen=True, slots=True)
class Artifact:
    """One stored file as one session uses it. ``path`` is relative to the folder, ``created`` in seconds since 1970."""

    sha256: str
    room: str
    name: str
    path: str
    bytes: int
    created: float
    session_id: str


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A session's row; ``bytes`` is the size of all its files, ``saved`` in seconds since 1970."""

    id: str
    name: str
    created: str
    saved: float
    target: str
    graphs: int
    findings: int
    sha256: str
    bytes: int


class Index:
    """Queries and changes on one open connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def sessions(self) -> tuple[SavedSession, ...]:
        """Every saved session, the last saved first."""
        rows = self._connection.execute(
            """SELECT id, name, created, saved, target, graphs, findings, sha256,
                 (SELECT coalesce(sum(bytes), 0) FROM
                   (SELECT DISTINCT path, bytes FROM artifacts WHERE session_id = sessions.id))
               FROM sessions ORDER BY saved DESC, rowid DESC"""
        )
        return tuple(_checked(SavedSession, row) for row in rows)

    def artifacts(self, session_id: str | None = None, room: str | None = None) -> tuple[Artifact, ...]:
        """Every use of a file, oldest first, filtered."""
        rows = self._connection.execute(
            """SELECT sha256, room, name, path, bytes, created, session_id FROM artifacts
               WHERE (?1 IS NULL OR session_id = ?1) AND (?2 IS NULL OR room = ?2) ORDER BY created, rowid""",
            (session_id, room),
        )
        return tuple(_checked(Artifact, row) for row in rows)

    def paths_of(self, room: str, sha256: str) -> tuple[str, ...]:
        """The paths of files with that content in that subfolder."""
        query = "SELECT DISTINCT path FROM artifacts WHERE room = ? AND sha256 = ?"
        return tuple(_path(row[0]) for row in self._connection.execute(query, (room, sha256)))

    def users_of(self, path: str) -> tuple[str, ...]:
        """List the sessions that use that file."""
        query = "SELECT DISTINCT session_id FROM artifacts WHERE path = ? ORDER BY session_id"
        return tuple(_text(row[0]) for row in self._connection.execute(query, (path,)))

    def put_session(self, record: SessionRecord, sha256: str) -> None:
        """Insert the session, or replace the row that has its id."""
        counts = len(record.captures), len(record.findings)
        self._connection.execute(
            "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (record.id, record.name, record.created, time.time(), record.target, *counts, sha256),
        )

    def put_artifact(self, artifact: Artifact, *, part_of_record: bool) -> None:
        """Insert one use of a file; ``part_of_record`` is replaced when the session is saved again."""
        values = (*astuple(artifact), int(part_of_record))
        self._connection.execute("INSERT OR REPLACE INTO artifacts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def forget_record(self, session_id: str) -> tuple[tuple[str, str], ...]:
        """Drop the rows of an earlier save of that session; (path, sha256) of the files that it used."""
        query = "DELETE FROM artifacts WHERE session_id = ? AND part_of_record = 1 RETURNING path, sha256"
        return tuple(self._connection.execute(query, (session_id,)).fetchall())

    def forget_session(self, session_id: str) -> None:
        """Drop a session's row."""
        self._connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
        self._connection.execute("DELETE FROM pinned WHERE session_id = ?", (session_id,))

    def pin(self, session_id: str) -> None:
        """From now on no limit of the folder's size removes the session."""
        self._connection.execute("INSERT OR REPLACE INTO pinned VALUES (?)", (session_id,))

    def pinned(self) -> frozenset[str]:
        """The ids of pinned sessions."""
        return frozenset(_text(row[0]) for row in self._connection.execute("SELECT session_id FROM pinned"))

    def total_bytes(self) -> int:
        """Bytes of all files in the index."""
        query = "SELECT coalesce(sum(bytes), 0) FROM (SELECT DISTINCT path, bytes FROM artifacts)"
        return int(self._connection.execute(query).fetchone()[0])

    def forget_use(self, session_id: str, path: str) -> None:
        """Drop a session's use of a file."""
        self._connection.execute("DELETE FROM artifacts WHERE session_id = ? AND path = ?", (session_id, path))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the write lock; commit at the end, roll back on an error."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
            raise


def _text(value: Any) -> str:
    """A value that we wrote as text.

    Raises:
        sqlite3.DatabaseError: it is something else.
    """
    if not isinstance(value, str):
        raise sqlite3.DatabaseError("malformed row (a path or an id that is no text)")
    return value


def _path(value: Any) -> str:
    """A path that we wrote.

    Raises:
        sqlite3.DatabaseError: it is no text, or none that can be a path.
    """
    if "\0" in _text(value):
        raise sqlite3.DatabaseError("malformed row (a path that no file can have)")
    return str(value)


_Row = TypeVar("_Row", Artifact, SavedSession)


def _checked(kind: type[_Row], row: tuple[Any, ...]) -> _Row:
    """A row as a record; SQLite keeps any type in any column, and another program may have written it.

    Raises:
        sqlite3.DatabaseError: a value of a type, or a time, that we never write.
    """
    values = dict(zip((field.name for field in fields(kind)), row, strict=True))
    try:
        record = msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise sqlite3.DatabaseError(f"malformed row ({error})") from None
    if isinstance(record, Artifact):
        _path(record.path)
    moment = record.saved if isinstance(record, SavedSession) else record.created
    if not 0 <= moment <= _LATEST or not 0 <= record.bytes <= LARGEST_NUMBER:
        raise sqlite3.DatabaseError("malformed row (a time or a size that cannot be)")
    return record


@contextlib.contextmanager
def open_for_writing(folder: Path) -> Iterator[Index]:
    """Open the folder's index; make it if it is not there."""
    path = folder / INDEX_NAME
    refuse_link(folder)
    refuse_link(path)
    with explained("write", path), contextlib.closing(_connect(path)) as connection:
        if _version(connection, path) < INDEX_VERSION:
            _use_wal(connection)
            with Index(connection).locked():
                for statement in _SCHEMA:
                    connection.execute(statement)
        connection.execute("PRAGMA synchronous = NORMAL")
        yield Index(connection)


@contextlib.contextmanager
def open_for_reading(folder: Path) -> Iterator[Index | None]:
    """Open the folder's index; None if nothing was ever stored there. Creates nothing."""
    path = folder / INDEX_NAME
    with explained("read", path):
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"cannot read {folder}: it is a file, not a folder; choose a folder with --artifacts")
        if not path.exists():
            yield None
            return
        with contextlib.closing(_connect_read_only(path)) as connection:
            yield Index(connection) if _version(connection, path) else None


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Open without writing.

    WAL wants to create files beside the index, which a read-only folder refuses: there the index is opened as one that
    cannot change.
    """
    place = path.absolute().as_uri()
    try:
        return _opened(f"{place}?mode=ro")
    except sqlite3.OperationalError:
        return _opened(f"{place}?mode=ro&immutable=1")


def _opened(address: str) -> sqlite3.Connection:
    """A connection that has read from the index once."""
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection, path: Path) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > INDEX_VERSION:
        raise StoreError(
            f"cannot use {path}: it was written by a newer release (index version {version}, this one knows "
            f"{INDEX_VERSION}); upgrade inductor-debug-jupyter or choose another folder with --artifacts"
        )
    return version


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL. While two processes do so at once, SQLite answers "locked" without waiting: try again."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
