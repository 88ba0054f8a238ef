"""Do long work of ours while the kernel is idle, and stop it as soon as the kernel is wanted.

A compile cannot be done in small steps. So it runs on the main thread, from the kernel's event loop, while a second
thread looks at what that loop waits for. When something is there to be read (the next cell, a click) the work is
stopped as Ctrl-C stops it, which torch's state survives (see ``torch_compat/tracing_state``).
"""

from __future__ import annotations

import _thread
import asyncio
import threading
from collections.abc import Callable
from typing import Any

from inductor_debug_jupyter.pipeline.interrupts import noticed

_LOOK_EVERY = 0.005
"""Seconds between two looks at the event loop."""


def run_while_idle(loop: asyncio.AbstractEventLoop, action: Callable[[], Any]) -> bool:
    """Run ``action``, which must put things right after ``KeyboardInterrupt``; whether it came to its end.

    It is not begun off the main thread, or where the loop does not say what it waits for.
    """
    selector: Any = getattr(loop, "_selector", None)
    if selector is None or threading.current_thread() is not threading.main_thread():
        return False
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_EVERY):
            if selector.select(0):
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
