"""A line under a busy cell with what is running now; removed when the cell is done.

It tells the compiler's steps; between compiles, that the cell's own code runs; after the cell, that it is compared. The
seconds are those of what it names. It appears after 0.8 seconds. A thread counts the seconds, since torch may be silent
for a long time while the C++ compiler works; whatever fails here ends the line and nothing else.
"""

from __future__ import annotations

import html
import logging
import sys
import threading
import time
from typing import Any

from IPython.display import display

from inductor_debug_jupyter.pipeline.capture.structured_trace import CompileStep
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.interrupts import held_back

log = logging.getLogger("inductor_debug_jupyter")

PATIENCE = 0.8
"""Seconds before the line appears."""
TICK = 0.5
OWN_CODE = "compiled; the cell's own code runs"


class CellProgress:
    """The line of one cell: an output of its own in a notebook, else stderr if that is a terminal."""

    def __init__(self, shell: Any) -> None:
        self._place = _Notebook() if hasattr(shell, "kernel") else _Terminal()
        self._began = time.monotonic()
        self._doing = ""
        self._since = self._began
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def update(self, step: CompileStep) -> None:
        """Show the step that the compiler starts, or that it is done."""
        self.say(OWN_CODE if step.is_end else str(step))

    def say(self, doing: str) -> None:
        """Show what runs from now on."""
        with held_back():  # Ctrl-C in between would leave a running thread or a held lock
            self._doing, self._since = doing, time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._tick, name="inductor-debug-progress", daemon=True)
                self._thread.start()
            self._show()

    def done(self) -> None:
        """Remove the line. Safe to call twice."""
        self._over.set()
        with self._lock:
            self._guarded(self._place.clear)

    def _tick(self) -> None:
        while not self._over.wait(TICK):
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if not self._doing or now - self._began < PATIENCE:
            return
        with self._lock:
            if not self._over.is_set():
                text = f"{plain(self._doing)} · {now - self._since:.0f} s"
                self._guarded(lambda: self._place.show(text))

    def _guarded(self, action: Any) -> None:
        try:
            action()
        except Exception:  # a front end that cannot show it: the cell goes on without a line of progress
            log.debug("the line of progress ends", exc_info=True)
            self._over.set()


class _Notebook:
    """An output of its own that is emptied at the end."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        escaped = html.escape(text)
        bundle = {
            "text/plain": "",
            "text/html": f'<div style="opacity:.7;font-size:12px" role="status">⏳ {escaped}</div>',
        }
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)
            self._handle = None


class _Terminal:
    """One line of stderr that is overwritten."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, text: str) -> None:
        if sys.stderr.isatty():
            self._write(text[:118])

    def clear(self) -> None:
        if self._width:
            self._write("")
            self._width = 0

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width) + ("\r" if not text else ""))
        sys.stderr.flush()
        self._width = len(text)
