"""Save sessions while the kernel has nothing else to do.

Writing a large session takes a second or two, most of it turning IR into text. The panel does not need that, so it is
shown first; the rest is done in short steps on the kernel's own event loop, between which clicks are answered. The next
cell, and the end of the process, wait until all is written. Where there is no such loop it is written at once.
"""

from __future__ import annotations

import asyncio
import atexit
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from inductor_debug_jupyter.pipeline.session import DebugSession

_STEP_SECONDS = 0.02
_PAUSE_SECONDS = 0.04
_FIRST_SECONDS = 2.0
"""Before the first step: the browser has not asked for everything that it draws yet."""


class LateSaving:
    """The sessions of one shell that are not written yet."""

    def __init__(self, shell: Any) -> None:
        self._has_loop = getattr(shell, "kernel", None) is not None
        self._waiting: deque[Iterator[None]] = deque()
        atexit.register(self.finish)

    def add(self, session: DebugSession) -> None:
        """Save this one soon."""
        self._waiting.append(session.saving())
        try:
            loop = asyncio.get_running_loop() if self._has_loop else None
        except RuntimeError:
            loop = None
        if loop is None:
            self.finish()
        else:
            loop.call_later(_FIRST_SECONDS, self._step, loop)

    def finish(self) -> None:
        """Save all of them now."""
        while self._waiting:
            for _ in self._waiting.popleft():
                pass

    def _step(self, loop: asyncio.AbstractEventLoop) -> None:
        until = time.monotonic() + _STEP_SECONDS
        while self._waiting and time.monotonic() < until:
            if next(self._waiting[0], self) is self:  # at its end
                self._waiting.popleft()
        if self._waiting:
            loop.call_later(_PAUSE_SECONDS, self._step, loop)
