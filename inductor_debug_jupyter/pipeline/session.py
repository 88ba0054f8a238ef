"""What a user holds: one :class:`DebugSession` for each cell, ``with`` block or script.

A session opens a capture, checks what was captured against a target, keeps the answer as a
:class:`~inductor_debug_jupyter.pipeline.records.SessionRecord`, and shows it. It never imports Jupyter: the jupyter
package registers how a session is displayed.
"""

from __future__ import annotations

import contextlib
import io
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.adapters.device_log import DeviceLog, listening
from inductor_debug_jupyter.pipeline.backends.ledger import new_session_id
from inductor_debug_jupyter.pipeline.backends.strict import refusal
from inductor_debug_jupyter.pipeline.bisect import bisect_stages
from inductor_debug_jupyter.pipeline.capture import CaptureWatch, Recorder
from inductor_debug_jupyter.pipeline.capture.calls import CallLog, ModelCall
from inductor_debug_jupyter.pipeline.capture.steps import StepObserver
from inductor_debug_jupyter.pipeline.devices import Constraint, DeviceProfile, load_profile, rules_for
from inductor_debug_jupyter.pipeline.devices.judge import judge
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, DiffReport, KernelDiffHarness, merged
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.errors import (
    ConstraintViolationError,
    InductorDebugError,
    NotFoundError,
    StoreError,
)
from inductor_debug_jupyter.pipeline.guards.asking import RecompileAnswer, ask_recorder
from inductor_debug_jupyter.pipeline.guards.what_if import WhatIf
from inductor_debug_jupyter.pipeline.minify import Differs, Minifier
from inductor_debug_jupyter.pipeline.records import (
    BisectRecord,
    CompileCapture,
    CoverageRecord,
    GraphBreak,
    Guard,
    KernelSpec,
    LocalizationRecord,
    MemoryRecord,
    Note,
    Recompile,
    SessionRecord,
    Transfer,
    Violation,
    dump_session,
    load_session,
)
from inductor_debug_jupyter.pipeline.settings import Settings, resolve
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from inductor_debug_jupyter.pipeline.store.files import explained, write_whole
from inductor_debug_jupyter.pipeline.torch_compat.state import changed_inductor_settings
from inductor_debug_jupyter.pipeline.views.graph_view import GraphViews
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.provenance import Provenance, Trace
from inductor_debug_jupyter.pipeline.views.text import session_text

log = logging.getLogger("inductor_debug_jupyter")

_UNSAVED = "artifacts"
"""The part that a note names when the store could not write."""

DisplayFactory = Callable[["DebugSession"], Any]

_display_factories: list[DisplayFactory] = []
_last: list[DebugSession] = []


def register_display(factory: DisplayFactory) -> None:
    """Use ``factory`` for :meth:`DebugSession.panel` from now on."""
    _display_factories[:] = [factory]


def last_session() -> DebugSession | None:
    """The session that was finished last in this process."""
    return _last[-1] if _last else None


