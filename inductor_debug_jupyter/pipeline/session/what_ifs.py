"""What if: the same session with something changed, as a session of its own, and both side by side."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inductor_debug_jupyter.pipeline.capture.calls import InputBudget
from inductor_debug_jupyter.pipeline.capture.kept_calls import KeptCalls
from inductor_debug_jupyter.pipeline.capture.structured_trace import StepObserver
from inductor_debug_jupyter.pipeline.devices import JudgingContext
from inductor_debug_jupyter.pipeline.devices.judge import judge_again
from inductor_debug_jupyter.pipeline.errors import NotFoundError, OptionError, UsageError
from inductor_debug_jupyter.pipeline.records import CompileCapture, Note, SessionRecord
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.rerun.capture_run import CaptureRun, new_session_id
from inductor_debug_jupyter.pipeline.session.current_record import CurrentRecord
from inductor_debug_jupyter.pipeline.what_if import Numbers, WhatIfRequest, WhatIfTrial
from inductor_debug_jupyter.pipeline.what_if.baseline import (
    first_calls,
    has_backward,
    is_symbolic,
    lowering_of,
)
from inductor_debug_jupyter.pipeline.what_if.differences import NOTHING_RAN, compared
from inductor_debug_jupyter.pipeline.what_if.form import dtype_of, form_view
from inductor_debug_jupyter.pipeline.what_if.inputs import ChangedCall, changed_call, resize_texts
from inductor_debug_jupyter.pipeline.what_if.judging import ORIGIN, Judging, base_judging, changed_judging, with_changes
from inductor_debug_jupyter.pipeline.what_if.numerics import (
    EAGER,
    notes_on,
    numbers_rounded_as_eager,
    requested_arithmetic,
)
from inductor_debug_jupyter.pipeline.what_if.outputs import compared_outputs, run_call
from inductor_debug_jupyter.pipeline.what_if.request import Dims, Sizes


class WhatIfs:
    """The what-ifs of one session.

    Args:
        context: what the session was judged with.
        record: its record, whose observers hear of each what-if.
        calls: what is run again.
        new_session: makes the session that comes out, which is saved only when the user says so.
    """

    def __init__(
        self,
        context: JudgingContext,
        record: CurrentRecord,
        calls: KeptCalls,
        new_session: Callable[[JudgingContext, SessionRecord, KeptCalls], Any],
    ) -> None:
        self._context = context
        self._record = record
        self._calls = calls
        self._new_session = new_session
        self.trials: tuple[WhatIfTrial, ...] = ()

    def try_out(
        self,
        *,
        target: str | None = None,
        dtype: Any = None,
        alignment: int | None = None,
        max_memory: int | str | None = None,
        dtypes: Sequence[str] | str | None = None,
        deny: Sequence[str] | str | None = None,
        decompose: Mapping[str, bool | Sequence[str]] | bool | None = None,
        fallback: Sequence[str] | str | bool | None = None,
        batch: Sizes | None = None,
        sequence: Sizes | None = None,
        dims: Mapping[str, Dims] | None = None,
        numerics: str | None = None,
        node: str = "",
        graph: tuple[str, str] | None = None,
        on_step: StepObserver | None = None,
    ) -> WhatIfTrial:
        """What if something were another one: ``session.try_out(target="stick128", batch=64)``.

        Target, alignment, limits, denied ops, ``decompose`` and ``fallback`` are about the judging: the same captures
        are judged again, at once. ``dtype``, ``batch`` and ``sequence`` run the kept call of each model once more, on
        a copy of the model, and ``numerics`` computes its ops in another arithmetic: a name (``"bfloat16"``), a
        device's profile, or ``"eager"``: Inductor made to round as eager mode does. Several changes are tried together.
        The answer says what changed, side by side, and has the session that came out; nothing is saved until you say
        so. The arguments are those of :class:`~inductor_debug_jupyter.pipeline.what_if.WhatIfRequest`; ``on_step`` is
        called with the compiler's steps.

        Raises:
            UsageError: a value that is not allowed, or a model that does not run so.
            NotFoundError: nothing was captured; there is no such node; or no call was kept to run again.
        """
        request = WhatIfRequest(
            target,
            alignment,
            max_memory,
            dtypes,
            deny,
            decompose,
            fallback,
            node,
            graph,
            dtype,
            batch,
            sequence,
            dims,
            numerics,
        )
        if not self._record.now.captures:
            raise NotFoundError("nothing was captured, so there is nothing to try")
        started = time.perf_counter()
        base = base_judging(self._record.now, self._context, request)
        judging = changed_judging(base.context, request, self._record.now.captures)
        judging = replace(judging, notes=(*base.notes, *judging.notes))
        if request.reruns or request.numerics is not None:
            with unnoticed():
                trial = self._run_again(request, base.context, judging, on_step)
        else:
            trial = self._judged_again(request, judging)
        trial = replace(trial, seconds=time.perf_counter() - started)
        self.trials = (*self.trials, trial)
        self._record.observers.tell()
        return trial

    def form(self, record: SessionRecord) -> dict[str, Any]:
        """The fields of the panel's form, each with its value in a record."""
        calls = self._calls.there()
        base = base_judging(record, self._context, None)
        return form_view(record, base.context.profile, calls, "" if calls else self._calls.why_none())

    def _judged_again(self, request: WhatIfRequest, judging: Judging) -> WhatIfTrial:
        before = self._record.now
        session_id, created = new_session_id()
        after = replace(judge_again(before, judging.context), id=session_id, created=created, repros=())
        session = self._session(judging.context, after, judging.changes, self._calls)
        changes = compared(before, after, Numbers(why=NOTHING_RAN))
        return WhatIfTrial(request, judging.changes, before, session, changes, judging.notes)

    def _computed_otherwise(
        self, request: WhatIfRequest, changed: Sequence[ChangedCall], captures: Sequence[CompileCapture]
    ) -> tuple[Numbers, tuple[str, ...]]:
        """The outputs of the calls in another arithmetic beside the session's own, and notes on them."""
        assert request.numerics is not None
        if request.numerics == EAGER:
            if request.reruns:
                raise OptionError("numerics='eager' runs the calls as they were: give it alone")
            return numbers_rounded_as_eager([each.call for each in changed])
        arithmetic, notes = requested_arithmetic(request.numerics)
        changed = [replace(each, arithmetic=arithmetic) for each in changed]
        numbers = compared_outputs(changed, captures, [], [run_call(each) for each in changed])
        return numbers, (*notes, *notes_on(numbers))

    def _run_again(
        self, request: WhatIfRequest, base: JudgingContext, judging: Judging, on_step: StepObserver | None
    ) -> WhatIfTrial:
        """Run the session's first calls, and the changed calls, and compare."""
        changed = [changed_call(call, request) for call in self._calls.needed()]
        told = (*judging.changes, *resize_texts(changed))
        if request.dtype is not None:
            now = dtype_of(self._calls.there())
            told = (*told, f"dtype {now} → {request.dtype}" if now else f"dtype {request.dtype}")
        if request.numerics is not None:
            told = (*told, f"numerics {request.numerics}")
        if not request.reruns:
            trial = self._judged_again(request, replace(judging, changes=told))
            numbers, more = self._computed_otherwise(request, changed, trial.before.captures)
            changes = compared(trial.before, trial.session.record, numbers)
            return replace(trial, changes=changes, notes=(*trial.notes, *more))
        before, notes = first_calls(self._record.now, base, self._calls.was_kept)
        reference: list[Any] = []
        if is_symbolic(before.captures):
            before, reference = self._captured([ChangedCall(each.call) for each in changed], base, on_step)
            notes = (*notes, "the session's sizes are symbolic: both sides ran with fixed ones")
        after, outputs = self._captured(changed, judging.context, on_step, ", ".join(told))
        calls = _calls_after(changed, request, self._calls.log.budget)
        session = self._session(judging.context, after, told, calls)
        if request.numerics is not None:
            numbers, more = self._computed_otherwise(request, changed, after.captures)
            notes = (*notes, *more)
        else:
            numbers = compared_outputs(changed, after.captures, reference, outputs)
        changes = compared(before, after, numbers)
        return WhatIfTrial(request, told, before, session, changes, (*notes, *judging.notes))

    def _captured(
        self, calls: Sequence[ChangedCall], context: JudgingContext, on_step: StepObserver | None, title: str = ""
    ) -> tuple[SessionRecord, list[Any]]:
        """The calls, captured as the session's own were, and what they returned."""
        record = self._record.now
        lower = lowering_of(record.captures, self._context.settings["lower"])
        context = replace(context, settings=with_changes(context.settings, {"lower": lower}))
        capturing = CaptureRun(context, eager=True, name=record.name, on_step=on_step, again=self._calls.recorder)
        try:
            with capturing:
                outputs = [run_call(call, backward=has_backward(record.captures)) for call in calls]
        except UsageError as error:
            raise UsageError(f"{title}: {error}" if title else str(error)) from error.__cause__
        return capturing.judged(), outputs

    def _session(self, context: JudgingContext, record: SessionRecord, told: Sequence[str], calls: KeptCalls) -> Any:
        """A live session around the record."""
        now = self._record.now
        short = re.sub(r" \([^)]*\)", "", ", ".join(told))
        note = Note(ORIGIN, f"of session {now.id}: {', '.join(told)}")
        named = replace(record, name=f"{now.name} · what if {short}", notes=(*record.notes, note))
        return self._new_session(context, named, calls)


def _calls_after(changed: Sequence[ChangedCall], request: WhatIfRequest, budget: InputBudget | None) -> KeptCalls:
    """What the session that came out can run again: the changed calls, unless a copy of the model made them."""
    if request.dtype is None:
        return KeptCalls.of([each.call.with_inputs(*each.inputs(), budget) for each in changed], budget=budget)
    return KeptCalls.of(
        [],
        f"no model call was kept to run again: the copy of the model in {request.dtype} that this what-if ran is gone; "
        "ask the session that it came from",
    )
