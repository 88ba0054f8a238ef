"""Open a session before a cell; afterwards close it, bind it, show it, and raise what strict mode found.

After the cell everything is restored first, and the refusal of strict mode is taken from the record: nothing that
follows can lose it. Then come the steps that may fail (compare, bind, show, save), each guarded: an error on our side
is logged in one line, and the other steps go on. Ctrl-C stops the step that runs, and Run All; nothing
of a cell that failed or was stopped is run again.
"""

from __future__ import annotations

import ast
import gc
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from IPython.core.error import InputRejected, UsageError

from inductor_debug_jupyter.jupyter.background_saving import BackgroundSaving
from inductor_debug_jupyter.jupyter.display import show_session
from inductor_debug_jupyter.jupyter.magic_line import asks_for_text, check_in_kernel, options_of_cell, read_options
from inductor_debug_jupyter.jupyter.panel_registry import panels
from inductor_debug_jupyter.jupyter.progress import CellProgress
from inductor_debug_jupyter.jupyter.tracebacks import CleanTracebacks
from inductor_debug_jupyter.pipeline.capture.calls import InputBudget
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError, in_a_line
from inductor_debug_jupyter.pipeline.interrupts import Interrupts, held_back, never_lost, noticed
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import Settings, in_force
from inductor_debug_jupyter.pipeline.torch_compat.instruments import unseen
from inductor_debug_jupyter.pipeline.torch_compat.regions import uncompiled
from inductor_debug_jupyter.pipeline.torch_compat.tracing_state import TracingState

log = logging.getLogger("inductor_debug_jupyter")

KEPT_INPUTS = InputBudget(1 << 30)
"""The bytes that inputs of all cells and of their what-ifs may take, kept so that a model can be run again."""


class CellRun:
    """One cell, or one expression, that runs under the magic. ``session`` is None when it could not be opened."""

    def __init__(self, shell: Any, settings: Settings) -> None:
        self.settings = settings
        self.progress = None if settings["no_panel"] or settings["quiet"] else CellProgress(shell)
        self.tracebacks = CleanTracebacks(shell)
        self._installed = ExitStack()
        self.session: DebugSession | None = None
        self.why_no_session = ""

    def open(self, shell: Any) -> None:
        """Open a session on the shell's cell: hooks, tracebacks and settings."""
        name = self.settings["model"]
        self.session = DebugSession(
            self.settings,
            eager=True,
            keep_inputs=True,
            inputs_limit=KEPT_INPUTS,
            on_step=self.progress.update if self.progress else None,
            only=_held_by(shell, name) if name else None,
        )
        self.tracebacks.install()
        self._installed.enter_context(never_lost())
        self._installed.enter_context(in_force(self.settings))
        self.session.open()

    def put_back(self, *, struck: bool = False) -> None:
        """Stop capturing, and leave the shell as it was, each step whatever the others raise. Safe to call twice.

        With ``struck`` Ctrl-C has ended the cell.
        """
        with ExitStack() as steps:
            if self.progress is not None:
                steps.callback(self.progress.done)
            if self.session is not None:
                steps.callback(self.session.stop, struck=struck)
            steps.callback(self._installed.close)
            steps.callback(self.tracebacks.remove)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Switch garbage collection off: after a compile one pass takes longer than all that we do."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _held_by(shell: Any, name: str) -> Callable[[Any], bool]:
    """A test whether a called model is the value of the user's variable ``name`` at that moment, compiled or not."""

    def is_variable(called: Any) -> bool:
        if name not in shell.user_ns:
            return False
        held = shell.user_ns[name]
        wrapped = getattr(called, "__wrapped__", called)  # torch wraps a module of its own, such as nn.Linear
        return called is held or uncompiled(called) is uncompiled(held) or wrapped is uncompiled(held)

    return is_variable


class _InterruptedCell(ast.NodeTransformer):
    """Replaces a cell by ``raise KeyboardInterrupt``: IPython runs a cell even if Ctrl-C came before it began."""

    def visit(self, node: ast.AST) -> ast.AST:
        """The code that is run instead of ``node``."""
        return ast.parse("raise KeyboardInterrupt")


class _RejectedError(InputRejected, UsageError):  # type: ignore[misc]  # IPython has no type information
    """A cell that must not run. It is shown as one line, as any usage error is."""

    def _render_traceback_(self) -> list[str]:
        return [f"UsageError: {self}"]


_RejectedError.__name__ = "UsageError"


