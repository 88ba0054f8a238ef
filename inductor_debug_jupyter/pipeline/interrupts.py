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
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

_CONTEXT_CHANGES = {"__enter__", "__exit__"}
_LONGEST_WAIT = 1.0
"""Seconds that Ctrl-C waits for a context manager that is being entered or left."""

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


def _is_in_context_change(frame: FrameType | None) -> bool:
    """Whether a context manager is being entered or left, as seen from ``frame`` up."""
    return any(each.f_code.co_name in _CONTEXT_CHANGES for each, _ in traceback.walk_stack(frame) if frame is not None)


@contextmanager
def never_swallowed() -> Iterator[None]:
    """Ctrl-C that strikes inside the block ends it as a ``KeyboardInterrupt``, whatever the code inside makes of it.

    torch turns some into other errors (an assertion in a ``finally`` that was entered too early fails), which Dynamo,
    or whoever runs a foreign backend, takes for a failure like another one. And it dies of a segmentation fault when
    the exit of one of its modes is cut in two: while an ``__enter__`` or ``__exit__`` is on the call stack Ctrl-C
    waits, for a second at most.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    raised = []
    waiting = _Waiting()

    def handler(number: int, frame: FrameType | None) -> None:
        if waiting.takes(frame):
            return
        try:
            before(number, frame)
        except KeyboardInterrupt:
            raised.append(number)
            raise

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    except Exception:
        if raised:
            raise KeyboardInterrupt from None
        raise
    finally:
        waits = waiting.ended()
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, before)
        if waits:
            before(signal.SIGINT, None)
    if raised:
        raise KeyboardInterrupt


class _Waiting:
    """A Ctrl-C that waits until the context manager that it struck in has been entered or left."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._is_over = False
        self._came_late = False
        self._lock = threading.Lock()
        """Held while it is decided whether the signal is sent again: not after the block has ended."""

    def takes(self, frame: FrameType | None) -> bool:
        """Whether the signal that strikes at ``frame`` has to wait; it is sent again soon."""
        if self._is_over:  # the block is being left, and raises in the end
            self._came_late = True
            return True
        now = time.monotonic()
        if not _is_in_context_change(frame) or now - (self._since or now) >= _LONGEST_WAIT:
            self._since = None
            return False
        self._since = self._since or now
        threading.Timer(0.002, self._send).start()
        return True

    def _send(self) -> None:
        with self._lock:
            if self._since is not None:
                _thread.interrupt_main()

    def ended(self) -> bool:
        """No more waiting: whether a Ctrl-C waits still, which is then not sent again."""
        self._is_over = True
        with self._lock:
            waits, self._since = self._since is not None, None
        self._came_late = self._came_late or waits
        return self._came_late


@contextmanager
def held_back(undo: Callable[[], Any] | None = None) -> Iterator[None]:
    """Ctrl-C inside the block strikes at its end, as the handler has it that was there before.

    ``undo`` takes back what the block did, when Ctrl-C came: the code that would do so later is never reached.
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


class _UncutContext(AbstractContextManager[Answer]):
    """A context manager made of a generator whose beginning and end Ctrl-C does not cut: see :func:`uncut`."""

    def __init__(self, context: AbstractContextManager[Answer]) -> None:
        self._context = context

    def __enter__(self) -> Answer:
        with held_back(undo=lambda: self._context.__exit__(None, None, None)):
            return self._context.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> bool | None:
        with held_back():
            return self._context.__exit__(kind, error, frames)


def uncut(function: Callable[Given, Iterator[Answer]]) -> Callable[Given, AbstractContextManager[Answer]]:
    """``contextlib.contextmanager`` whose set-up and put-back Ctrl-C cannot cut in two; in the block it strikes.

    One that strikes before the put-back has begun leaves the generator waiting in its block; it puts back when whoever
    stops the work clears the frames of the error.
    """
    made = contextmanager(function)

    @functools.wraps(function)
    def context(*args: Given.args, **kwargs: Given.kwargs) -> AbstractContextManager[Answer]:
        return _UncutContext(made(*args, **kwargs))

    return context
