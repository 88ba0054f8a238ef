"""Delay or record Ctrl-C while the process's state is half changed.

Python raises ``KeyboardInterrupt`` in the main thread between any two calls: also half-way through restoring something,
which then stays changed. So the few places that change the process (hooks of torch, signal handlers, a child process)
replace the signal's handler while they do so, and the interrupt is raised when they are done.

A block is safe from its first to its last step because only the two calls of ``signal.signal`` open and close it: once
the first returns nothing raises any more, and when the second is called everything is done.
"""

from __future__ import annotations

import _thread
import functools
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class Interrupts:
    """The handler of SIGINT in :func:`noticed`: sets ``came``, and raises only while ``raises`` is set."""

    def __init__(self) -> None:
        self.came = False
        self.raises = False

    def __call__(self, _: int, __: FrameType | None) -> None:
        """The signal's handler."""
        self.came = True
        if self.raises:
            raise KeyboardInterrupt

    def let_stop(self, action: Callable[[], Any]) -> None:
        """Run ``action``, which Ctrl-C may stop.

        Raises:
            KeyboardInterrupt: it was stopped.
        """
        try:
            self.raises = True
            action()
        except KeyboardInterrupt:  # also one without a signal: a model may raise it
            self.came = True
            raise
        finally:
            self.raises = False


def stoppable(method: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """Decorator: Ctrl-C leaves the method as a ``KeyboardInterrupt`` without the frames inside.

    Clearing the frames closes generators, so that a ``with`` that had only just been entered restores what it changed.
    The frames are not printed either; IPython takes many seconds for the hundred frames of a compile.
    """

    @functools.wraps(method)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        try:
            with never_lost():
                return method(*args, **kwargs)
        except KeyboardInterrupt as error:
            traceback.clear_frames(error.__traceback__)
        raise KeyboardInterrupt

    return run


@contextmanager
def noticed() -> Iterator[Interrupts]:
    """Only record Ctrl-C inside the block. On threads other than the main one, which get no signals, do nothing."""
    interrupts = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def never_lost() -> Iterator[None]:
    """Ctrl-C inside the block that Python drops is sent once more.

    Python ignores what is raised while its collector runs the callback of a weak reference. A compile leaves so many
    of these that about one Ctrl-C in thirty is raised there.
    """
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt and threading.current_thread() is threading.main_thread():
            threading.Timer(0.02, _thread.interrupt_main).start()  # by then the callback is over
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        if sys.unraisablehook is hook:
            sys.unraisablehook = before


@contextmanager
def held_back(undo: Callable[[], Any] | None = None) -> Iterator[None]:
    """Ctrl-C inside the block strikes at its end, as the handler has it that was there before.

    ``undo`` takes back what the block did, when Ctrl-C came: whoever would do so later never gets to know of it.
    """
    interrupts = Interrupts()
    try:
        with noticed() as interrupts:
            yield
            if interrupts.came and undo is not None:
                undo()
    finally:
        if interrupts.came:
            signal.raise_signal(signal.SIGINT)
