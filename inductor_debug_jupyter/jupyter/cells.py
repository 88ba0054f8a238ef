"""Around a cell: open a session before it, and afterwards close it, bind it, show it, and raise what strict mode found.

Everything here is guarded: whatever goes wrong on our side is said in one line and the user's cell goes on.
"""

from __future__ import annotations

import logging
from typing import Any

from IPython.core.error import UsageError

from inductor_debug_jupyter.jupyter.display import show_session
from inductor_debug_jupyter.jupyter.magic_line import options_of_cell, read_options
from inductor_debug_jupyter.jupyter.progress import CellProgress
from inductor_debug_jupyter.jupyter.tracebacks import CleanTracebacks
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import Settings

log = logging.getLogger("inductor_debug_jupyter")


class _Run:
    """One cell that runs under the magic."""

    def __init__(self, shell: Any, settings: Settings) -> None:
        quiet = settings["no_panel"] or settings["quiet"]
        self.progress = None if quiet else CellProgress(shell)
        self.session = DebugSession(settings, eager=True, on_step=self.progress.tell if self.progress else None)
        self.tracebacks = CleanTracebacks(shell)


class CellWatcher:
    """Listens to IPython's events around cells. A cell can run another one, so runs are a stack."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._runs: list[_Run | None] = []

    def before_cell(self, info: Any) -> None:
        """IPython's ``pre_run_cell``: open a session when the cell asks for one."""
        run = None
        try:
            options = options_of_cell(info.raw_cell or "")
            if options is not None:
                run = _Run(self._shell, read_options(options))
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
        run = self._runs.pop() if self._runs else None
        if run is None:
            return
        try:
            run.session.close()
        except Exception as error:
            self._say("the session could not be finished", error)
        finally:
            self._undo(run)
        refused = self._show(run.session)
        failed_itself = result is None or result.error_before_exec is not None or result.error_in_exec is not None
        if refused is not None and not failed_itself:
            self._raise(refused, result)

    def _show(self, session: DebugSession) -> ConstraintViolationError | None:
        """Bind and show a finished session; the error that it ends in, if strict mode found any."""
        try:
            if session.settings["diff"] and session.captures:
                session.diff(session.settings["diff"], backward=bool(session.settings["backward"]))
            if session.settings["as"]:
                self._shell.user_ns[session.settings["as"]] = session
            if not session.settings["no_panel"]:
                show_session(self._shell, session)
            return session.refusal()
        except Exception as error:
            self._say("the session could not be shown", error)
            return None

    def _raise(self, error: ConstraintViolationError, result: Any) -> None:
        """Make the cell fail, so that Run All stops: a readable text instead of a traceback, for there is none."""
        error._render_traceback_ = lambda: [f"{type(error).__name__}: {error}"]  # type: ignore[attr-defined]
        self._shell.showtraceback((type(error), error, None))
        result.error_in_exec = error

    def _undo(self, run: _Run | None) -> None:
        if run is not None:
            run.tracebacks.remove()
            run.session.stop()
            if run.progress is not None:
                run.progress.done()

    def _say(self, consequence: str, error: Exception) -> None:
        log.warning("%%%%inductor_debug: %s (%s: %s)", consequence, type(error).__name__, error)
        log.debug("details", exc_info=error)
