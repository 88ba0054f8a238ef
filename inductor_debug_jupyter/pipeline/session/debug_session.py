"""What a user holds: one :class:`DebugSession` for each cell, ``with`` block or script.

Here is every public member. What runs a kept call again (``diff``, ``fix_all``, ``try_out``, …) is done and documented
by the collaborators of this room: the session hands their methods out. A session never imports Jupyter: the jupyter
package registers how a session is displayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch

from inductor_debug_jupyter.pipeline.backends.strict import refusal
from inductor_debug_jupyter.pipeline.capture.calls import InputBudget
from inductor_debug_jupyter.pipeline.capture.kept_calls import KeptCalls
from inductor_debug_jupyter.pipeline.capture.structured_trace import StepObserver
from inductor_debug_jupyter.pipeline.comparing import RunComparison, compare_runs, compare_stages
from inductor_debug_jupyter.pipeline.comparing.changes import GraphComparison
from inductor_debug_jupyter.pipeline.devices import Constraint, DeviceProfile, JudgingContext
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphViews
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError, InductorDebugError
from inductor_debug_jupyter.pipeline.fixits import FixIt
from inductor_debug_jupyter.pipeline.guards.would_recompile import ChangedInputs, RecompileAnswer, recompile_answer
from inductor_debug_jupyter.pipeline.nodes import BUDGET, NodeHandle, TracedCalls, node_handle
from inductor_debug_jupyter.pipeline.observers import Observers
from inductor_debug_jupyter.pipeline.reading import LARGEST_RECORD, read_regular
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    KernelSpec,
    SessionRecord,
    Transfer,
    dump_session,
    load_session,
)
from inductor_debug_jupyter.pipeline.records.record_parts import RecordParts
from inductor_debug_jupyter.pipeline.reports import write_report
from inductor_debug_jupyter.pipeline.reports.bug_report import BugReport, bug_report
from inductor_debug_jupyter.pipeline.reports.collect import of_session
from inductor_debug_jupyter.pipeline.rerun.capture_run import CaptureRun
from inductor_debug_jupyter.pipeline.session.candidates import Candidates
from inductor_debug_jupyter.pipeline.session.current_record import CurrentRecord
from inductor_debug_jupyter.pipeline.session.error_budgets import ErrorBudgets
from inductor_debug_jupyter.pipeline.session.fixing import Fixing
from inductor_debug_jupyter.pipeline.session.timings import Timings
from inductor_debug_jupyter.pipeline.session.what_ifs import WhatIfs
from inductor_debug_jupyter.pipeline.settings import Settings, resolve
from inductor_debug_jupyter.pipeline.store.files import explained, write_whole
from inductor_debug_jupyter.pipeline.torch_compat.environment import collected_environment
from inductor_debug_jupyter.pipeline.torch_compat.instruments import unseen
from inductor_debug_jupyter.pipeline.torch_compat.tracing_state import stoppable
from inductor_debug_jupyter.pipeline.views import bisect, diff, localization, memory, timing  # noqa: F401 - as they say records
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.provenance import Provenance, ProvenanceTrace
from inductor_debug_jupyter.pipeline.views.text import session_text
from inductor_debug_jupyter.pipeline.what_if import WhatIfTrial
from inductor_debug_jupyter.pipeline.what_if.trial import trial_view

DisplayFactory = Callable[["DebugSession"], Any]

_display_factories: list[DisplayFactory] = []
_shown_by: list[DisplayFactory] = []
"""What shows a session that stands in the last line of a cell."""

Owner = TypeVar("Owner")
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def _delegated(
    collaborator: str, method: Callable[Concatenate[Owner, Given], Answer]
) -> Callable[Concatenate[DebugSession, Given], Answer]:
    """A collaborator's method as the session's, with its arguments and documentation; Ctrl-C stops it."""

    @stoppable
    @wraps(method)
    def call(session: DebugSession, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        return method(getattr(session, collaborator), *args, **kwargs)

    return call


finished: list[DebugSession] = []
"""The session that was finished last in this process, if any."""


def register_display(factory: DisplayFactory, show: DisplayFactory | None = None) -> None:
    """Use ``factory`` for :meth:`DebugSession.panel` from now on, and ``show`` for a session that is displayed."""
    _display_factories[:] = [factory]
    _shown_by[:] = [] if show is None else [show]


def last_session() -> DebugSession | None:
    """The session that was finished last in this process."""
    return finished[-1] if finished else None


class DebugSession(RecordParts):
    """What one cell left behind.

    Args:
        settings: the values in force (see :mod:`~inductor_debug_jupyter.pipeline.settings`).
        constraints: rules to check instead of the target's own.
        eager: also show plain module calls to the compiler.
        fresh: bypass the FX and AOT caches, so that every stage is seen.
        keep_inputs: copy the inputs of each model's first call, for :meth:`diff`, :meth:`bisect` and :meth:`node`.
        inputs_limit: the most bytes that these copies may have together, or a budget that several sessions share;
            models are then not kept alive. Where the settings ask for a comparison they are, and copies over the limit
            are freed only when it is over. No limit without it.
        name: what to call it; the captured model's name by default.
        on_step: called with the compiler's current step, for a progress line.
        only: whether a model or function that is called is of interest; all are by default.

    Raises:
        UsageError: a bad setting or an unknown target, before anything is touched.
    """

    checkpoint_budget: int = BUDGET
    """The most bytes kept so that the next question about a node is answered sooner."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        constraints: Sequence[Constraint] | None = None,
        eager: bool = False,
        fresh: bool = True,
        keep_inputs: bool = False,
        inputs_limit: int | InputBudget | None = None,
        name: str = "",
        on_step: StepObserver | None = None,
        only: Callable[[Any], bool] | None = None,
    ) -> None:
        context = JudgingContext.of(settings or resolve(), constraints)
        run = CaptureRun(
            context,
            eager=eager,
            fresh=fresh,
            keep_inputs=keep_inputs,
            inputs_limit=inputs_limit,
            name=name,
            on_step=on_step,
            only=only,
        )
        self._assemble(run, KeptCalls(run.calls, run.recorder, run.watch.kept), CurrentRecord(context.settings))

    @classmethod
    def _of(
        cls, context: JudgingContext, record: SessionRecord, calls: KeptCalls | None = None, *, saves: bool = False
    ) -> DebugSession:
        """A session that has captured already."""
        session = cls.__new__(cls)
        run = CaptureRun(context)
        events: tuple[Transfer | KernelSpec, ...] = (*record.transfers, *record.kernel_specs)
        for event in events:
            run.device(event)
        session._assemble(run, calls or KeptCalls.of([]), CurrentRecord(context.settings, record, saves=saves))
        return session

    def _assemble(self, run: CaptureRun, calls: KeptCalls, record: CurrentRecord) -> None:
        self._run = run
        self._calls = calls
        self._record = record
        self._candidates = Candidates(run.context, record, calls, run.device)
        self._error_budgets = ErrorBudgets(run.context, record, self._candidates.call_to_search)
        self._timings = Timings(record, self._candidates.call_to_search, self._candidates.goes_backward)
        self._fixing = Fixing(run.context, record, calls)
        self._what_ifs = WhatIfs(run.context, record, calls, self._of)
        self._views: GraphViews | None = None
        self._traces: TracedCalls | None = None
        self._selecting = Observers()
        self.selection: dict[str, Any] = {}

    # Capturing and judging --------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The options in force."""
        return self._run.context.settings

    @property
    def device_profile(self) -> DeviceProfile:
        """The target's device profile."""
        return self._run.context.profile

    @property
    def rules(self) -> Sequence[Constraint]:
        """The rules that are checked."""
        return self._run.context.rules

    @property
    def strict(self) -> bool:
        """Whether what the target refuses is an error."""
        return self._run.context.strict

    def open(self) -> None:
        """Start capturing on this thread."""
        self._run.open()

    def stop(self, *, struck: bool = False) -> None:
        """Stop capturing and put everything back, without looking at what was captured. Safe to call twice.

        With ``struck`` Ctrl-C has ended the run, and what torch's tracers were doing then is put back, too.
        """
        self._run.stop(struck=struck)

    def close(self, *, save: bool = True) -> None:
        """Stop capturing, put everything back, check what was captured, and save it. Safe to call twice.

        With ``save=False`` the caller saves later, by :meth:`saving`.
        """
        self.stop()
        if self._record.is_there:
            return
        with unseen():
            record = self._run.judged()
        finished[:] = [self]
        self._record.set(record, save=save)

    def saved_once(self) -> AbstractContextManager[None]:
        """Changes inside the block are not written one by one: the caller saves once afterwards, by :meth:`saving`."""
        return self._record.saved_once()

    def can_wait(self) -> bool:
        """Whether saving later will probably succeed; if not, it is tried now, so that the user hears of it in time."""
        return self._record.can_wait()

    def saving(self) -> Iterator[None]:
        """Save to the artifact folder in many short steps; most of the time goes into rendering deferred texts."""
        return self._record.saving()

    def refusal(self) -> ConstraintViolationError | None:
        """In strict mode, the error that this session ends in; the first call writes the repro."""
        if not self.strict:
            return None
        error = refusal(self.record, self._record.usable_store())
        if error is not None and error.repro and error.repro not in self.record.repros:
            self._record.update(repros=(*self.record.repros, error.repro))
        return error

    @property
    def has_inputs(self) -> bool:
        """Whether a model call was kept, so that it can be run again."""
        return bool(self._calls.there())

    # What was found ---------------------------------------------------------------------------------------------

    @property
    def record(self) -> SessionRecord:
        """Everything captured and found so far, as a record that outlives the process.

        Of plain models it has what Inductor makes once :attr:`captures` was read.
        """
        return self._record.now if self._record.is_there else self._run.judged()

    @stoppable
    def complete(self) -> SessionRecord:
        """Have Inductor make what it has not made of plain models yet (``--lower on-demand``); the whole record.

        Ctrl-C stops it, and all of it is still to be made.
        """
        return self._record.complete() if self._record.is_there else self.record

    @property
    def id(self) -> str:
        """The session's id, as ``inductor-debug list`` shows it."""
        return self._record.now.id if self._record.is_there else self._run.id

    @property
    def captures(self) -> tuple[CompileCapture, ...]:
        """One capture for each compile id, with all of its stages: :meth:`complete` makes what is not made yet."""
        return self.complete().captures

    @property
    def graph_views(self) -> GraphViews:
        """The captured graphs as the Graph tab shows them: ``.of(stage="forward").expand("encoder.layer.3")``."""
        record = self.record
        if self._views is None or not self._views.follow(record):
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
    ) -> ProvenanceTrace:
        """What a source line, a node or a kernel became, and where it comes from: line ↔ graph nodes ↔ kernels.

        Give exactly one. ``label`` (``In [4]``, or a file) says which file a line number is meant in, ``stage`` in
        which graph a node is meant when several have one of that name.

        Raises:
            UsageError: not exactly one of the three was given.
            NotFoundError: there is no such line, node or kernel.
        """
        return Provenance(self.complete()).trace(line=line, node=node, kernel=kernel, label=label, stage=stage)

    def would_recompile(self, *args: Any, **kwargs: Any) -> RecompileAnswer:
        """Whether a call with these inputs would compile again: yes, no or unknown, with the guard and the values.

        The model does not run. For what you compiled, the guards in your own cache are evaluated; for plain modules,
        those that this session captured. Where several functions were called, see :meth:`would_recompile_of`.

        Raises:
            NotFoundError: nothing compiled was called, or the session was loaded from a file, which has no live guards.
            UsageError: several functions were called, or this one does not take these inputs.
        """
        return recompile_answer(self._calls.recorder, None, args, kwargs)

    def would_recompile_of(self, target: Any, /, *args: Any, **kwargs: Any) -> RecompileAnswer:
        """:meth:`would_recompile` of one of several: ``target`` is its name, the function or the module."""
        return recompile_answer(self._calls.recorder, target, args, kwargs)

    @property
    def what_if(self) -> ChangedInputs:
        """The first call of each compiled function with other inputs: ``session.what_if.ask({"n": "3"})``."""
        return ChangedInputs(self._calls.recorder)

    # Running the cell's calls again: session/candidates.py -------------------------------------------------------

    @property
    def diff_pairs(self) -> LivePairs:
        """The worst outputs' tensors of the last comparison, for the panel."""
        return self._candidates.pairs

    diff = _delegated("_candidates", Candidates.diff)
    localize = _delegated("_candidates", Candidates.localize)
    error_budget = _delegated("_error_budgets", ErrorBudgets.error_budget)
    prescribe = _delegated("_error_budgets", ErrorBudgets.prescribe)
    narrow = _delegated("_error_budgets", ErrorBudgets.narrow)
    profile = _delegated("_timings", Timings.profile)
    bisect = _delegated("_candidates", Candidates.bisect)
    reproduce = _delegated("_candidates", Candidates.reproduce)
    minify = _delegated("_candidates", Candidates.minify)

    def bug_report(
        self, path: str | Path | None = None, *, include_source: bool = False, include_weights: bool = False
    ) -> BugReport:
        """Everything needed to fix the bug: the script, the error, versions, transfers, graphs, the bisection.

        It is written to ``path``, a folder or a ``.zip``; without one nothing is written, and printing it shows what
        would go in: ``report.write(path)`` then does. ``report.markdown`` is a text to paste. Lines of your source, and
        values of your tensors that the script needs, stay out unless you say so.

        Raises:
            StoreError: it cannot be written.
        """
        report = bug_report(
            self.complete(),
            environment=collected_environment(),
            include_source=include_source,
            include_weights=include_weights,
        )
        return report if path is None else report.write(path)

    @property
    def checkpoint_bytes(self) -> int:
        """The bytes that the checkpoints take now."""
        return 0 if self._traces is None else self._traces.checkpoints.nbytes

    def node(
        self,
        name: str,
        stage: str = "",
        compile_id: str = "",
        *,
        candidate: Any = None,
        gradients: Sequence[torch.Tensor] | None = None,
    ) -> NodeHandle:
        """A node by its name in a captured graph: ``.inputs()``, ``.run()``, ``.as_function()``, ``.into()``.

        The first call of its model runs again up to the node, on copies, with the model as it is now. For the reference
        each op runs as in eager mode. A function that is no module runs as it is: what it writes elsewhere is written.
        The next question about the same compile goes on from the nearest checkpoint, as long as the model is the same;
        :attr:`checkpoint_budget` says how much memory that may take.

        Args:
            name: as the graph calls it: ``addmm_3``.
            stage: the graph; ``forward``, then ``backward`` and ``dynamo`` are looked through without it. A node of
                ``joint`` or ``post_grad`` is the forward's or backward's of that name.
            compile_id: the compile; the first that has such a node without it.
            candidate: a backend or adapter whose values are wanted: of ``"inductor"`` the kernel that the node went
                into, with its own inputs and outputs; of any other the node, in a graph whose every value is an output.
            gradients: what the backward starts from, one for each output of the model that requires one. Without
                them it is 1 for an output that is one number, and fixed random weights for any other: what your own
                loss gave was not kept.

        Raises:
            NotFoundError: no captured graph has such a node.
            UsageError: there is no such stage or candidate.
        """
        self._traces = self._traces or TracedCalls()
        self._traces.checkpoints.limit(self.checkpoint_budget)
        return node_handle(
            self.record.captures if candidate is None else self.captures,
            self._calls.needed,
            name,
            stage,
            compile_id,
            candidate=candidate,
            gradients=gradients,
            traces=self._traces,
        )

    # Fix-its: session/fixing.py -----------------------------------------------------------------------------------

    @property
    def applied(self) -> tuple[FixIt, ...]:
        """The fix-its that are in force."""
        return self._fixing.applied

    fixits = _delegated("_fixing", Fixing.fixits)
    try_fixits = _delegated("_fixing", Fixing.try_fixits)
    apply = _delegated("_fixing", Fixing.apply)
    undo = _delegated("_fixing", Fixing.undo)
    patch = _delegated("_fixing", Fixing.patch)
    fix_all = _delegated("_fixing", Fixing.fix_all)

    # What if: session/what_ifs.py ---------------------------------------------------------------------------------

    @property
    def trials(self) -> tuple[WhatIfTrial, ...]:
        """Everything that was tried out, in order."""
        return self._what_ifs.trials

    try_out = _delegated("_what_ifs", WhatIfs.try_out)

    def tryable(self) -> dict[str, Any]:
        """The fields of the panel's What-if form, each with its present value."""
        return self._what_ifs.form(self.record)

    # Two runs side by side: pipeline/comparing ---------------------------------------------------------------------

    def compare(self, other: DebugSession | SessionRecord | str | Path) -> RunComparison:
        """What changed from this session to ``other``, a session, its record or the file of one.

        Graphs are matched node by node, and breaks, guards, recompiles, kernels, findings, placement, memory and
        numbers compared: ``.changes`` has what changed with what follows from it, ``.quantities`` every figure,
        ``.unknown`` what could not be compared. Seconds are shown and never count as a change.

        Raises:
            StoreError: the file cannot be read.
            RecordError: it is damaged or from a newer version.
        """
        if isinstance(other, str | Path):
            other = DebugSession.load(other)
        return compare_runs(self.complete(), other.complete() if isinstance(other, DebugSession) else other)

    def compare_stages(self, before: str, after: str, compile_id: str = "") -> GraphComparison:
        """What the passes between two stages of one compile did: ``session.compare_stages("forward", "post_grad")``.

        Raises:
            NotFoundError: there is no such compile, or it has no graph of one of the stages.
        """
        return compare_stages(self.captures, before, after, compile_id)

    # Selecting and following ----------------------------------------------------------------------------------

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
        chosen = Lookup(self.record if kernel is None else self.complete()).find(
            finding=finding, node=node, line=line, kernel=kernel, label=label
        )
        self.choose(dict(chosen))
        return self.selection

    def on_select(self, observer: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        """Call ``observer`` with each new selection; the answer, when called, ends that."""
        return self._selecting.add(observer)

    def on_change(self, observer: Callable[[], None]) -> Callable[[], None]:
        """Call ``observer`` whenever the session has a new record or what-if: after :meth:`diff`, :meth:`apply`, ….

        The answer, when called, ends that.
        """
        return self._record.observers.add(observer)

    def choose(self, selection: dict[str, Any]) -> None:
        """Take over a whole selection, as the panel sends it."""
        if selection == self.selection:
            return
        self.selection = selection
        self._selecting.tell(selection)

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

    def _ipython_display_(self) -> None:
        """Show the panel where a notebook displays the session: the last line of a cell, or ``display(session)``."""
        if not _shown_by:
            raise NotImplementedError  # by which IPython goes on to the text
        _shown_by[0](self)

    def save(self, path: str | Path | None = None) -> Path:
        """Write the session as JSON; all of it or, when that fails, nothing.

        Without a path it goes to the artifact folder, where ``inductor-debug list`` finds it. What a cell left behind
        is there already; a what-if (:meth:`try_out`) is not.

        Raises:
            StoreError: it cannot be written.
        """
        if path is None:
            return self._record.file_away(self.complete())
        target = Path(path)
        write_whole(target, dump_session(self.complete()))
        return target

    def report(self, path: str | Path | None = None) -> Path:
        """Write one page with everything about this session, for readers without the process; returns its file.

        A path that ends in ``.json`` gets the same as data, one that ends in ``.md`` Markdown for an issue; without a
        path the page goes to the artifact folder, and is cleaned with the session. What-ifs that were tried and
        fix-its that are applied are in it.

        Raises:
            StoreError: it cannot be written.
        """
        suffix = "" if path is None else Path(path).suffix.removeprefix(".")
        form = {"json": "json", "md": "md"}.get(suffix, "html")
        data = of_session(self.complete(), self._record.store())
        trials = tuple(trial_view(trial) for trial in self.trials)
        return write_report(replace(data, trials=trials, patch=self._patch_text()), form, path)

    def _patch_text(self) -> str:
        """What the applied fix-its change in the user's source; empty without any."""
        if not self.applied:
            return ""
        patch = self.patch()
        return "\n".join([*patch.diff.splitlines(), *patch.unwritten])

    @classmethod
    def load(cls, path: str | Path) -> DebugSession:
        """The session that :meth:`save` wrote.

        Raises:
            StoreError: the file cannot be read.
            RecordError: it is damaged or from a newer version.
        """
        with explained("read", Path(path)):
            data = read_regular(Path(path), LARGEST_RECORD)
        return cls.of_record(load_session(data))

    @classmethod
    def of_record(cls, record: SessionRecord) -> DebugSession:
        """A session that only shows a record: it has captured already."""
        context = JudgingContext.of(resolve({"strict": record.strict}))
        return cls._of(replace(context, is_complete=False), record, saves=True)

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
    calls: str | int | None = None,
) -> Iterator[DebugSession]:
    """Capture everything that is compiled inside the block.

    Args:
        target: a device profile's name or file.
        strict: end in :class:`ConstraintViolationError` when the target refuses something.
        lower: how far to lower plain modules (``dynamo``, ``aot``, ``inductor``); ``on-demand`` by default:
            Inductor makes its part when ``session.captures`` is read.
        eager: also compile plain module calls, and run them eagerly.
        fresh: bypass the FX and AOT caches without writing to them, so that everything is seen.
        constraints: rules to check instead of the target's own.
        artifacts: the folder for sessions, graphs and repros.
        keep_inputs: copy the inputs of each model's first call, so that ``session.diff()`` can run it again.
        calls: with ``keep_inputs``, which calls of a model: ``first``, ``all``, ``last`` or a number. They run again
            with the model as it is then.
    """
    given = {"target": target, "strict": strict, "lower": lower, "artifacts": artifacts, "calls": calls}
    session = DebugSession(resolve(given), constraints=constraints, eager=eager, fresh=fresh, keep_inputs=keep_inputs)
    session.open()
    try:
        yield session
    except KeyboardInterrupt:
        session.stop(struck=True)
        raise
    finally:
        session.close()
    if (error := session.refusal()) is not None:
        raise error
