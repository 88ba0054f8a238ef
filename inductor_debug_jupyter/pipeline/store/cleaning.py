"""Delete sessions with their files, and the files that killed writers left behind; nothing else.

A session is cleaned with everything it used. A file is deleted when no remaining session uses it and
:func:`~inductor_debug_jupyter.pipeline.store.files.why_not_ours` has no objection; otherwise the report says why it was
kept. A file under a temporary name of ours is unfinished: when it was not changed for an hour its writer is gone, and
it is deleted, whatever the rules say about sessions. A file that no row names is ours when its name carries its own
SHA-256 (:meth:`Content.path`): its writer was killed before the row, or the index is lost. Files are deleted before
their rows: an interrupted clean leaves rows of missing files, which the next clean forgets, and never a file without a
row.

After a save, :func:`shrink` removes the oldest sessions when the folder is larger than its limit.
"""

from __future__ import annotations

import logging
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from inductor_debug_jupyter.pipeline.store.file_layout import ROOMS
from inductor_debug_jupyter.pipeline.store.files import TEMPORARY, sha256_of, why_not_ours
from inductor_debug_jupyter.pipeline.store.index import Artifact, Index

UNFINISHED = "left unfinished by a writer that was killed"
ORPHANED = "written by us and named in no row: its writer was killed, or the index was lost"
_OURS = re.compile(r".+-([0-9a-f]{16})(?:-\d{1,9})?(?:\.[A-Za-z0-9_-]{1,8})?")
"""Names that :meth:`Content.path` gives."""
_ABANDONED = 3600.0
"""Seconds. A writer renames its temporary file within moments; one that was suspended raises when it cannot."""
_log = logging.getLogger("inductor_debug_jupyter")


@dataclass(frozen=True, slots=True)
class CleanedFile:
    """One file, relative to the folder, its size, and why it was deleted or kept."""

    path: str
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class CleanReport:
    """Sessions and files that were deleted and kept, or would be (``dry_run``). ``kept_sessions``: id → reason."""

    sessions: tuple[str, ...]
    deleted: tuple[CleanedFile, ...]
    kept: tuple[CleanedFile, ...]
    kept_sessions: dict[str, str]
    dry_run: bool

    @property
    def freed(self) -> int:
        """Bytes of the deleted files."""
        return sum(file.bytes for file in self.deleted)


@dataclass(frozen=True)
class _Group:
    """A session id with its files; also one whose session was never saved but whose repro was."""

    session_id: str
    time: float
    artifacts: tuple[Artifact, ...]


def clean_folder(
    folder: Path,
    index: Index,
    *,
    now: float,
    older_than: float | None,
    keep_last: int | None,
    max_bytes: int | None,
    dry_run: bool,
) -> CleanReport:
    """Delete every session that no rule protects; see :meth:`ArtifactStore.clean`. The caller holds the lock."""
    groups = _groups(index)
    kept_sessions: dict[str, str] = {}
    fitting = _that_fit(groups, max_bytes)
    for position, group in enumerate(groups):
        if keep_last is not None and position < keep_last:
            kept_sessions[group.session_id] = f"one of the last {keep_last}"
        elif older_than is not None and now - group.time < older_than:
            kept_sessions[group.session_id] = "not old enough"
        elif group.session_id in fitting:
            kept_sessions[group.session_id] = "one of the newest that fit"
    doomed = [group for group in groups if group.session_id not in kept_sessions]
    deleted, kept = _delete_files(folder, index, doomed, dry_run=dry_run)
    if not dry_run:
        for group in doomed:
            index.forget_session(group.session_id)
    known = {artifact.path for group in groups for artifact in group.artifacts}
    left, strange = _clean_unlisted(folder, known, now=now, older_than=older_than or 0.0, dry_run=dry_run)
    deleted, kept = deleted + left, kept + strange
    return CleanReport(tuple(group.session_id for group in doomed), tuple(deleted), tuple(kept), kept_sessions, dry_run)


def _that_fit(groups: list[_Group], max_bytes: int | None) -> set[str]:
    """The newest sessions whose files have no more than so many bytes together."""
    fitting: set[str] = set()
    sizes: dict[str, int] = {}
    for group in groups:
        sizes |= {artifact.path: artifact.bytes for artifact in group.artifacts}
        if max_bytes is None or sum(sizes.values()) > max_bytes:
            break
        fitting.add(group.session_id)
    return fitting


def _groups(index: Index) -> list[_Group]:
    """Every session id with what it used, the newest first."""
    artifacts: defaultdict[str, list[Artifact]] = defaultdict(list)
    times: dict[str, float] = {}
    for session in reversed(index.sessions()):
        times[session.id] = session.saved
    for artifact in index.artifacts():
        artifacts[artifact.session_id].append(artifact)
        times[artifact.session_id] = max(times.get(artifact.session_id, 0.0), artifact.created)
    groups = [_Group(name, time, tuple(artifacts[name])) for name, time in times.items()]
    return sorted(groups, key=lambda group: group.time, reverse=True)


