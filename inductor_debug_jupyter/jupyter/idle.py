"""Do long work of ours while the kernel is idle, and stop it as soon as the kernel is wanted.

A compile cannot be done in small steps. So it runs on the main thread, from the kernel's event loop, while a second
thread looks at what that loop waits for. When something is there to be read (the next cell, a click) the work is
stopped as Ctrl-C stops it, which torch's state survives (see ``torch_compat/tracing_state``).

A kernel whose cells have left something running is not idle. A task on the loop would stand still meanwhile, and a
thread would see what a compile changes for the whole process: settings, the default dtype, the generators, which a
compile turns back at its end.
"""

from __future__ import annotations

import _thread
import asyncio
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from inductor_debug_jupyter.pipeline.capture.sources import is_library
from inductor_debug_jupyter.pipeline.interrupts import noticed

_LOOK_EVERY = 0.005
"""Seconds between two looks at the event loop."""


def run_while_idle(loop: asyncio.AbstractEventLoop, action: Callable[[], Any]) -> bool:
    """Run ``action``, which must put things right after ``KeyboardInterrupt``; whether it came to its end.

    It is not begun off the main thread, where the loop does not say what it waits for, or while something of the
    user's still runs; it is stopped when such a thread begins.
    """
    selector: Any = getattr(loop, "_selector", None)
    if selector is None or threading.current_thread() is not threading.main_thread():
        return False
    if _has_users_task(loop) or _has_users_thread():
        return False
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_EVERY):
            if selector.select(0) or _has_users_thread():
                _thread.interrupt_main()
                return

    watcher = threading.Thread(target=watch, name="inductor_debug: is the kernel wanted?", daemon=True)
    with noticed() as interrupts:
        watcher.start()
        try:
            interrupts.let_stop(action)
        except KeyboardInterrupt:
            return False
        finally:
            done.set()
            watcher.join()
    return True


def _has_users_task(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a task that a cell has left behind is still to go on, or a function that it wants called later."""
    others = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    frames = [frame for task in others for frame in task.get_stack()]
    if any(map(_is_users, frames)):
        return True
    timers = [each._callback for each in getattr(loop, "_scheduled", ()) if not each.cancelled()]
    files = [code.co_filename for each in timers if (code := getattr(each, "__code__", None)) is not None]
    return not all(map(_is_installed, files))


def _has_users_thread() -> bool:
    """Whether the user's own code, or torch, runs on another thread; a pool's idle thread has no frame of theirs."""
    ours = {threading.main_thread().ident, threading.get_ident()}
    for thread, innermost in sys._current_frames().items():
        frame: FrameType | None = None if thread in ours else innermost
        while frame is not None:
            if _is_users(frame) or "/torch/nn/" in frame.f_code.co_filename:
                return True
            frame = frame.f_back
    return False


def _is_users(frame: FrameType) -> bool:
    return not _is_installed(frame.f_code.co_filename)


def _is_installed(file: str) -> bool:
    """Whether code of that file came with Python or with a package, and so is not the user's."""
    return is_library(file) or "-packages" in file