class DebugSession:
    """What one cell left behind.

    Args:
        settings: the values in force (see :mod:`~inductor_debug_jupyter.pipeline.settings`).
        constraints: rules to check instead of the target's own.
        eager: also show plain module calls to the compiler.
        fresh: bypass the FX and AOT caches, so that every stage is seen.
        keep_inputs: copy the inputs of each model's first call, for :meth:`diff` and :meth:`bisect`.
        name: what to call it; the captured model's name by default.
        on_step: told what the compiler is doing, for somebody who waits.
        only: whether a model or function that is called is of interest; all are by default.

    Raises:
        UsageError: a bad setting or an unknown target, before anything is touched.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        constraints: Sequence[Constraint] | None = None,
        eager: bool = False,
        fresh: bool = True,
        keep_inputs: bool = False,
        name: str = "",
        on_step: StepObserver | None = None,
        only: Callable[[Any], bool] | None = None,
    ) -> None:
        self.settings = settings or resolve()
        self.profile: DeviceProfile = load_profile(self.settings["target"]).with_settings(self.settings)
        self.rules: Sequence[Constraint] = rules_for(self.profile) if constraints is None else list(constraints)
        self.strict = bool(self.settings["strict"])
        self.selection: dict[str, Any] = {}
        self._name = name
        self._id, self._created = new_session_id()
        self._recorder = Recorder(fresh=fresh, on_step=on_step)
        self._calls = CallLog()
        self._watch = CaptureWatch(
            self._recorder,
            lower=self.settings["lower"],
            eager=eager,
            calls=self._calls if keep_inputs or self.settings["diff"] else None,
            only=only,
        )
        self._device = DeviceLog()
        self._listening = ExitStack()
        self._started = 0.0
        self._record: SessionRecord | None = None
        self.diff_pairs = LivePairs()
        """The worst outputs' tensors of the last comparison, for the panel."""
        self._selection_observers: list[Callable[[dict[str, Any]], None]] = []
        self._views: GraphViews | None = None

    # Capturing --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start capturing on this thread."""
        self._started = time.perf_counter()
        self._listening.enter_context(listening(self._device))
        self._watch.open()

    def stop(self) -> None:
        """Stop capturing and put everything back, without looking at what was captured. Safe to call twice."""
        self._watch.close()
        self._listening.close()

    def close(self) -> None:
        """Stop capturing, put everything back, check what was captured, and save it. Safe to call twice."""
        self.stop()
        if self._record is not None:
            return
        self._record = self._judged(seconds=time.perf_counter() - self._started)
        _last[:] = [self]
        self._save_to_store()

    def refusal(self) -> ConstraintViolationError | None:
        """In strict mode, the error that this session ends in; the repro is written the first time it is asked for."""
        if not self.strict:
            return None
        error = refusal(self.record, None if self._unsaved() else self._store())
        if error is not None and error.repro and error.repro not in self.record.repros:
            self._update(repros=(*self.record.repros, error.repro))
        return error

    def _store(self) -> ArtifactStore:
        return ArtifactStore(self.settings["artifacts"])

    def _unsaved(self) -> Note | None:
        """The note that says why the session is in memory only."""
        return next((note for note in self.record.notes if note.part == _UNSAVED), None)

    def _save_to_store(self) -> None:
        """Write the session where the command line finds it. What cannot be written is said once, and never raised."""
        if not self.record.captures:
            return
        said = self._unsaved()
        record = replace(self.record, notes=tuple(note for note in self.record.notes if note is not said))
        try:
            self._store().save_session(record)
        except StoreError as error:
            reason = str(error)
        except Exception as error:  # a fault of the store is no reason to end the user's run
            log.debug("the store failed", exc_info=True)
            reason = f"unexpected {type(error).__name__}: {error}"
        else:
            self._record = record
            return
        if said is None:
            note = Note(_UNSAVED, f"nothing was saved: {reason}. The session is in memory; session.save(path) keeps it")
            log.warning("%s", note)
            self._record = replace(self.record, notes=(*self.record.notes, note))

    # What was found ---------------------------------------------------------------------------------------------

    @property
    def record(self) -> SessionRecord:
        """Everything, as a record that outlives the process; while capturing, what there is so far."""
        if self._record is not None:
            return self._record
        return self._judged()

    def _judged(self, seconds: float = 0.0) -> SessionRecord:
        """What was captured and what adapters told, checked."""
        record = judge(
            self._recorder,
            session_id=self._id,
            created=self._created,
            name=self._name,
            profile=self.profile,
            rules=self.rules,
            strict=self.strict,
            seconds=seconds,
        )
        return replace(record, **self._told(record.notes))

    def _told(self, notes: Sequence[Note]) -> dict[str, Any]:
        """What adapters told so far, as fields of a record."""
        return {
            "transfers": self._device.told_transfers,
            "kernel_specs": self._device.told_kernels,
            "notes": (*(note for note in notes if note.part != "transfers"), *self._device.notes),
        }

    @property
    def id(self) -> str:
        """The session's id, as ``inductor-debug list`` shows it."""
        return self._id

    @property
    def captures(self) -> tuple[CompileCapture, ...]:
        """One capture for each compile id."""
        return self.record.captures

    @property
    def findings(self) -> tuple[Violation, ...]:
        """What the target refuses, worst first."""
        return self.record.findings

    @property
    def graph_breaks(self) -> tuple[GraphBreak, ...]:
        """Distinct graph breaks."""
        return self.record.graph_breaks

    @property
    def recompiles(self) -> tuple[Recompile, ...]:
        """Recompiles, in order."""
        return self.record.recompiles

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What must hold for the compiled graphs to be used again."""
        return self.record.guards

    @property
    def notes(self) -> tuple[Note, ...]:
        """What to know about the capture itself."""
        return self.record.notes

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """What adapters sent to their device and got back, in order."""
        return self.record.transfers

    @property
    def kernel_specs(self) -> tuple[KernelSpec, ...]:
        """The kernels that adapters made, each with its spec."""
        return self.record.kernel_specs

    @property
    def peak_memory(self) -> int | None:
        """The most bytes alive at once in any captured graph; None when a size is symbolic."""
        return self.record.peak_memory

    @property
    def coverage(self) -> CoverageRecord | None:
        """Every op on the target: supported, decomposable, falling back or refused, with segments and transfers."""
        return self.record.coverage

    @property
    def memory(self) -> tuple[MemoryRecord, ...]:
        """Memory over time of each captured AOT graph, with the tensors that are alive at its peak."""
        return self.record.memory

    @property
    def graph_views(self) -> GraphViews:
        """The captured graphs as the Graph tab shows them: ``.of(stage="forward").expand("encoder.layer.3")``."""
        record = self.record
        if self._views is None or not self._views.shows(record):
            self._views = GraphViews(record)
        return self._views

    def trace(
        self,
        *,
        line: int | None = None,
        node: str | None = None,
        kernel: str | None = None,
        label: str = "",
        stage: str = "",
    ) -> Trace:
        """What a source line, a node or a kernel became, and where it comes from: line ↔ graph nodes ↔ kernels.

        Give exactly one. ``label`` (``In [4]``, or a file) says which file a line number is meant in, ``stage`` in
        which graph a node is meant when several have one of that name.

        Raises:
            UsageError: not exactly one of the three was given.
            NotFoundError: there is no such line, node or kernel.
        """
        return Provenance(self.record).trace(line=line, node=node, kernel=kernel, label=label, stage=stage)

    def would_recompile(self, *args: Any, **kwargs: Any) -> RecompileAnswer:
        """Whether a call with these inputs would compile again: yes, no or unknown, with the guard and the values.

        The model does not run. For what you compiled, your own cache is asked as it is now; for plain modules, what
        this session captured. Where several functions were called, see :meth:`would_recompile_of`.

        Raises:
            NotFoundError: nothing compiled was called, or the session was loaded from a file, which has no live guards.
            UsageError: several functions were called, or this one does not take these inputs.
        """
        return ask_recorder(self._recorder, None, args, kwargs)

    def would_recompile_of(self, target: Any, /, *args: Any, **kwargs: Any) -> RecompileAnswer:
        """:meth:`would_recompile` of one of several: ``target`` is its name, the function or the module."""
        return ask_recorder(self._recorder, target, args, kwargs)

    @property
    def what_if(self) -> WhatIf:
        """The first call of each compiled function with other inputs: ``session.what_if.ask({"n": "3"})``."""
        return WhatIf(self._recorder)

    # Comparing --------------------------------------------------------------------------------------------------

    def diff(
        self,
        reference: Any = "eager",
        candidate: Any = "inductor",
        *,
        config: ComparisonConfig | None = None,
        backward: bool = False,
        generate_visualizations: bool = False,
        isolate: bool | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> DiffReport:
        """Run what the cell ran twice more, on ``reference`` and on ``candidate``, and compare the outputs.

        Each is ``eager``, the name of a torch.compile backend, a backend function or an adapter. What the models print
        while they run again is not shown. With ``isolate`` the compiled sides run in processes of their own, which may
        crash; ``timeout`` limits each of their steps and ``memory_limit`` their memory. What is not said here is as on
        the magic's line.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            CannotSendError: with ``isolate``, a backend that another process cannot import.
        """
        limits = self._limits(isolate, timeout, memory_limit)
        reports = []
        for call in self._kept_calls():
            harness = KernelDiffHarness(
                call.model,
                call.inputs,
                model_name=call.name,
                reference_backend=reference,
                test_backend=candidate,
                comparison_config=config,
                backward=backward,
                **limits,
            )
            with contextlib.redirect_stdout(io.StringIO()), listening(self._device):
                reports.append(harness.compare(generate_visualizations=generate_visualizations))
        report = merged(reports)
        self.diff_pairs = report.pairs
        self._update(diff=report.record, **self._told(self.record.notes))
        return report

    def localize(
        self, candidate: Any = "inductor", *, backward: bool = False, generate_visualizations: bool = False
    ) -> LocalizationRecord:
        """Find which op, kernel, module and line of the cell's first model is wrong on ``candidate``; ``.culprits``.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: the candidate is eager mode.
        """
        call = self._kept_calls()[0]
        harness = KernelDiffHarness(
            call.model, call.inputs, model_name=call.name, test_backend=candidate, backward=backward
        )
        with contextlib.redirect_stdout(io.StringIO()):
            found = harness.localize(generate_visualizations=generate_visualizations)
        self._update(localization=found)
        return found

    def bisect(
        self,
        *,
        adapter: Any = None,
        config: ComparisonConfig | None = None,
        isolate: bool | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> BisectRecord:
        """Which rung from eager over Dynamo, AOTAutograd and Inductor to the adapter brings an error in.

        ``adapter`` is an adapter or the name of one; ``isolate`` and the limits are as in :meth:`diff`.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
        """
        limits = self._limits(isolate, timeout, memory_limit)
        call = self._kept_calls()[0]
        with contextlib.redirect_stdout(io.StringIO()):
            found = bisect_stages(
                call.model,
                call.inputs,
                adapter=adapter,
                config=config,
                model_name=call.name,
                **limits,
            )
        self._update(bisect=found)
        return found

    def reproduce(self, candidate: str = "inductor", path: str | Path | None = None) -> Path:
        """Write the smallest standalone script in which ``candidate`` answers something else than eager.

        Without ``path`` it goes to ``repros/`` in the artifact folder. The script needs torch and nothing else, and
        exits with 0 when the difference shows.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: the difference does not show on a single graph.
        """
        call = self._kept_calls()[0]
        with contextlib.redirect_stdout(io.StringIO()):
            minifier = Minifier.of_model(
                call.model, call.inputs, fails=Differs(candidate), setup=changed_inductor_settings()
            )
            minifier.minify()
            written = minifier.generate_repro_script(path)
        self._update(repros=(*self.record.repros, str(written)))
        return written

    def _limits(self, isolate: bool | None, timeout: float | None, memory_limit: int | None) -> dict[str, Any]:
        """What was said here, else on the magic's line; a memory limit of the environment needs a process to limit."""
        isolate = bool(self.settings["isolate"]) if isolate is None else isolate
        if memory_limit is None and isolate:
            memory_limit = self.settings["memory_limit"]
        timeout = self.settings["timeout"] if timeout is None else timeout
        return {"isolate": isolate, "timeout": timeout, "memory_limit": memory_limit}

    def _kept_calls(self) -> Sequence[ModelCall]:
        if not self._calls.calls:
            raise NotFoundError(
                "no model call was kept to run again: use %%inductor_debug --diff or capture(keep_inputs=True), "
                "and call a model in the block"
            )
        return self._calls.calls

    def _update(self, **changes: Any) -> None:
        """Take something new into the record, and save it."""
        self._record = replace(self.record, **changes)
        self._save_to_store()

    # Selecting --------------------------------------------------------------------------------------------------

    def select(
        self,
        *,
        finding: int | None = None,
        node: str | None = None,
        line: int | None = None,
        kernel: str | None = None,
        label: str = "",
    ) -> dict[str, Any]:
        """Choose a finding (counted from 0), a node or kernel by name or a source line, as a click in the panel does.

        Raises:
            UsageError: not exactly one of the four was given.
            NotFoundError: there is no such finding, node, line or kernel.
        """
        chosen = Lookup(self.record).find(finding=finding, node=node, line=line, kernel=kernel, label=label)
        self.choose(dict(chosen))
        return self.selection

    def on_select(self, observer: Callable[[dict[str, Any]], None]) -> None:
        """Call ``observer`` with each new selection."""
        self._selection_observers.append(observer)

    def choose(self, selection: dict[str, Any]) -> None:
        """Take over a whole selection, as the panel sends it."""
        if selection == self.selection:
            return
        self.selection = selection
        for observer in self._selection_observers:
            observer(selection)

    # Showing and keeping ----------------------------------------------------------------------------------------

    def panel(self) -> Any:
        """The panel of this session; in a notebook it displays itself.

        Raises:
            InductorDebugError: there is no notebook to show it in.
        """
        if not _display_factories:
            raise InductorDebugError(
                "no panel here: run %load_ext inductor_debug_jupyter in a notebook, or print(session) for the text"
            )
        return _display_factories[0](self)

    def save(self, path: str | Path) -> Path:
        """Write the session as JSON; all of it or, when that fails, nothing.

        Raises:
            StoreError: it cannot be written.
        """
        target = Path(path)
        write_whole(target, dump_session(self.record))
        return target

    @classmethod
    def load(cls, path: str | Path) -> DebugSession:
        """The session that :meth:`save` wrote.

        Raises:
            StoreError: the file cannot be read.
            RecordError: it is damaged or from a newer version.
        """
        with explained("read", Path(path)):
            data = Path(path).read_bytes()
        return cls.of_record(load_session(data))

    @classmethod
    def of_record(cls, record: SessionRecord) -> DebugSession:
        """A session that only shows a record: it has captured already."""
        session = cls(resolve({"strict": record.strict}))
        session._record = record
        session._id = record.id
        return session

    def __str__(self) -> str:
        return session_text(self.record)

    def __repr__(self) -> str:
        return self.__str__()


@contextmanager
def capture(
    target: str | None = None,
    strict: bool | None = None,
    lower: str | None = None,
    eager: bool = False,
    fresh: bool = True,
    constraints: Sequence[Constraint] | None = None,
    artifacts: str | None = None,
    keep_inputs: bool = False,
) -> Iterator[DebugSession]:
    """Capture everything that is compiled inside the block.

    Args:
        target: a device profile's name or file.
        strict: end in :class:`ConstraintViolationError` when the target refuses something.
        lower: how far to lower plain modules (``dynamo``, ``aot``, ``inductor``).
        eager: also compile plain module calls, and run them eagerly.
        fresh: bypass the FX and AOT caches without writing to them, so that everything is seen.
        constraints: rules to check instead of the target's own.
        artifacts: the folder for sessions, graphs and repros.
        keep_inputs: copy the inputs of each model's first call, so that ``session.diff()`` can run it again.
    """
    given = {"target": target, "strict": strict, "lower": lower, "artifacts": artifacts}
    session = DebugSession(resolve(given), constraints=constraints, eager=eager, fresh=fresh, keep_inputs=keep_inputs)
    session.open()
    try:
        yield session
    finally:
        session.close()
    if (error := session.refusal()) is not None:
        raise error
