"""Files of the store: written whole or not at all, checked when read, and no link followed out of the folder."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import sqlite3
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

from inductor_debug_jupyter.pipeline.errors import StoreError

TEMPORARY = re.compile(r"\.writing-[0-9a-f]{32}\.tmp")
"""The names under which files are written before they get their own."""

_ADVICE = {
    errno.ENOSPC: "free some space, run `inductor-debug clean`, or choose another folder with --artifacts",
    errno.EDQUOT: "free some of your quota, run `inductor-debug clean`, or choose another folder with --artifacts",
    errno.EFBIG: "the process may not write files of this size (ulimit -f); raise the limit",
    errno.EIO: "the disk or file system reports an error; choose another folder with --artifacts",
    errno.EISDIR: "give the path of a file",
    errno.ENODEV: "give the path of a file",
    errno.EOVERFLOW: "give a file that inductor-debug wrote",
    errno.EMFILE: "the process has too many open files (ulimit -n); close some",
}
_NOT_THERE = "check the path, or run the cell again to capture it again"
_OTHER_ADVICE = "choose a folder that you can write to with --artifacts or INDUCTOR_DEBUG_ARTIFACTS"
_FULL_DISK_WORDS = ("disk is full", "disk I/O error")


@contextlib.contextmanager
def explained(action: str, path: Path) -> Iterator[None]:
    """Turn an error of the file system or of SQLite into a :class:`StoreError` of one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        is_missing = error.errno == errno.ENOENT and action == "read"
        advice = _NOT_THERE if is_missing else _ADVICE.get(error.errno or 0, _OTHER_ADVICE)
        raise StoreError(f"cannot {action} {path}: {reason}; {advice}") from error
    except sqlite3.Error as error:
        raise StoreError(f"cannot {action} {path}: {error}; {_sqlite_advice(error)}") from error


def _sqlite_advice(error: sqlite3.Error) -> str:
    text = str(error)
    if any(word in text for word in _FULL_DISK_WORDS):
        return _ADVICE[errno.ENOSPC]
    if "locked" in text:
        return "another process has held the index for too long; try again when it is done"
    if "malformed" in text or "not a database" in text:
        return "the index is damaged: move it away; the files under sessions/ stay and can still be loaded by path"
    return _OTHER_ADVICE


def refuse_link(path: Path) -> None:
    """Check that ``path`` is no link, which could send our writes anywhere.

    Raises:
        StoreError: it is one.
    """
    if path.is_symlink():
        target = os.path.realpath(path)
        raise StoreError(
            f"cannot write {path}: it is a link to {target}, and writes follow no links; "
            "remove the link, or choose the real folder with --artifacts"
        )


def make_folder(path: Path) -> None:
    """Create a folder with its parents, or say why that is impossible."""
    with explained("create the artifact folder", path):
        path.mkdir(parents=True, exist_ok=True)


def temporary_name() -> str:
    """A name that fits :data:`TEMPORARY`."""
    return f".writing-{uuid.uuid4().hex}.tmp"


def write_temporary(folder: Path, data: bytes, temporary: Path | None = None) -> Path:
    """Write ``data`` under a temporary name in ``folder``, all of it and down to the disk; on failure leave nothing."""
    temporary = temporary or folder / temporary_name()
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file's content atomically: a reader finds the old or the new, even after a kill or on a full disk."""
    with explained("write", path), replacing(path) as temporary:
        write_temporary(path.parent, data, temporary)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A random file name beside ``path``; what the block wrote there becomes ``path``, or is deleted on an error."""
    temporary = path.with_name(temporary_name())
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sha256_of(path: Path) -> str | None:
    """Hash a file; None if it is not there or not a regular file (a link is not followed)."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def why_not_ours(folder: Path, relative: str, sha256: str) -> str | None:
    """Why a file that the index names must not be deleted, or None if it may be.

    Only a regular file may, reached without a link that leads out of the folder, and with the content that was written.
    """
    path = folder / relative
    try:
        inside = path.parent.resolve().is_relative_to(folder.resolve())
        if not inside or Path(relative).is_absolute() or ".." in Path(relative).parts:
            return "reached through a link or path that leads out of the folder"
        if path.is_symlink():
            return "a link, not the file that was written"
        if path.exists() and sha256_of(path) != sha256:
            return "changed since it was written"
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    return None
