"""Complete and save sessions in the background, on the kernel's event loop.

The panel is shown first, as soon as the rules have judged. Then, while the kernel is idle, Inductor makes its part of
plain models (:mod:`~inductor_debug_jupyter.jupyter.idle`: it is stopped when the kernel is wanted, and begun again),
and the session is written in steps of 20 ms, between which clicks are answered: most of that is turning IR into text.

The next cell, and the end of the process, wait until all is written, as far as it is made by then; what is left is made
after that cell, the newest session first. Without an event loop a session is saved at once.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import time
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

from inductor_debug_jupyter.jupyter.idle import run_while_idle
from inductor_debug_jupyter.pipeline.errors import in_a_line
from inductor_debug_jupyter.pipeline.session import DebugSession

log = logging.getLogger("inductor_debug_jupyter")

_STEP_SECONDS = 0.02
_PAUSE_SECONDS = 0.04
_FIRST_SECONDS = 2.0
"""Before the first step: the browser is still requesting what it draws."""


class BackgroundSaving:
    """The sessions of one shell that are not complete, or not written yet."""

    def __init__(self, shell: Any) -> None:
        self._has_loop = getattr(shell, "kernel", None) is not None
        self._waiting: deque[DebugSession] = deque()
        self._incomplete: list[weakref.ref[DebugSession]] = []
        self._steps: Iterator[None] | None = None
        """The remaining steps of the first that waits, once it is begun."""
        self._timer: asyncio.TimerHandle | None = None
        atexit.register(self.finish)

    def add(self, session: DebugSession) -> None:
        """Complete and save this session soon."""
        self._waiting.append(session)
        self._incomplete.append(weakref.ref(session))
        if not self.resume():
            self.finish()

    def resume(self) -> bool:
        """Go on when the kernel has been idle for a while; False without an event loop."""
        try:
            loop = asyncio.get_running_loop() if self._has_loop else None
        except RuntimeError:
            loop = None
        if loop is not None and (self._waiting or self._incomplete):
            self._in(_FIRST_SECONDS, loop)
        return loop is not None

    def finish(self) -> None:
        """Save all of them now, as far as they are made. One that is interrupted stays, and is begun again."""
        if self._timer is not None:
            self._timer.cancel()
        while self._waiting:
            self._step()

    def _in(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._some, loop)

    def _some(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._incomplete:
            session = self._incomplete[-1]()
            if session is not None and not self._complete(session, loop):
                self._in(_FIRST_SECONDS, loop)
                return
            self._incomplete.pop()
        until = time.monotonic() + _STEP_SECONDS
        while self._waiting and time.monotonic() < until:
            self._step()
        if self._waiting or self._incomplete:
            self._in(_PAUSE_SECONDS, loop)

    def _complete(self, session: DebugSession, loop: asyncio.AbstractEventLoop) -> bool:
        """Have Inductor make its part; False when the kernel was wanted before it was done."""
        before = session.record
        try:
            with session.saved_once():
                if not run_while_idle(loop, session.complete):
                    return False
        except Exception as error:
            _warn("a session could not be completed", error)
        if session.record is not before and session not in self._waiting:  # it was saved incomplete
            self._waiting.append(session)
        return True

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
            _warn("a session could not be saved", error)
            at_its_end = True
        if at_its_end:
            self._steps = None
            self._waiting.popleft()


def _warn(consequence: str, error: Exception) -> None:
    log.warning("%%%%inductor_debug: %s (%s)", consequence, in_a_line(error))
    log.debug("details", exc_info=error)
