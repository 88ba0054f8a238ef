"""Remove our frames from the user's tracebacks.

Between the cell and the user's ``forward`` a captured call passes through our wrapper and Dynamo. Neither was there
without the magic, so neither is shown: a run of Dynamo's frames is dropped where it follows one of ours, and only
there. When Ctrl-C strikes while a plain module is shown to the compiler, all that follows our first frame is dropped:
without the magic there was no compile, and IPython would take seconds to print its hundred frames.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any

from inductor_debug_jupyter.pipeline.capture.sources import is_library, spellings

_OURS = spellings(Path(__file__).parents[1])
_DYNAMO = str(Path("torch") / "_dynamo")
_COMPILES = str(Path("_dynamo") / "convert_frame.py")


def without_our_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback, relinked around our frames."""
    kept: list[TracebackType] = []
    dropping = False
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        ours = file.startswith(_OURS)
        dropping = ours or (dropping and _DYNAMO in file)
        if not dropping:
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


class CleanTracebacks:
    """While installed, IPython shows errors without our frames; a handler that was there before gets its turn."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._before: tuple[tuple[type[BaseException], ...], Callable[..., Any] | None] | None = None

    def install(self) -> None:
        """Start cleaning."""
        self._before = (self._shell.custom_exceptions, getattr(self._shell, "CustomTB", None))
        self._shell.set_custom_exc((BaseException,), self._show)

    def remove(self) -> None:
        """Restore the handler from before."""
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
