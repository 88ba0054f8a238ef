"""Remove our frames from the user's tracebacks.

Between the cell and the user's ``forward`` a captured call passes through our wrapper and Dynamo. Neither was there
without the magic, so neither is shown: a run of Dynamo's frames is dropped where it follows one of ours, and only
there. When Ctrl-C strikes while a plain module is shown to the compiler, all that follows our first frame is dropped:
without the magic there was no compile, and IPython would take seconds to print its hundred frames.
"""

from __future__ import annotations

import contextlib
import traceback as python_traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any

from inductor_debug_jupyter.pipeline.capture.sources import is_library, spellings
from inductor_debug_jupyter.pipeline.torch_compat import patches

_OURS = spellings(Path(__file__).parents[1])
_DYNAMO = str(Path("torch") / "_dynamo")
_COMPILES = str(Path("_dynamo") / "convert_frame.py")
_WALKERS = ("walk_tb", "_walk_tb_with_full_positions")
"""Through these Python's ``traceback`` reads a traceback, as for ``traceback.print_exc()`` in the cell."""


class _IsOurs:
    """Whether the next frame of a traceback was not there without the magic; to be asked of each in turn."""

    def __init__(self) -> None:
        self._dropping = False

    def __call__(self, frame: FrameType) -> bool:
        file = frame.f_code.co_filename
        self._dropping = file.startswith(_OURS) or (self._dropping and _DYNAMO in file)
        return self._dropping


def without_our_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback, relinked around our frames."""
    kept: list[TracebackType] = []
    is_ours = _IsOurs()
    while traceback is not None:
        if not is_ours(traceback.tb_frame):
            kept.append(traceback)
        traceback = traceback.tb_next
    for link, following in zip(kept, [*kept[1:], None], strict=False):
        link.tb_next = following
    return kept[0] if kept else None


def _before_our_compile(error: KeyboardInterrupt) -> None:
    """End the traceback before our first frame, when the interrupt struck in a compile below it."""
    last, is_ours, compiles = None, False, False
    link = error.__traceback__
    while link is not None:
        file = link.tb_frame.f_code.co_filename
        is_ours = is_ours or file.startswith(_OURS)
        compiles = compiles or (is_ours and file.endswith(_COMPILES))
        last = last if is_ours else link
        link = link.tb_next
    if compiles and last is not None:
        last.tb_next = None


def _was_running(traceback: TracebackType | None) -> bool:
    """Whether the cell's code was running when it failed; IPython also comes here when it cannot compile a cell."""
    return traceback is None or traceback.tb_frame.f_code.co_name != "run_cell_async"


def clean(error: BaseException) -> None:
    """Clean an error and everything it was raised from."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.__traceback__ = without_our_frames(current.__traceback__)
        current = current.__cause__ or current.__context__


def _leave(error: BaseException) -> None:
    """Clear the frames of libraries, ours among them, so that a ``with`` that was only just entered is left."""
    for frame, _ in walk_tb(error.__traceback__):
        if is_library(frame.f_code.co_filename):
            with contextlib.suppress(RuntimeError):  # it still runs
                frame.clear()


@patches.around
def _walk(original: Callable[..., Iterable[tuple[FrameType, Any]]], *args: Any) -> Iterator[tuple[FrameType, Any]]:
    is_ours = _IsOurs()
    return (each for each in original(*args) if not is_ours(each[0]))


class CleanTracebacks:
    """While installed, errors are shown without our frames, by IPython and by Python's ``traceback``.

    A handler of IPython's that was there before gets its turn.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._before: tuple[tuple[type[BaseException], ...], Callable[..., Any] | None] | None = None
        self._undo = ExitStack()

    def install(self) -> None:
        """Replace IPython's handler of errors, and what Python's ``traceback`` walks."""
        self._before = (self._shell.custom_exceptions, getattr(self._shell, "CustomTB", None))
        self._shell.set_custom_exc((BaseException,), self._show)
        for name in _WALKERS:
            if hasattr(python_traceback, name):  # the second is Python's own, and private
                self._undo.callback(patches.release, python_traceback, name)
                patches.acquire(python_traceback, name, _walk, "tracebacks")

    def remove(self) -> None:
        """Restore the handler from before."""
        self._undo.close()
        if self._before is None:
            return
        self._shell.custom_exceptions, handler = self._before
        if handler is not None:
            self._shell.CustomTB = handler
        self._before = None

    def _show(
        self, shell: Any, kind: type[BaseException], error: BaseException, traceback: Any, tb_offset: int | None = None
    ) -> Any:
        if isinstance(error, KeyboardInterrupt):
            _leave(error)
            _before_our_compile(error)
        clean(error)
        exceptions, handler = self._before or ((), None)
        if handler is not None and exceptions and issubclass(kind, exceptions):
            return handler(kind, error, error.__traceback__, tb_offset=tb_offset)
        if not _was_running(traceback):  # the cell could not be read: there is no traceback, only a place in it
            show = shell.showindentationerror if isinstance(error, IndentationError) else shell.showsyntaxerror
            return show()
        shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset, running_compiled_code=True)
        return None