class _RejectedCell(ast.NodeTransformer):
    """Keeps a cell from running, with the reason."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def visit(self, node: ast.AST) -> ast.AST:
        """Never the code of a cell."""
        raise _RejectedError(self._reason)


class CellWatcher:
    """Listens to IPython's events around cells. A cell can run another one, so runs are a stack."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._runs: list[CellRun | None] = []
        self._saving = BackgroundSaving(shell)
        self._stopped = _InterruptedCell()
        self._instead: list[ast.NodeTransformer] = []
        """What keeps the cell from running that begins now."""
        self._cleaning: list[CleanTracebacks] = []
        """For errors of line magics, which IPython shows after the magic has ended."""

    @property
    def is_running(self) -> bool:
        """Whether a cell runs under the magic just now."""
        return any(run is not None for run in self._runs)

    def close_lost_runs(self) -> None:
        """IPython's ``pre_execute``: close the runs of cells whose end IPython never reported.

        Ctrl-C that hits IPython's or the kernel's own code around a cell ends it without ``post_run_cell``. Cells that
        still run are on the call stack; a run that is open beyond these was lost.
        """
        running = _cells_on_the_stack(self._shell)
        while running and len(self._runs) >= running:
            with held_back():
                if (run := self._runs.pop()) is not None:
                    self._attempt(None, "not everything could be put back", partial(run.put_back, struck=True))

    def before_cell(self, info: Any) -> None:
        """IPython's ``pre_run_cell``: open a session when the cell has the magic."""
        run = None
        with noticed() as interrupts:  # IPython swallows what an event's callback raises, Ctrl-C too
            self._attempt(None, "an earlier panel could not be closed", lambda: panels.before_cell(info))
            self._attempt(interrupts, "earlier sessions could not be saved", self._saving.finish)
            try:
                run = self._run_of(info.raw_cell or "")
            finally:
                self._runs.append(run)
            if interrupts.came:
                self._replace_cell(self._stopped)

    def _run_of(self, cell: str) -> CellRun | None:
        """The run of a cell that has the magic; None for any other, and for one that is not to run."""
        options = options_of_cell(cell)
        if options is None or asks_for_text(options):
            return None
        try:
            settings = read_options(options)
        except UsageError:
            return None  # the input transformer has shown it, and the cell does not run
        try:
            check_in_kernel(settings, self._shell.user_ns, cell)
        except UsageError as error:
            self._replace_cell(_RejectedCell(str(error)))
            return None
        return self._opened(settings)

    def _replace_cell(self, instead: ast.NodeTransformer) -> None:
        """Have IPython run something else than the cell that begins now."""
        self._instead.append(instead)
        self._shell.ast_transformers.append(instead)

    def after_cell(self, result: Any) -> None:
        """IPython's ``post_run_cell``: also called after an error or an interrupt."""
        while self._instead:
            if (instead := self._instead.pop()) in self._shell.ast_transformers:
                self._shell.ast_transformers.remove(instead)
        while self._cleaning:
            self._cleaning.pop().remove()
        run = self._runs.pop() if self._runs else None
        if run is None:
            self._saving.resume()
            return
        failed_itself = result is None or result.error_before_exec is not None or result.error_in_exec is not None
        struck = isinstance(getattr(result, "error_in_exec", None), KeyboardInterrupt)
        ended_in = self.finish(run, run_again=not failed_itself, struck=struck)
        if ended_in is not None and not failed_itself:
            result.error_in_exec = ended_in  # so that Run All stops, whether or not it can be shown
            self._attempt(
                None,
                "the error could not be shown",
                lambda: self._shell.showtraceback((type(ended_in), ended_in, None)),
            )

    def run_expression(self, settings: Settings, expression: str) -> Any:
        """``%inductor_debug EXPR``: evaluate it under a session of its own; returns its value."""
        check_in_kernel(settings, self._shell.user_ns, expression)
        run = None
        try:
            with held_back():
                run = self._opened(settings)
            value = self._shell.ev(expression)
        except BaseException as error:
            if run is not None:
                self.finish(run, run_again=False, struck=isinstance(error, KeyboardInterrupt))
                run.tracebacks.install()
                self._cleaning.append(run.tracebacks)
            raise
        if (ended_in := self.finish(run)) is not None:
            raise ended_in
        return value

    def finish(self, run: CellRun, *, run_again: bool = True, struck: bool = False) -> BaseException | None:
        """Close, compare, bind, show and save a session; returns the interrupt or strict mode's error, or None.

        ``run_again`` is False for a cell that failed or was stopped: nothing of it is run a second time. ``struck`` is
        true when it was Ctrl-C that stopped it.
        """
        with noticed() as interrupts, _no_garbage_collection():
            if struck:  # before `unseen` takes what torch's tracers left for the user's
                self._attempt(None, "not everything could be put back", lambda: run.put_back(struck=True))
            with unseen():
                self._attempt(None, "not everything could be put back", run.put_back)
                refused = self._finished(run, interrupts, run_again)
        if interrupts.came:
            return _as_one_line(KeyboardInterrupt("the cell had run; what comes after it was stopped"))
        return None if refused is None else _as_one_line(refused)

    def _finished(self, run: CellRun, interrupts: Interrupts, run_again: bool) -> ConstraintViolationError | None:
        session, settings, later = run.session, run.settings, False
        if session is None:
            return _not_checked(settings, run.why_no_session)

        def probe() -> None:
            nonlocal later
            later = session.can_wait()

        closed = self._attempt(interrupts, "the session could not be finished", lambda: session.close(save=False))
        if closed:
            self._attempt(interrupts, "the session cannot be saved", probe)
            self._attempt(None, "", lambda: self._say_if_not_called(session))
        with session.saved_once():
            refused = self._refusal(session) if closed else _not_checked(settings, "the session could not be finished")
            if settings["diff"] and run_again and closed and not interrupts.came:
                self._attempt(interrupts, "nothing could be compared", lambda: self._compare(session))
            if settings["profile"] and run_again and closed and not interrupts.came:
                self._attempt(interrupts, "nothing could be timed", lambda: self._profile(session))
            if settings["as"]:
                self._attempt(None, "the session could not be bound", lambda: self._bind(settings["as"], session))
            if closed and not settings["no_panel"]:
                self._attempt(interrupts, "the session could not be shown", lambda: show_session(self._shell, session))
        self._attempt(None, "kept inputs could not be freed", KEPT_INPUTS.make_room)
        if later:
            self._attempt(interrupts, "the session could not be saved", lambda: self._saving.add(session))
        return refused

    def _opened(self, settings: Settings) -> CellRun:
        """A run with an open session, or with the reason why it has none."""
        run = CellRun(self._shell, settings)
        try:
            run.open(self._shell)
        except (Exception, SystemExit) as error:
            self._warn("the cell runs without a debug session", error)
            self._attempt(None, "not everything could be put back", run.put_back)
            run.session, run.why_no_session = None, f"there was no debug session ({in_a_line(error)})"
        return run

    def _refusal(self, session: DebugSession) -> ConstraintViolationError | None:
        """Strict mode's error; its script is written before the panel is drawn, which then shows it."""
        try:
            return session.refusal()
        except (Exception, SystemExit) as error:
            return _not_checked(session.settings, in_a_line(error))

    def _compare(self, session: DebugSession) -> None:
        """Compare as ``--diff``, ``--candidate``, ``--backward`` and ``--localize`` say, with a progress line."""
        settings = session.settings
        progress = None if settings["no_panel"] or settings["quiet"] else CellProgress(self._shell)
        try:
            if progress is not None:
                progress.say(f"the cell is done; comparing {settings['diff']} with {settings['candidate']}")
            report = session.diff()
            if settings["localize"] and (report.verdict == "mismatch" or report.record.crashes):
                if progress is not None:
                    progress.say("outputs differ; searching for the op, the kernel and the line")
                session.localize()
        finally:
            if progress is not None:
                progress.done()

    def _profile(self, session: DebugSession) -> None:
        """Time the kernels as ``--profile`` says, with a progress line."""
        settings = session.settings
        progress = None if settings["no_panel"] or settings["quiet"] else CellProgress(self._shell)
        try:
            if progress is not None:
                progress.say("the cell is done; timing its kernels")
            session.profile()
        finally:
            if progress is not None:
                progress.done()

    def _say_if_not_called(self, session: DebugSession) -> None:
        name = session.settings["model"]
        if name and not session.record.captures:
            log.warning("%%%%inductor_debug: --model %s: it was not called in this cell, so nothing was captured", name)

    def _bind(self, name: str, session: DebugSession) -> None:
        self._shell.user_ns[name] = session

    def _attempt(self, interrupts: Interrupts | None, consequence: str, step: Callable[[], Any]) -> bool:
        """Run one step, which Ctrl-C may stop where ``interrupts`` are given; whether it finished.

        An error is logged in one line. After an interrupt torch's tracing state is restored.
        """
        before = TracingState()
        try:
            if interrupts is None:
                step()
            else:
                interrupts.let_stop(step)
        except KeyboardInterrupt as error:
            before.restore_after(error)
            return False
        except (Exception, SystemExit, GeneratorExit) as error:  # foreign code may exit: the kernel must not
            self._warn(consequence, error)
            return False
        return True

    def _warn(self, consequence: str, error: BaseException) -> None:
        log.warning("%%%%inductor_debug: %s (%s)", consequence, in_a_line(error))
        log.debug("details", exc_info=error)


def _cells_on_the_stack(shell: Any) -> int:
    """How many cells are on the call stack; 0 where IPython does not call us."""
    code = getattr(type(shell).run_cell_async, "__code__", None)
    return sum(frame.f_code is code for frame, _ in traceback.walk_stack(None))


def _not_checked(settings: Settings, reason: str) -> ConstraintViolationError | None:
    """In strict mode, the error of a cell that could not be checked."""
    if not settings["strict"]:
        return None
    return ConstraintViolationError(f"{settings['target']} may refuse this: it could not be checked, {reason}")


def _as_one_line(error: BaseException) -> BaseException:
    """The error, shown as one line in place of a traceback."""
    error._render_traceback_ = lambda: [f"{type(error).__name__}: {error}"]  # type: ignore[attr-defined]
    return error
