"""Listens to the compiler's hooks and keeps everything as records.

Graphs are copied at once: torch goes on to change them in place. Whatever fails in here is kept as a
:class:`Note` (once for each part and message) and never reaches the user's compile.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from inductor_debug_jupyter.pipeline.capture import graph_breaks
from inductor_debug_jupyter.pipeline.capture.called_functions import CalledFunctions
from inductor_debug_jupyter.pipeline.capture.compile_in_progress import CompileInProgress
from inductor_debug_jupyter.pipeline.capture.sources import RESUMED, Callers, is_library, source_line
from inductor_debug_jupyter.pipeline.capture.structured_trace import CompileSteps, CompileTrace, StepObserver
from inductor_debug_jupyter.pipeline.capture.threads import PART, CaptureThreads
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphBreak,
    Guard,
    Note,
    Recompile,
    Rest,
    SourceLine,
    SymbolRecord,
)
from inductor_debug_jupyter.pipeline.records.compile import compile_seconds
from inductor_debug_jupyter.pipeline.torch_compat import graphs as torch_graphs
from inductor_debug_jupyter.pipeline.torch_compat import hooks
from inductor_debug_jupyter.pipeline.torch_compat.guard_checks import CalledFunction, LiveGuards
from inductor_debug_jupyter.pipeline.torch_compat.guard_failures import FailedGuard
from inductor_debug_jupyter.pipeline.torch_compat.guards import BreakFacts, GuardFacts, SymbolFacts
from inductor_debug_jupyter.pipeline.torch_compat.open_sizes import SizesSeen

log = logging.getLogger("inductor_debug_jupyter")

CALL = "call of "
"""Prefix of a note's part when something was called, and ran without the compiler."""
NOT_OURS = (
    "that thread was started before, and was given nothing through an executor, so nobody knows for whom it works"
)


class _RunningCall(threading.local):
    """The call that runs on a thread."""

    calling = ""
    """Class name of the module that the user is calling; a library may wrap its ``forward`` in something else."""
    following = True
    """Whether compiles that begin now are of interest; see :class:`CaptureWatch`'s ``only``."""


