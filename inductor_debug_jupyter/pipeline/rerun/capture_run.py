"""One run under the compiler's hooks, judged: of the user's cell, of a fix-it's trial, a what-if or an inspection."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from typing import Any

from inductor_debug_jupyter.pipeline.adapters.device_log import DeviceLog, listening
from inductor_debug_jupyter.pipeline.capture import CaptureWatch, Recorder
from inductor_debug_jupyter.pipeline.capture.calls import CallLog, InputBudget
from inductor_debug_jupyter.pipeline.capture.structured_trace import StepObserver
from inductor_debug_jupyter.pipeline.devices import JudgingContext
from inductor_debug_jupyter.pipeline.devices.judge import judge
from inductor_debug_jupyter.pipeline.interrupts import held_back
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.torch_compat.tracing_state import TracingState


def new_session_id() -> tuple[str, str]:
    """A fresh id and the time, as they go into a record."""
    now = datetime.now().astimezone()
    return f"{now:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}", now.isoformat(timespec="seconds")


class CaptureRun:
    """Captures what this thread compiles inside a ``with`` block, and judges it by one context.

    The arguments are those of :class:`~inductor_debug_jupyter.pipeline.session.DebugSession`. With ``again`` the run
    repeats what that recorder saw, so the user's lines are those from then. ``recorder`` is the recorder to use.

    Raises:
        OptionError: with ``again``, a context that only holds for the graphs of the first run.
    """

    def __init__(
        self,
        context: JudgingContext,
        *,
        eager: bool = False,
        fresh: bool = True,
        keep_inputs: bool = False,
        inputs_limit: int | InputBudget | None = None,
        name: str = "",
        on_step: StepObserver | None = None,
        only: Callable[[Any], bool] | None = None,
        again: Recorder | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.context = context
        self.id, self.created = new_session_id()
        self.recorder = recorder or Recorder(fresh=fresh, on_step=on_step, notes_sizes=context.strict)
        if again is not None:
            context.check_other_graphs()
            self.recorder.runs_for(again)
        self.device = DeviceLog()
        settings = context.settings
        budget = InputBudget(inputs_limit) if isinstance(inputs_limit, int) else inputs_limit
        runs_again = bool(settings["diff"] or settings["profile"])
        self.calls = CallLog(budget, compares=runs_again, keep=settings["calls"])
        kept = self.calls if keep_inputs or runs_again else None
        self.watch = CaptureWatch(self.recorder, lower=settings["lower"], eager=eager, calls=kept, only=only)
        self._name = name
        self._hooks = ExitStack()
        self._started = self._seconds = 0.0
        self._before: TracingState | None = None

    def open(self) -> None:
        """Start capturing on this thread."""
        self._started = time.perf_counter()
        self._before = TracingState()
        with held_back(undo=self.stop):
            self._hooks.enter_context(listening(self.device))
            self.watch.open()

    def stop(self, *, struck: bool = False) -> None:
        """Stop capturing and put everything back. Safe to call twice.

        With ``struck`` Ctrl-C has ended the run: what torch's tracers were doing then is put back, too.
        """
        with held_back():
            self.watch.close()
            self._hooks.close()
            if struck and self._before is not None:
                self._before.restore()
        self._seconds = self._seconds or time.perf_counter() - self._started

    def __enter__(self) -> CaptureRun:
        self.open()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.stop(struck=error is not None and issubclass(error, KeyboardInterrupt))

    def judged(self) -> SessionRecord:
        """What was captured so far and what adapters reported, judged."""
        record = judge(
            self.recorder,
            self.context,
            session_id=self.id,
            created=self.created,
            name=self._name,
            seconds=self._seconds,
        )
        return replace(record, **self.device.fields(record.notes))
