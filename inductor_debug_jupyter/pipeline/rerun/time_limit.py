"""Give up on a model that does not come back.

A timer signal interrupts the main thread's Python code, which is enough for a model that loops or waits. Code that
hangs inside a C library needs a process of its own (``isolate=True``).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.interrupts import held_back


def check_time_limit(seconds: float | None, *, isolate: bool = False) -> None:
    """Refuse a limit that cannot be kept. A process of its own (``isolate``) can be ended from any thread.

    Raises:
        OptionError: it is not a number of seconds above 0.
        UsageError: this is not the main thread, or the system has no such timer.
    """
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise OptionError(f"timeout={seconds!r}; allowed: a number of seconds above 0")
    if not isolate and not _has_timer():
        raise UsageError("timeout works in the main thread of Linux and macOS only; give isolate=True or leave it out")


def _has_timer() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise :class:`TimeoutError` when the block takes longer; the timer that was set before goes on afterwards."""
    if seconds is None or not _has_timer():  # checked before: without a timer, only beside an isolated side
        yield
        return

    def give_up(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"no answer within {seconds:g} s")

    previous, timer = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    try:
        signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        with held_back():
            signal.setitimer(signal.ITIMER_REAL, *timer)
            signal.signal(signal.SIGALRM, previous)
