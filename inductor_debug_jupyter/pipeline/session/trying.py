"""What if: the same session with something changed, as a session of its own, and both side by side."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from inductor_debug_jupyter.pipeline.backends.ledger import new_session_id
from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.capture.steps import StepObserver
from inductor_debug_jupyter.pipeline.devices import Constraint, DeviceProfile, load_profile, rules_for
from inductor_debug_jupyter.pipeline.devices.judge import judge_again
from inductor_debug_jupyter.pipeline.errors import NotFoundError, OptionError, ProfileError, UsageError
from inductor_debug_jupyter.pipeline.interrupts import stoppable
from inductor_debug_jupyter.pipeline.records import Note, SessionRecord
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.session.life import SessionLife
from inductor_debug_jupyter.pipeline.settings import Setting, Settings
from inductor_debug_jupyter.pipeline.what_if import Numbers, WhatIfRequest, WhatIfTrial
from inductor_debug_jupyter.pipeline.what_if.baseline import (
    first_calls,
    has_backward,
    is_symbolic,
    lowering_of,
)
from inductor_debug_jupyter.pipeline.what_if.differences import NOTHING_RAN, compared
from inductor_debug_jupyter.pipeline.what_if.form import FormView, dtype_of, form_view
from inductor_debug_jupyter.pipeline.what_if.inputs import ChangedCall, changed_call, resize_texts
from inductor_debug_jupyter.pipeline.what_if.judging import ORIGIN, Judging, changed_judging
from inductor_debug_jupyter.pipeline.what_if.output_changes import MAY_DRAW, are_equal, compare, why_not_compared
from inductor_debug_jupyter.pipeline.what_if.request import Dims, Sizes
from inductor_debug_jupyter.pipeline.what_if.rerun import run

_OTHER_SEED = 4321
_FROM_PROFILE = ("alignment", "max_memory", "dtypes", "deny")


class Trying(SessionLife):
    """A session's what-ifs."""

    _trials: tuple[WhatIfTrial, ...] = ()

    @property
    def trials(self) -> tuple[WhatIfTrial, ...]:
        """Everything that was tried out, in order."""
        return self._trials

    @stoppable
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
        node: str = "",
        graph: tuple[str, str] | None = None,
        on_step: StepObserver | None = None,
    ) -> WhatIfTrial:
        """What if something were another one: ``session.try_out(target="stick128", batch=64)``.

        Target, alignment, limits, denied ops, ``decompose`` and ``fallback`` are about the judging: the same captures
        are judged again, at once. ``dtype``, ``batch`` and ``sequence`` run the kept call of each model once more, on
        a copy of the model. Several changes are tried together. The answer says what changed, side by side, and has
        the session that came out; nothing is saved until you say so. The arguments are those of
        :class:`~inductor_debug_jupyter.pipeline.what_if.WhatIfRequest`; ``on_step`` is told what the compiler is doing.

        Raises:
            UsageError: a value that is not allowed, or a model that does not run so.
            NotFoundError: nothing was captured; there is no such node; or no call was kept to run again.
        """
        asked = WhatIfRequest(
            target, alignment, max_memory, dtypes, deny, decompose, fallback, node, graph, dtype, batch, sequence, dims
        )
        if self._record is None:
            raise UsageError("the session is still capturing: leave its block, then try things out")
        if not self.record.captures:
            raise NotFoundError("nothing was captured, so there is nothing to try")
        started = time.perf_counter()
        with unnoticed():
            trial = self._tried(asked, on_step)
        trial = replace(trial, seconds=time.perf_counter() - started)
        self._trials = (*self._trials, trial)
        return trial

    def tryable(self) -> FormView:
        """What can be changed, and what it is now: the fields of the panel's form."""
        base, _ = self._base(asked=None)
        return form_view(self.record, base, self._calls.there(), "" if self.has_inputs else self._why_no_calls())

    # How it is done ---------------------------------------------------------------------------------------------

    def _tried(self, asked: WhatIfRequest, on_step: StepObserver | None) -> WhatIfTrial:
        base, notes = self._base(asked)
        judging = changed_judging(base, self.settings, asked, self.record.captures)
        rules = self._rules_for(asked, judging.profile)
        settings = _with(self.settings, asked.settings)
        if asked.reruns:
            return self._run_again(asked, base, judging, rules, settings, on_step, notes)
        told = judging.changes
        session_id, created = new_session_id()
        after = replace(
            judge_again(self.record, profile=judging.profile, rules=rules), id=session_id, created=created, repros=()
        )
        session = self._session_of(after, told, settings, judging.profile, rules, self._calls.there())
        changes = compared(self.record, after, Numbers(why=NOTHING_RAN))
        return WhatIfTrial(asked, told, self.record, session, changes, (*notes, *judging.notes))

    def _run_again(
        self,
        asked: WhatIfRequest,
        base: DeviceProfile,
        judging: Judging,
        rules: Sequence[Constraint],
        settings: Settings,
        on_step: StepObserver | None,
        notes: tuple[str, ...],
    ) -> WhatIfTrial:
        """Both sides: the session's own first calls, and the same calls changed."""
        changed = [changed_call(call, asked) for call in self._kept_calls()]
        if nodes := [name for _, _, name in judging.profile.cpu.nodes]:
            raise OptionError(
                f"node {nodes[0]!r} on the CPU is one of the graphs that were captured, and another run has graphs of "
                "its own; name its op instead: fallback=[…]"
            )
        told = (*judging.changes, *resize_texts(changed), *self._dtype_text(asked))
        own_rules = self.rules if base is self.profile else rules_for(base)
        before, more = first_calls(self.record, base, own_rules, self._call_was_kept)
        reference: list[Any] = []
        if is_symbolic(before.captures):
            before, reference = self._captured(_unchanged(changed), base, own_rules, settings, on_step)
            more = (*more, "the session's sizes are symbolic: both sides ran with fixed ones")
        after, outputs = self._captured(changed, judging.profile, rules, settings, on_step, ", ".join(told))
        numbers = self._numbers_of(changed, after, reference, outputs)
        session = self._session_of(after, told, settings, judging.profile, rules, self._calls_after(changed, asked))
        if asked.dtype:
            session._calls_gone = (
                f"no model call was kept to run again: the copy of the model in {asked.dtype} that this what-if ran is "
                "gone; ask the session that it came from"
            )
        changes = compared(before, after, numbers)
        return WhatIfTrial(asked, told, before, session, changes, (*notes, *more, *judging.notes))

    def _numbers_of(
        self, changed: Sequence[ChangedCall], after: SessionRecord, reference: Sequence[Any], outputs: Sequence[Any]
    ) -> Numbers:
        """The outputs beside those of the unchanged calls, which run now unless they did already (``reference``).

        Ops that may draw random numbers are compared when another seed makes no difference.
        """
        why = why_not_compared(changed, after.captures)
        if why in ("", MAY_DRAW) and not reference:
            reference = self._run_all(_unchanged(changed))
        if why == MAY_DRAW:
            others = self._run_all(_unchanged(changed), seed=_OTHER_SEED)
            why = "" if are_equal(reference, others) else why
        return Numbers((), why) if why else _numbers(changed, reference, outputs)

    def _run_all(self, calls: Sequence[ChangedCall], *, backward: bool = False, seed: int | None = None) -> list[Any]:
        return [run(each, backward=backward, seed=seed) for each in calls]

    def _calls_after(self, changed: Sequence[ChangedCall], asked: WhatIfRequest) -> list[ModelCall]:
        """What the session that came out can run again: the changed calls, unless a copy of the model made them."""
        return (
            [] if asked.dtype else [ModelCall.of(each.call.model, *each.inputs(), like=each.call) for each in changed]
        )

    def _captured(
        self,
        calls: Sequence[ChangedCall],
        profile: DeviceProfile,
        rules: Sequence[Constraint],
        settings: Settings,
        on_step: StepObserver | None,
        title: str = "",
    ) -> tuple[SessionRecord, list[Any]]:
        """The calls, captured as the session's own were, and what they returned."""
        captures = self.record.captures
        lower = lowering_of(captures, self.settings["lower"])
        maker = type(self)(
            _with(settings, {"lower": lower}), constraints=rules, eager=True, name=self.record.name, on_step=on_step
        )
        maker._recorder.runs_for(self._recorder)
        maker.profile = profile
        started = time.perf_counter()
        maker.open()
        try:
            outputs = self._run_all(calls, backward=has_backward(captures))
        except UsageError as error:
            raise UsageError(f"{title}: {error}" if title else str(error)) from error.__cause__
        finally:
            maker.stop()
        return maker._judged(seconds=time.perf_counter() - started), outputs

    def _session_of(
        self,
        record: SessionRecord,
        told: Sequence[str],
        settings: Settings,
        profile: DeviceProfile,
        rules: Sequence[Constraint],
        calls: Sequence[ModelCall],
    ) -> Any:
        """A session that holds the record, can be asked further, and saves itself only when told to."""
        session = type(self)(settings, constraints=rules)
        session.profile = profile
        session._constraints = rules if self._constraints is not None and rules is self.rules else None
        session._calls.calls.extend(calls)
        session._saves = False
        short = re.sub(r" \([^)]*\)", "", ", ".join(told))
        note = Note(ORIGIN, f"of session {self._id}: {', '.join(told)}")
        session._id = record.id
        session._record = replace(
            record, name=f"{self.record.name} · what if {short}", notes=(*record.notes, note), strict=self.strict
        )
        return session

    def _base(self, asked: WhatIfRequest | None) -> tuple[DeviceProfile, tuple[str, ...]]:
        """What the session was judged with; of one that was loaded, as much as its record tells.

        Raises:
            UsageError: that target is not known here.
        """
        if not self._loaded:
            return self.profile, ()
        name = self.record.target
        try:
            profile = load_profile(name)
        except ProfileError:
            if asked is None or asked.target is not None:
                return DeviceProfile(name), ()
            raise UsageError(
                f"the session's target {name!r} is not built in, and its file is not known here; give target= as well"
            ) from None
        if asked is None or asked.target is not None:
            return profile, ()
        again = judge_again(self.record, profile=profile, rules=rules_for(profile))
        if [each.title for each in again.findings] == [each.title for each in self.record.findings]:
            return profile, ()
        note = (
            f"the saved session was judged by more than {profile.name} says (an alignment, a limit, rules of its own), "
            "which is not in its file: part of the difference is due to that"
        )
        return profile, (note,)

    def _rules_for(self, asked: WhatIfRequest, profile: DeviceProfile) -> Sequence[Constraint]:
        """The profile's rules; a session that was given rules of its own keeps them unless the target changes.

        Raises:
            OptionError: a setting of a target, which those rules do not know.
        """
        if self._constraints is None or asked.target is not None:
            return rules_for(profile)
        for name in _FROM_PROFILE:
            if getattr(asked, name) is not None:
                raise OptionError(
                    f"{name}={getattr(asked, name)!r}: this session has rules of its own (constraints=), and no "
                    "target's; give target= as well"
                )
        return self.rules

    def _dtype_text(self, asked: WhatIfRequest) -> tuple[str, ...]:
        if asked.dtype is None:
            return ()
        now = dtype_of(self._calls.there())
        return (f"dtype {now} → {asked.dtype}" if now else f"dtype {asked.dtype}",)


def _unchanged(changed: Sequence[ChangedCall]) -> list[ChangedCall]:
    return [ChangedCall(each.call) for each in changed]


def _numbers(changed: Sequence[ChangedCall], reference: Sequence[Any], outputs: Sequence[Any]) -> Numbers:
    """Every output of every call; of several calls, with the model's name in front."""
    found = [
        output
        for each, one, other in zip(changed, reference, outputs, strict=True)
        for output in compare(each, one, other, f"{each.call.name}: " if len(changed) > 1 else "")
    ]
    return Numbers(tuple(found), other_dtype=any(each.dtype for each in changed))


def _with(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with some values replaced; denied ops add up."""
    said = dict(changes)
    if "deny" in said:
        said["deny"] = (*(settings["deny"] or ()), *said["deny"])
    return Settings({**settings.values, **{name: Setting(value, ORIGIN) for name, value in said.items()}})
