"""Which threads a capture follows: the one that opened it, and whatever that one hands to others while it is open.

A thread that a cell starts works for the cell, and so does a pool's thread while it runs what the cell gave it, though
the thread may be older. Both are found by wrapping the calls that give work to a thread, ``Thread.start`` and
``ThreadPoolExecutor.submit``, while a capture is open. Other threads are left alone; a note says what they compiled in
the meantime, since it is not known whom they work for.
"""

from __future__ import annotations

import concurrent.futures
import functools
import mmap
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.capture.sources import is_library
from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat import patches

PART = "threads"
"""The part that notes on threads name."""

_open: list[CaptureThreads] = []


@dataclass
class _Followed:
    """One thread, which is not kept alive.

    ``own``: the user's own code gave it its work. ``touched``: it came across a model or a compile at all. ``calls``:
    how many models it calls at this moment.
    """

    thread: weakref.ref[threading.Thread]
    own: bool
    touched: bool = False
    calls: int = 0


class CaptureThreads:
    """The threads of one capture, beginning with the one that makes this."""

    def __init__(self) -> None:
        self._opener = threading.current_thread()
        self._followed: dict[int, _Followed] = {}
        self._undo = ExitStack()
        self._process = os.getpid()
        self._compiled_in_child = mmap.mmap(-1, 1)  # memory that a forked child shares
        self.add(self._opener, own=False)

    def open(self) -> None:
        """Follow what is handed to other threads from now on."""
        for owner, name, wrap in _WRAPPED:
            patches.acquire(owner, name, wrap, PART)
            self._undo.callback(patches.release, owner, name)
        _open.append(self)
        self._undo.callback(_open.remove, self)

    def close(self) -> None:
        """Stop following other threads. Safe to call twice."""
        self._undo.close()

    def here(self) -> bool:
        """Whether the calling thread, which came across a model or a compile, is one of them."""
        followed = self._known(threading.current_thread())
        if followed is None:
            return False
        followed.touched = True
        return True

    def is_forked(self) -> bool:
        """Whether this is a forked child, which compiles something: the parent, which cannot see it, gets a note."""
        if os.getpid() == self._process:
            return False
        self._compiled_in_child[0] = 1
        return True

    def child_compiled(self) -> bool:
        """Whether a forked child compiled something until now."""
        return self._compiled_in_child[0] != 0

    def unknown_here(self) -> str:
        """The name of the calling thread when no capture follows it; else empty."""
        if self not in _open or any(each.follows(threading.current_thread()) for each in tuple(_open)):
            return ""
        return threading.current_thread().name

    def add(self, thread: threading.Thread, *, own: bool) -> None:
        """Follow that thread too."""
        key = id(thread)
        self._followed[key] = _Followed(weakref.ref(thread, lambda _: self._followed.pop(key, None)), own)

    @uncut
    def calling(self) -> Iterator[None]:
        """Around a model's call on one of these threads."""
        followed = self._known(threading.current_thread())
        if followed is None:
            yield
            return
        followed.calls += 1
        try:
            yield
        finally:
            followed.calls -= 1

    @uncut
    def working(self) -> Iterator[None]:
        """Around work of the capture on a thread that also does other work: the thread of a pool."""
        thread = threading.current_thread()
        if self.follows(thread):
            yield
            return
        self.add(thread, own=True)
        try:
            yield
        finally:
            self._followed.pop(id(thread), None)

    def in_use(self) -> bool:
        """Whether another thread may still run what was compiled."""
        return any(followed.own or followed.touched for _, followed in self._alive())

    def follows(self, thread: threading.Thread) -> bool:
        """Whether that thread is one of them."""
        return self._known(thread) is not None

    def unfinished(self) -> list[str]:
        """The names of threads with unfinished work; a library's own threads, which may wait forever, do not count."""
        return [thread.name for thread, followed in self._alive() if followed.own or followed.calls]

    def _alive(self) -> list[tuple[threading.Thread, _Followed]]:
        threads = [(each.thread(), each) for each in list(self._followed.values())]
        return [
            (thread, followed)
            for thread, followed in threads
            if thread is not None and thread is not self._opener and thread.is_alive()
        ]

    def _known(self, thread: threading.Thread) -> _Followed | None:
        followed = self._followed.get(id(thread))
        return followed if followed is not None and followed.thread() is thread else None


_submitting = threading.local()


def _wrap_start(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(self: threading.Thread) -> Any:
        if not getattr(_submitting, "now", False):  # a pool's thread is followed while it runs what it was given
            file = sys._getframe(1).f_code.co_filename
            for each in tuple(_open):
                if each.follows(threading.current_thread()):
                    each.add(self, own=not is_library(file) and "-packages" not in file)
        return original(self)

    return functools.wraps(original)(start)


def _wrap_submit(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        captures = [each for each in tuple(_open) if each.follows(threading.current_thread())]
        if not captures:
            return original(self, fn, *args, **kwargs)

        @functools.wraps(fn, updated=())
        def work(*args: Any, **kwargs: Any) -> Any:
            with ExitStack() as stack:
                for each in captures:
                    stack.enter_context(each.working())
                return fn(*args, **kwargs)

        _submitting.now = True
        try:
            return original(self, work, *args, **kwargs)
        finally:
            _submitting.now = False

    return functools.wraps(original)(submit)


_WRAPPED: tuple[tuple[Any, str, patches.Wrapper], ...] = (
    (threading.Thread, "start", _wrap_start),
    (concurrent.futures.ThreadPoolExecutor, "submit", _wrap_submit),
)