class Recorder:
    """A :class:`~inductor_debug_jupyter.pipeline.torch_compat.hooks.CompileListener` that keeps records."""

    def __init__(self, *, fresh: bool = True, on_step: StepObserver | None = None, notes_sizes: bool = False) -> None:
        self.fresh = fresh
        self._notes_sizes = notes_sizes
        self._steps = CompileSteps(on_step) if on_step is not None else None
        self.now = _RunningCall()
        self.threads = CaptureThreads()
        """The threads whose compiles are followed."""
        self.callers: Callers | None = None
        """The user's running lines, where they are not on the stack; see :meth:`runs_for`."""
        self._passed_over: set[str] = set()
        self._compiles: dict[str, CompileInProgress] = {}
        self._traces: dict[str, CompileTrace] = {}
        self._breaks = graph_breaks.BreakLog()
        self._guards: dict[str, tuple[Guard, ...]] = {}
        self.called = CalledFunctions()
        self.live: dict[str, LiveGuards] = {}
        """Compile id → its guards, to be evaluated on other inputs."""
        self._symbols: dict[str, list[SymbolFacts]] = {}
        self._failed_checks: dict[str, tuple[FailedGuard, int]] = {}
        """Compile id → the check whose failure made torch compile, and in which call."""
        self._notes: dict[tuple[str, str], Note] = {}
        self._failures: dict[str, str] = {}
        """Part of the capture (as the hooks call it) → why it failed."""

    # What was recorded ------------------------------------------------------------------------------------------

    @property
    def captures(self) -> tuple[CompileCapture, ...]:
        """One capture for each compile id, in the order in which they were compiled."""
        return tuple(compiling.freeze(self._failures) for compiling in list(self._compiles.values()))

    @property
    def name(self) -> str:
        """The first compiled function that the user called; empty when no call was seen."""
        return next((compiling.outermost for compiling in self._compiles.values()), "")

    def made_by(self, compile_id: str) -> CalledFunction | None:
        """The function whose call made torch compile that; None when no call was seen."""
        return self._compiles[compile_id].function if compile_id in self._compiles else None

    @property
    def graph_breaks(self) -> tuple[GraphBreak, ...]:
        """Distinct graph breaks."""
        return self._breaks.graph_breaks

    @property
    def recompiles(self) -> tuple[Recompile, ...]:
        """Recompiles, in order, each with the line of the guard that failed, or of the function that it guards."""
        return tuple(self._explained(recompile) for recompile in self._breaks.recompiles)

    @property
    def guards(self) -> tuple[Guard, ...]:
        """Every guard, on the compile id that it belongs to; a compile without any ops has guards but no capture."""
        return tuple(guard for guards in list(self._guards.values()) for guard in guards)

    @property
    def symbols(self) -> tuple[SymbolRecord, ...]:
        """Symbolic sizes and numbers."""
        return tuple(
            SymbolRecord(
                compile_id, each.symbol, each.expressions, each.low, each.high, each.value, each.fixed,
                deepest_line(each.frames),
            )
            for compile_id, facts in list(self._symbols.items())
            for each in facts
        )  # fmt: skip

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes about the capture itself."""
        return tuple(self._notes.values())

    def runs_for(self, other: Recorder) -> None:
        """From now on runs a call that ``other`` recorded: the user's running lines are taken from there."""
        self.callers = next((compiling.callers for compiling in other._compiles.values()), None)

    def used(self, compile_id: str) -> set[int]:
        """The results of that compile from which a backward came, to be added to; the set outlives this recorder."""
        return self._compile(compile_id).used

    def note(self, part: str, message: str) -> None:
        """Add a note about the capture, once."""
        if (part, message) not in self._notes:
            self._notes[part, message] = Note(part, message)
            log.debug("%s: %s", part, message)

    def suspended(self, compile_id: str, rest: Rest) -> None:
        """Keep what makes the rest of that compile."""
        self._compile(compile_id).suspend(rest)

    def resume(self, compile_id: str, finish: Callable[[], None]) -> CompileCapture:
        """Go on recording that compile while ``finish`` goes on with it, and give all of it.

        Ctrl-C takes back what was recorded, and the rest is still to be made.
        """
        compiling, self._steps = self._compile(compile_id), None
        undo = compiling.undo_later()
        try:
            with hooks.only_heard_by(self):
                finish()
        except BaseException:
            undo()
            raise
        compiling.suspend(None)
        return compiling.freeze(self._failures)

    def failed_lowering(self, compile_id: str, lower: str, stages: Sequence[str], error: Exception) -> Note:
        """Record why a graph could not be lowered: the stages are missing, and a note says so."""
        reason = f"{type(error).__name__}: {(str(error).strip() or type(error).__name__).splitlines()[0]}"
        for stage in stages:
            self.missing(compile_id, stage, f"lowering failed: {reason}")
        part = f"lowering ({lower})"
        self.note(part, reason)
        return self._notes[part, reason]

    def missing(self, compile_id: str, stage: str, reason: str) -> None:
        """Record why a stage of a compile is missing."""
        if compile_id in self._compiles:
            self._compiles[compile_id].missing[stage] = reason

    # Called by the hooks ----------------------------------------------------------------------------------------

    def wants(self, compile_id: str) -> bool:
        """Follow compiles of the capture's threads, and their backwards wherever they run."""
        if compile_id and self.threads.is_forked():
            return False
        if compile_id in self._compiles:
            return True
        if not self.threads.here():
            if compile_id and (name := self.threads.unknown_here()):
                self.note(PART, f"what was compiled on {name!r} was not captured: {NOT_OURS}")
            return False
        if compile_id and not self.now.following:
            self._passed_over.add(compile_id)
        return self.now.following and compile_id not in self._passed_over

    def dynamo_graph(self, compile_id: str, graph_module: Any, code: Any) -> SizesSeen | None:
        """Start the record of a compile."""
        source = None
        if code is not None and not is_library(code.co_filename):
            source = source_line(code.co_filename, code.co_firstlineno, code.co_name)
        name = _name_of(graph_module, code, source, self.now.calling)
        compiling = CompileInProgress(compile_id, name, source, fresh=self.fresh, callers=self.callers)
        compiling.trace = self._trace(compile_id)
        compiling.call = self.called.now.number
        compiling.function = self.called.now.current
        if (outermost := self.called.outermost) is not None:
            model, is_module, _ = outermost.name.rpartition(".forward")
            compiling.outermost = model.rpartition(".")[2] if is_module else outermost.name
        compiling.roles = torch_graphs.placeholder_roles(graph_module)
        self._compiles[compile_id] = compiling
        if self._steps is not None:
            self._steps.named(compile_id, compiling.name)
        compiling.add_graph("dynamo", graph_module)
        if self._notes_sizes:
            compiling.sizes = SizesSeen()
        return compiling.sizes

    def close(self) -> None:
        """Note no more sizes: what is compiled may outlive the capture."""
        for compiling in self._compiles.values():
            if compiling.sizes is not None:
                compiling.sizes.is_open = False
                if compiling.sizes.is_full:
                    self.note(f"{CALL}{compiling.name}", "it was called with more sizes than are kept")

    def rewritten(self, compile_id: str, graph_module: Any) -> None:
        """The graph that is compiled in the place of Dynamo's own."""
        self._compile(compile_id).add_graph("dynamo", graph_module)

    def compile_guards(self, compile_id: str, guards: list[GuardFacts]) -> None:
        """Keep what must hold for this compile to be used again."""
        self._guards[compile_id] = tuple(
            Guard(compile_id, each.kind, each.expression, each.checks, deepest_line(each.frames)) for each in guards
        )

    def frame_compiled(self, compile_id: str, guards: LiveGuards, symbols: list[SymbolFacts]) -> None:
        """Keep the guards as torch checks them, and the symbolic sizes."""
        self.live[compile_id] = guards
        self._symbols[compile_id] = symbols

    def recompiling(self, compile_id: str, failure: FailedGuard) -> None:
        """Keep why torch compiles again."""
        self._failed_checks[compile_id] = (failure, self.called.now.number)

    def running(self, compile_id: str, guards: list[GuardFacts], breaks: Sequence[BreakFacts]) -> None:
        """Keep what Dynamo knew when it called a backend."""
        self.compile_guards(compile_id, guards)
        for reason, frames in breaks:
            self._breaks.add_from_backend(compile_id, reason, deepest_line(frames))

    def aot_graphs(self, compile_id: str, joint: Any, forward: Any, backward: Any) -> None:
        """Keep what AOTAutograd traced."""
        compiling = self._compile(compile_id)
        if torch_graphs.computes_nothing(forward):
            self.note(f"{CALL}{compiling.name}", "Inductor drops what runs on the meta device: call the model plainly")
        for stage, graph_module in (("joint", joint), ("forward", forward), ("backward", backward)):
            if graph_module is not None:
                compiling.add_graph(stage, graph_module)

    def post_grad_graph(self, compile_id: str, graph_module: Any, is_backward: bool) -> None:
        """Keep Inductor's graph."""
        self._compile(compile_id).add_graph("post_grad", graph_module, is_backward)

    def generated(self, compile_id: str, stage: str, made: Any, is_backward: bool) -> None:
        """Keep IR, kernel calls and code."""
        self._compile(compile_id).add_generated(stage, made, is_backward)

    def not_from_dynamo(self) -> None:
        """Note that a graph was compiled which no rule has seen."""
        self.note("compiled functions", "a graph that did not come from Dynamo was given to Inductor: not captured")

    def trace_record(self, metadata: dict[str, Any], payload: Any) -> None:
        """Keep graph breaks, recompile reasons, timings, cache hits and the texts that torch writes anyway."""
        self._breaks.add(metadata, payload)
        if self._steps is not None:
            self._steps.add(metadata, payload)
        if compile_id := metadata["compile_id"]:
            self._trace(compile_id).add(metadata, payload)
            self._note_uncompiled(compile_id, metadata, payload)

    def heard_since(self, number: int) -> tuple[str, ...]:
        """The compiles that torch has reported after the first so many, those without a graph too."""
        return tuple(self._traces)[number:]

    @property
    def compiles_heard(self) -> int:
        """How many compiles torch has reported so far, those without a graph too."""
        return len(self._traces)

    def nothing_captured(self, compile_ids: Sequence[str]) -> str:
        """Why none of those compiles has a graph; empty when one has, nothing had to run, or a note says it."""
        is_noted = any(note.part == f"{CALL}{self.now.calling}" for note in self.notes)
        if is_noted or not set(compile_ids).isdisjoint(self._compiles):
            return ""
        return next((each.reason for each in self.graph_breaks if each.compile_id in compile_ids), "")

    def failed(self, part: str, error: BaseException) -> None:
        """Keep what went wrong in here."""
        log.debug("capture of %s failed", part, exc_info=error)
        reason = f"not captured ({type(error).__name__}: {error})"
        self._failures.setdefault(part, reason)
        self.note(part, reason)

    # ------------------------------------------------------------------------------------------------------------

    def _note_uncompiled(self, compile_id: str, metadata: dict[str, Any], payload: Any) -> None:
        """Note the frame that Dynamo gave up on, or the op that ran between two graphs: no rule has seen it."""
        metrics = metadata.get("compilation_metrics") or {}
        failure = metrics.get("fail_reason")
        if failure and compile_id not in self._compiles:
            what = f"it ran as it is, and not compiled: {graph_breaks.reason_of(str(failure))}"
        elif broken := graph_breaks.ran_between_graphs(metadata, payload):
            what = f"a part ran between two graphs: {broken}"
        else:
            return
        self.note(f"{CALL}{self._name_of_frame(compile_id, metrics)}", what)

    def _name_of_frame(self, compile_id: str, metrics: dict[str, Any]) -> str:
        """The user's name of the frame that torch compiles or recompiles."""
        known = self._compiles.get(f"{compile_id.partition('/')[0]}/0")
        if known is not None:
            return known.name
        file, name = metrics.get("co_filename"), metrics.get("co_name")
        if not file or not name or is_library(file):
            return self.now.calling or name or "a function"
        source = source_line(file, metrics["co_firstlineno"], name)
        written = RESUMED.sub(r"\1", name)
        return f"{written} ({source.label or file}, line {source.line})"

    def _compile(self, compile_id: str) -> CompileInProgress:
        if compile_id not in self._compiles:
            self._compiles[compile_id] = CompileInProgress(compile_id, fresh=self.fresh)
            self._compiles[compile_id].trace = self._trace(compile_id)
        return self._compiles[compile_id]

    def _trace(self, compile_id: str) -> CompileTrace:
        return self._traces.setdefault(compile_id, CompileTrace())

    def _explained(self, recompile: Recompile) -> Recompile:
        """The recompile with its line, its cost, and the values behind the check that failed."""
        compile_id = recompile.compile_id
        trace = self._traces.get(compile_id)
        known = replace(
            recompile,
            seconds=round(compile_seconds(trace.phases), 6) if trace else 0.0,
            made=compile_id in self.live or compile_id in self._guards,
        )
        if compile_id not in self._failed_checks:
            return known if known.source else replace(known, source=self._recompiled_line(recompile))
        failure, call = self._failed_checks[compile_id]
        line = recompile.source or deepest_line(failure.frames)
        return replace(
            known,
            source=line or self._recompiled_line(recompile, failure.expression),
            check=graph_breaks.without_addresses(failure.check),
            expression=failure.expression,
            old=failure.old,
            new=failure.new,
            aspect=failure.aspect,
            call=call,
        )

    def _recompiled_line(self, recompile: Recompile, expression: str = "") -> SourceLine | None:
        """For a reason without a line: that of the guard on the same value, before or after; else the function's."""
        before, value = graph_breaks.failed_value(recompile.reasons[0]) if recompile.reasons else ("", "")
        for compile_id in (before, recompile.compile_id):
            for guard in self._guards.get(compile_id, ()):
                name = graph_breaks.without_scope(guard.expression) if value else guard.expression
                if name == (value or expression) and guard.source and guard.expression:
                    return guard.source
        if (compiling := self._compiles.get(recompile.compile_id)) and compiling.source:
            return compiling.source
        return next((guard.source for guard in self._guards.get(recompile.compile_id, ()) if guard.source), None)


def deepest_line(stack: Sequence[tuple[str, int, str]]) -> SourceLine | None:
    """The deepest line outside torch, if there is one."""
    frames = [frame for frame in stack if not is_library(frame[0])]
    if not frames:
        return None
    file, line, function = frames[-1]
    return source_line(file, line, RESUMED.sub(r"\1", function))


def _name_of(graph_module: Any, code: Any, source: SourceLine | None, calling: str) -> str:
    """The user's name of this graph: ``Block.forward``, or ``Linear`` where the frame is torch's own."""
    if source is None:
        return torch_graphs.outermost_module(graph_module) or getattr(code, "co_name", "graph")
    if calling and "<locals>" in code.co_qualname and not code.co_qualname.endswith(".forward"):
        return f"{calling}.forward"
    name = str(code.co_qualname).replace("<locals>.", "")
    return RESUMED.sub(r"\1 (resumed at line \2)", name)