def _delete_files(
    folder: Path, index: Index, doomed: list[_Group], *, dry_run: bool
) -> tuple[list[CleanedFile], list[CleanedFile]]:
    deleted: list[CleanedFile] = []
    kept: list[CleanedFile] = []
    leaving = {group.session_id for group in doomed}
    for artifact in {artifact.path: artifact for group in doomed for artifact in group.artifacts}.values():
        users = index.users_of(artifact.path)
        staying = [user for user in users if user not in leaving]
        if staying:
            kept.append(_answer(artifact, f"also used by session {staying[0]}"))
        elif reason := _remove(folder, artifact, dry_run=dry_run):
            kept.append(_answer(artifact, reason))
            continue
        else:
            deleted.append(_answer(artifact, "written by a session that was cleaned"))
        if not dry_run:
            for user in leaving.intersection(users):
                index.forget_use(user, artifact.path)
    return deleted, kept


def _remove(folder: Path, artifact: Artifact, *, dry_run: bool) -> str | None:
    """Delete the file; the reason if it must stay."""
    if reason := why_not_ours(folder, artifact.path, artifact.sha256):
        return reason
    if not dry_run:
        try:
            (folder / artifact.path).unlink(missing_ok=True)
        except OSError as error:
            return f"cannot be deleted ({error.strerror})"
        _log.debug("deleted %s", folder / artifact.path)
    return None


def _answer(artifact: Artifact, reason: str) -> CleanedFile:
    return CleanedFile(artifact.path, artifact.bytes, reason)


def _clean_unlisted(
    folder: Path, known: set[str], *, now: float, older_than: float, dry_run: bool
) -> tuple[list[CleanedFile], list[CleanedFile]]:
    """Delete what killed writers left: temporary files after an hour, files of ours without a row when old enough.

    The rest is kept: not ours, or being written. Under the index's lock no process is placing a file. Temporary files
    are looked for in the folder itself too, where :meth:`probe` writes.
    """
    deleted: list[CleanedFile] = []
    kept: list[CleanedFile] = []
    for entry, path in _unlisted(folder, known):
        status, is_temporary = entry.stat(follow_symlinks=False), TEMPORARY.fullmatch(entry.name) is not None
        age = now - status.st_mtime
        is_left = age >= _ABANDONED if is_temporary else age >= older_than and _is_ours(folder, path)
        if is_left and (dry_run or _unlink(Path(entry.path))):
            deleted.append(CleanedFile(path, status.st_size, UNFINISHED if is_temporary else ORPHANED))
        elif path != entry.name:
            writing = ": a process may be writing it" if is_temporary else ""
            kept.append(CleanedFile(path, status.st_size, f"not in the index{writing}"))
    return deleted, kept


def _unlisted(folder: Path, known: set[str]) -> Iterator[tuple[os.DirEntry[str], str]]:
    """The files of our subfolders that no row names, and temporary files of the folder itself, with their paths."""
    yield from ((entry, entry.name) for entry in _files(folder) if TEMPORARY.fullmatch(entry.name))
    for room in ROOMS:
        for entry in _files(folder / room):
            if (path := f"{room}/{entry.name}") not in known:
                yield entry, path


def _is_ours(folder: Path, path: str) -> bool:
    """Whether a file has the name that we give to its content; a file that was edited has not."""
    named = _OURS.fullmatch(Path(path).name)
    try:
        return named is not None and (sha256_of(folder / path) or "").startswith(named[1])
    except OSError:
        return False


def _unlink(path: Path) -> bool:
    """Delete a file whose writer was killed, and say whether it is gone; one that cannot be deleted does no harm."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.info("%s, whose writer was killed, stays: %s", path, error)
        return False
    _log.debug("deleted %s, whose writer was killed", path)
    return True


def shrink(folder: Path, index: Index, limit: int, *, now: float, keep: str) -> str:
    """Remove the oldest sessions until the files have no more than ``limit`` bytes; returns a summary in one line.

    Session ``keep``, pinned sessions and whatever was written within the last hour (by a process that may still use it)
    stay. The caller holds the lock.
    """
    before, pinned, removed = index.total_bytes(), index.pinned(), 0
    for group in reversed(_groups(index)):
        if index.total_bytes() <= limit:
            break
        if group.session_id != keep and group.session_id not in pinned and now - group.time > _ABANDONED:
            _delete_files(folder, index, [group], dry_run=False)
            index.forget_session(group.session_id)
            removed += 1
    freed, left = before - index.total_bytes(), index.total_bytes()
    gone = f"its {removed} oldest sessions ({freed / 1024**2:,.1f} MiB) were deleted"
    done = gone if removed else "nothing was deleted"
    rest = "; what is left is pinned or was written within the last hour" if left > limit else ""
    return (
        f"the artifact folder {folder} was larger than its limit of {limit / 1024**2:,.0f} MiB: {done}{rest}; "
        "session.save() pins a session, INDUCTOR_DEBUG_ARTIFACTS_LIMIT sets the limit"
    )


def _files(place: Path) -> Iterator[os.DirEntry[str]]:
    """The files of a folder by name; no link is followed."""
    if place.is_symlink() or not place.is_dir():
        return
    with os.scandir(place) as entries:
        yield from sorted(
            (entry for entry in entries if entry.is_file(follow_symlinks=False)), key=lambda entry: entry.name
        )
