"""From a finding to a fix: try, apply, take back, and go all the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from inductor_debug_jupyter.pipeline.capture.kept_calls import KeptCalls
from inductor_debug_jupyter.pipeline.devices import JudgingContext
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.fixits.backend import rewritten_model
from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt, finding_key, prescribed, suggestions
from inductor_debug_jupyter.pipeline.fixits.patch import Patch, call_patch
from inductor_debug_jupyter.pipeline.fixits.search import NO_IDEA, FixItSearch, FixResult, Offers
from inductor_debug_jupyter.pipeline.fixits.verify import FixTrial, combined
from inductor_debug_jupyter.pipeline.fixits.verify import try_fixits as verified_together
from inductor_debug_jupyter.pipeline.records import Prescription, SessionRecord, Violation
from inductor_debug_jupyter.pipeline.rerun.capture_run import CaptureRun
from inductor_debug_jupyter.pipeline.session.current_record import CurrentRecord
from inductor_debug_jupyter.pipeline.what_if.baseline import first_calls, has_backward, with_left_out
from inductor_debug_jupyter.pipeline.words import SEVERITIES

_OF_THE_CALLS = ("diff", "localization", "bisect", "repros", "error_budget", "prescription")
"""What was found out by running the kept calls: it holds whichever fix-its are in force."""


class Fixing:
    """The fix-its of one session: what was tried and applied so far.

    Args:
        context: what each trial is judged with.
        record: the session's record, which shows the model with the fix-its that are in force.
        calls: the models to try them on.
    """

    def __init__(self, context: JudgingContext, record: CurrentRecord, calls: KeptCalls) -> None:
        self._context = context
        self._record = record
        self._calls = calls
        self._trials: dict[tuple[tuple[str, str], ...], FixTrial] = {}
        self._applied: list[FixTrial] = []
        self._unfixed: SessionRecord | None = None
        """While fix-its are in force, the record without them."""

    @property
    def applied(self) -> tuple[FixIt, ...]:
        """The fix-its that are in force."""
        return self._applied[-1].fixits if self._applied else ()

    def fixits(self, finding: int | None = None) -> Offers:
        """Verified fix-its: of one finding (counted from 0), or of all.

        Each one is tried on every model first: captured, judged by the same rules, and its numbers compared with the
        original's. One that does not help, changes a number or makes the target refuse something else is not offered;
        ``.declined`` says why.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``), or there is no such finding.
        """
        shown = self._record.now.findings
        if finding is not None and not 0 <= finding < len(shown):
            raise NotFoundError(f"finding {finding}: there are {len(shown)}, counted from 0")
        ideas, declined = self._ideas(None if finding is None else shown[finding])
        offered = []
        for idea in ideas:
            trial = self.try_fixits([*self.applied, idea])
            if problem := trial.problem(idea):
                declined.append(f"{idea.title}: {problem}")
            else:
                offered.append(trial)
        self._note((trial.fixits[-1], trial) for trial in offered)
        return Offers(offered, declined)

    def _ideas(self, finding: Violation | None) -> tuple[Sequence[FixIt], list[str]]:
        """What may make a finding (or any) go away, and why there is nothing for this one."""
        base, left_out = self._base
        judged = self._applied[-1].after if self._applied else base
        if finding is None:
            return suggestions(judged, self._context.rules), []
        wanted = finding_key(finding)
        alone = replace(judged, findings=tuple(each for each in judged.findings if finding_key(each) == wanted))
        found = [replace(idea, finding=wanted) for idea in suggestions(alone, self._context.rules, SEVERITIES)]
        if found:
            return found, []
        return [], [NO_IDEA] if alone.findings else list(left_out)

    def try_fixits(self, fixits: Sequence[FixIt]) -> FixTrial:
        """Run every model with these fix-its together, and look at everything; nothing is applied.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
        """
        key = tuple(sorted(fixit.key for fixit in fixits))
        if key not in self._trials:
            calls, (base, left_out) = self._calls.needed(), self._base
            run = CaptureRun(self._context, name=base.name, again=self._calls.recorder)
            backward = has_backward(base.captures)
            self._trials[key] = verified_together(fixits, calls, base, run, backward=backward, left_out=left_out)
        return self._trials[key]

    def apply(self, *fixits: FixIt | FixTrial | Prescription) -> FixTrial:
        """Put fix-its in force, beside those that are: the session shows the model with them. :meth:`undo` goes back.

        A prescription is one, too: the model in the device's format with those ops in float32.

        Raises:
            UsageError: together they change numbers, or nothing could be captured with them.
            NotFoundError: no model call was kept (see ``keep_inputs``).
        """
        wanted: dict[tuple[str, str], FixIt] = {fixit.key: fixit for fixit in self.applied}
        for each in fixits:
            one = prescribed(each) if isinstance(each, Prescription) else each
            for fixit in one.fixits if isinstance(one, FixTrial) else (one,):
                wanted[fixit.key] = fixit
        trial = self.try_fixits(list(wanted.values()))
        if not trial.after.captures or not trial.same_numbers:
            reason = "; ".join(trial.diff.notes[:1]) or trial.diff.verdict
            raise UsageError(f"{', '.join(fixit.title for fixit in trial.fixits)}: not applied, {reason}")
        self._show([*self._applied, trial])
        return trial

    def undo(self) -> tuple[FixIt, ...]:
        """Take back what was applied last; what is still in force.

        Raises:
            UsageError: nothing is applied.
        """
        if not self._applied:
            raise UsageError("nothing to undo: no fix-it is applied")
        self._show(self._applied[:-1])
        return self.applied

    def patch(self, *fixits: FixIt) -> Patch:
        """The line that puts fix-its in force, in front of each model's call, as a diff of your source: ``.diff``.

        Args:
            fixits: which; those that are applied when none is given.

        Raises:
            UsageError: none is given, and none is applied.
            NotFoundError: no model call was kept (see ``keep_inputs``).
        """
        chosen = fixits or self.applied
        if not chosen:
            raise UsageError("no patch: no fix-it is given, and none is applied")
        return call_patch(combined(chosen), [(call.site, call.backend) for call in self._calls.needed()])

    def fix_all(self, *, trials: int = 24, seconds: float = 900.0) -> FixResult:
        """Search for fix-its that together make the target take the graphs, cheapest first; nothing is applied.

        ``result.module`` is the fixed model (``.modules``, where several were called), and
        ``session.apply(*result.fixits)`` shows it.

        Args:
            trials: run the model at most so often.
            seconds: begin no run after so many seconds.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
        """
        calls, (base, left_out) = self._calls.needed(), self._base
        search = FixItSearch(self.try_fixits, self._context.rules, base, trials=trials, seconds=seconds)
        search.run()
        rewrite = combined(search.chosen)
        patch = self.patch(*search.chosen) if search.chosen else Patch()
        modules = tuple(rewritten_model(call.model, rewrite) if search.chosen else call.model for call in calls)
        if search.best is not None:
            self._note((fixit, search.best) for fixit in search.chosen)
        return FixResult(
            tuple(search.chosen),
            search.best,
            search.remaining(),
            modules[0],
            search.runs,
            patch.diff,
            patch.unwritten,
            modules,
            left_out if self._refuses_more else (),
        )

    @property
    def _original(self) -> SessionRecord:
        """The record without any fix-it."""
        return self._unfixed or self._record.now

    @cached_property
    def _base(self) -> tuple[SessionRecord, tuple[str, ...]]:
        """The original without graphs that no kept call makes again, and notes on these: they can not be tried."""
        return first_calls(self._original, self._context, self._calls.was_kept)

    @property
    def _refuses_more(self) -> bool:
        """Whether the target refuses something in a graph that is not tried."""
        tried = {capture.compile_id for capture in self._base[0].captures}
        errors = (each for each in self._original.findings if each.severity == "error")
        return any(place.compile_id not in tried for each in errors for place in each.places)

    def _show(self, applied: list[FixTrial]) -> None:
        """The record becomes that of the models with the last trial's fix-its."""
        original, now = self._original, self._record.now
        shown = with_left_out(applied[-1].after, original, self._base[0]) if applied else original
        kept = {name: getattr(now, name) for name in _OF_THE_CALLS}
        self._applied, self._unfixed = applied, original if applied else None
        self._record.set(replace(shown, id=original.id, created=original.created, name=original.name, **kept))

    def _note(self, verified: Iterable[tuple[FixIt, FixTrial]]) -> None:
        """The findings say which verified fix-its would help, in words."""
        words: dict[str, list[str]] = {}
        for fixit, trial in verified:
            description = f"{fixit.title}, checked: {trial.diff.verdict}, at most {trial.max_error:.2g} off"
            words.setdefault(fixit.finding, []).append(description)
        if words:
            findings = tuple(
                replace(each, fixits=tuple(words[finding_key(each)])) if finding_key(each) in words else each
                for each in self._record.now.findings
            )
            self._record.update(findings=findings)
