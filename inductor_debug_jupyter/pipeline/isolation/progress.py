"""Where a process is, told to whoever watches it, so that it is known after a crash.

The worker's child writes the op that is running into a few bytes of a file that is mapped into memory: they are there
for the parent whatever ends the child. An adapter that executes ops itself says so with :func:`running`; elsewhere,
and outside a child, it costs next to nothing.
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
    """Say that ``op`` is running until the block ends.

    An error that leaves the block carries the op's name; where ``sys.exit`` does, the op stays named.
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
    """Name what is running; an empty text when nothing is."""
    if _mapped:
        data = text.encode()[: SIZE - 1]
        _mapped[0][:SIZE] = data.ljust(SIZE, b"\0")


def open_for_writing(path: str) -> None:
    """In the child: map the file."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        _mapped[:] = [mmap.mmap(descriptor, SIZE)]
    finally:
        os.close(descriptor)


def read(path: Path) -> str:
    """In the parent: what was running last."""
    try:
        return path.read_bytes()[:SIZE].rstrip(b"\0").decode(errors="replace")
    except OSError:
        return ""
