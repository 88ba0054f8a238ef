"""Around a cell: open a session before it, and afterwards close it, bind it, show it, and raise what strict mode found.

Everything here is guarded: whatever goes wrong on our side is said in one line and the user's cell goes on.
"""

from __future__ import annotations

import logging
from typing import Any

from IPython.core.error import UsageError

from inductor_debug_jupyter.jupyter.display import show_session
from inductor_debug_jupyter.jupyter.magic_line import options_of_cell, read_options
from inductor_debug_jupyter.jupyter.tracebacks import CleanTracebacks
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError
from inductor_debug_jupyter.pipeline.session import DebugSession

log = logging.getLogger("inductor_debug_jupyter")


class _Run:
    """One cell that runs under the magic."""

    def __init__(self, shell: Any, session: DebugSession) -> None:
        self.session = session
        self.tracebacks = CleanTracebacks(shell)


class CellWatcher:
    """Listens to IPython's events around cells. Cells can be nested (``run_cell`` inside a cell), so runs are a stack."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._runs: list[_Run | None] = []

    def before_cell(self, info: Any) -> None:
        """IPython's ``pre_run_cell``: open a session when the cell asks for one."""
        run = None
        try:
            options = options_of_cell(info.raw_cell or "")
            if options is not None:
                run = _Run(self._shell, DebugSession(read_options(options), eager=True))
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
        settings = run.session.settings
        try:
            if settings["as"]:
                self._shell.user_ns[settings["as"]] = run.session
            if not settings["no_panel"]:
                show_session(self._shell, run.session)
            error = run.session.refusal()
        except Exception as problem:
            self._say("the session could not be shown", problem)
            return
        if error is not None and result is not None and result.error_before_exec is None and result.error_in_exec is None:
            self._raise(error, result)

    def _raise(self, error: ConstraintViolationError, result: Any) -> None:
        """Make the cell fail, so that Run All stops: a readable text instead of a traceback, for there is none."""
        error._render_traceback_ = lambda: [f"{type(error).__name__}: {error}"]  # type: ignore[attr-defined]
        self._shell.showtraceback((type(error), error, None))
        result.error_in_exec = error

    def _undo(self, run: _Run | None) -> None:
        if run is not None:
            run.tracebacks.remove()
            run.session.stop()

    def _say(self, consequence: str, error: Exception) -> None:
        log.warning("%%%%inductor_debug: %s (%s: %s)", consequence, type(error).__name__, error)
        log.debug("details", exc_info=error)
