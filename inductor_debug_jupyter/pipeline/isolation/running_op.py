"""The op that a worker process is running, readable by its parent after a crash.

The child writes the op's name into a memory-mapped file of 512 bytes, which survives whatever ends the child. An
adapter that executes ops itself marks them with :func:`running`; outside a child that does nothing.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE = 512
_MARK = "inductor_debug_op"
_mapped: list[mmap.mmap] = []


@contextmanager
def running(op: str) -> Iterator[None]:
    """Name ``op`` as the running one until the block ends.

    An error that leaves the block carries the op's name; after ``sys.exit`` the op stays named.
    """
    if not _mapped:
        yield
        return
    before = _mapped[0][:SIZE]
    write(op)
    try:
        yield
    except Exception as error:
        if not op_of(error):
            error.__dict__[_MARK] = op
        _mapped[0][:SIZE] = before
        raise
    _mapped[0][:SIZE] = before


def op_of(error: BaseException) -> str:
    """The op that an error came from, or an empty text."""
    return str(error.__dict__.get(_MARK, ""))


def write(text: str) -> None:
    """Write the name of the running op; empty for none."""
    if _mapped:
        data = text.encode()[: SIZE - 1]
        _mapped[0][:SIZE] = data.ljust(SIZE, b"\0")


def open_for_writing(path: str) -> None:
    """Map the file for writing, in the child."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        _mapped[:] = [mmap.mmap(descriptor, SIZE)]
    finally:
        os.close(descriptor)


def read(path: Path) -> str:
    """The op that was running last, read by the parent."""
    try:
        return path.read_bytes()[:SIZE].rstrip(b"\0").decode(errors="replace")
    except OSError:
        return ""
