"""Save sessions in the background, on the kernel's event loop.

Writing a large session takes a second or two, most of it turning IR into text. The panel does not need that, so it is
shown first; the session is saved in steps of 20 ms, between which clicks are answered. The next cell, and the end of
the process, wait until all is written. Without an event loop a session is saved at once.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from inductor_debug_jupyter.pipeline.errors import in_a_line
from inductor_debug_jupyter.pipeline.session import DebugSession

log = logging.getLogger("inductor_debug_jupyter")

_STEP_SECONDS = 0.02
_PAUSE_SECONDS = 0.04
_FIRST_SECONDS = 2.0
"""Before the first step: the browser is still requesting what it draws."""


class BackgroundSaving:
    """The sessions of one shell that are not written yet."""

    def __init__(self, shell: Any) -> None:
        self._has_loop = getattr(shell, "kernel", None) is not None
        self._waiting: deque[DebugSession] = deque()
        self._steps: Iterator[None] | None = None
        """The remaining steps of the first of them, once it is begun."""
        atexit.register(self.finish)

    def add(self, session: DebugSession) -> None:
        """Save this session soon."""
        self._waiting.append(session)
        try:
            loop = asyncio.get_running_loop() if self._has_loop else None
        except RuntimeError:
            loop = None
        if loop is None:
            self.finish()
        else:
            loop.call_later(_FIRST_SECONDS, self._some, loop)

    def finish(self) -> None:
        """Save all of them now. One that is interrupted stays, and is begun again."""
        while self._waiting:
            self._step()

    def _some(self, loop: asyncio.AbstractEventLoop) -> None:
        until = time.monotonic() + _STEP_SECONDS
        while self._waiting and time.monotonic() < until:
            self._step()
        if self._waiting:
            loop.call_later(_PAUSE_SECONDS, self._some, loop)

    def _step(self) -> None:
        """Do one step of the first session; a session that fails is logged, and not tried again."""
        if self._steps is None:
            self._steps = self._waiting[0].saving()
        try:
            at_its_end = next(self._steps, self) is self
        except KeyboardInterrupt:
            self._steps = None
            raise
        except Exception as error:
            log.warning("%%%%inductor_debug: a session could not be saved (%s)", in_a_line(error))
            log.debug("details", exc_info=error)
            at_its_end = True
        if at_its_end:
            self._steps = None
            self._waiting.popleft()
