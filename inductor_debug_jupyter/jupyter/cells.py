"""Around a cell: open a session before it, and afterwards close it, bind it, show it, and raise what strict mode found.

Everything here is guarded: whatever goes wrong on our side is said in one line and the user's cell goes on.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from IPython.core.error import UsageError

from inductor_debug_jupyter.jupyter.display import show_session
from inductor_debug_jupyter.jupyter.magic_line import options_of_cell, read_options
from inductor_debug_jupyter.jupyter.progress import CellProgress
from inductor_debug_jupyter.jupyter.saving import LateSaving
from inductor_debug_jupyter.jupyter.tracebacks import CleanTracebacks
from inductor_debug_jupyter.pipeline.capture.kept_inputs import InputBudget
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import Settings
from inductor_debug_jupyter.pipeline.torch_compat.regions import uncompiled

log = logging.getLogger("inductor_debug_jupyter")

KEPT_INPUTS = InputBudget(1 << 30)
"""What is kept of all cells' inputs without being asked, so that a model can be run again."""


class Run:
    """One cell, or one expression, that runs under the magic."""

    def __init__(self, shell: Any, settings: Settings) -> None:
        quiet = settings["no_panel"] or settings["quiet"]
        self.progress = None if quiet else CellProgress(shell)
        self.session = DebugSession(
            settings,
            eager=True,
            keep_inputs=True,
            inputs_limit=KEPT_INPUTS,
            on_step=self.progress.tell if self.progress else None,
            only=_held_by(shell, settings["model"]) if settings["model"] else None,
        )
        self.tracebacks = CleanTracebacks(shell)


@contextmanager
def _collector_waits() -> Iterator[None]:
    """Python's collector goes over its heap some other time: after a compile that takes longer than all we do."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _held_by(shell: Any, name: str) -> Callable[[Any], bool]:
    """Whether something is what the user's variable ``name`` holds at that moment, compiled or not."""

    def holds(called: Any) -> bool:
        if name not in shell.user_ns:
            return False
        held = shell.user_ns[name]
        wrapped = getattr(called, "__wrapped__", called)  # torch wraps a module of its own, such as nn.Linear
        return called is held or uncompiled(called) is uncompiled(held) or wrapped is uncompiled(held)

    return holds


def _compare(session: DebugSession) -> None:
    """What ``--diff`` and its companions ask for."""
    said = session.settings
    report = session.diff(said["diff"], said["candidate"], backward=bool(said["backward"]))
    if said["localize"] and (report.verdict == "mismatch" or report.record.crashes):
        session.localize()


class CellWatcher:
    """Listens to IPython's events around cells. A cell can run another one, so runs are a stack."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._runs: list[Run | None] = []
        self._saving = LateSaving(shell)
        self._cleaning: list[CleanTracebacks] = []
        """For errors of line magics: IPython shows them after the magic is over."""

    def before_cell(self, info: Any) -> None:
        """IPython's ``pre_run_cell``: open a session when the cell asks for one."""
        run = None
        self._saving.finish()
        try:
            options = options_of_cell(info.raw_cell or "")
            if options is not None:
                run = Run(self._shell, read_options(options))
                run.tracebacks.install()
                run.session.open()
        except UsageError:
            pass  # the input transformer has said so, and the cell does not run
        except Exception as error:
            self._say("the cell runs without a debug session", error)
            self._undo(run)
            run = None
        finally:
            self._runs.append(run)

    def after_cell(self, result: Any) -> None:
        """IPython's ``post_run_cell``: also called after an error or an interrupt."""
        while self._cleaning:
            self._cleaning.pop().remove()
        run = self._runs.pop() if self._runs else None
        if run is None:
            return
        refused = self.finish(run)
        failed_itself = result is None or result.error_before_exec is not None or result.error_in_exec is not None
        if refused is not None and not failed_itself:
            self._shell.showtraceback((type(refused), refused, None))
            result.error_in_exec = refused  # so that Run All stops

    def run_expression(self, settings: Settings, expression: str) -> Any:
        """``%inductor_debug EXPR``: evaluate it under a session of its own; answers with its value."""
        run = Run(self._shell, settings)
        run.session.open()
        try:
            value = self._shell.ev(expression)
        except BaseException:
            self.finish(run)
            run.tracebacks.install()
            self._cleaning.append(run.tracebacks)
            raise
        if (refused := self.finish(run)) is not None:
            raise refused
        return value

    def finish(self, run: Run) -> ConstraintViolationError | None:
        """Close, bind and show a session; the error that it ends in, if strict mode found any."""
        later = False
        with _collector_waits():
            try:
                run.session.close(save=False)
                later = run.session.can_wait()
            except Exception as error:
                self._say("the session could not be finished", error)
            finally:
                self._undo(run)
            refused = self._show(run.session)
        if later:
            self._saving.add(run.session)
        if refused is not None:  # a readable text instead of a traceback, for there is none
            refused._render_traceback_ = lambda: [f"{type(refused).__name__}: {refused}"]  # type: ignore[attr-defined]
        return refused

    def _show(self, session: DebugSession) -> ConstraintViolationError | None:
        """Bind and show a finished session; the error that it ends in, if strict mode found any."""
        try:
            if session.settings["diff"] and session.captures:
                _compare(session)
            if session.settings["as"]:
                self._shell.user_ns[session.settings["as"]] = session
            if not session.settings["no_panel"]:
                show_session(self._shell, session)
            return session.refusal()
        except Exception as error:
            self._say("the session could not be shown", error)
            return None

    def _undo(self, run: Run | None) -> None:
        if run is not None:
            run.tracebacks.remove()
            run.session.stop()
            if run.progress is not None:
                run.progress.done()

    def _say(self, consequence: str, error: Exception) -> None:
        log.warning("%%%%inductor_debug: %s (%s: %s)", consequence, type(error).__name__, error)
        log.debug("details", exc_info=error)
