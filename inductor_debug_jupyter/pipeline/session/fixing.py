"""From a finding to a fix: try, apply, take back, and go all the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt, finding_key, suggestions
from inductor_debug_jupyter.pipeline.fixits.module import rewritten_model
from inductor_debug_jupyter.pipeline.fixits.offers import Offers
from inductor_debug_jupyter.pipeline.fixits.patch import Patch
from inductor_debug_jupyter.pipeline.fixits.patch_call import call_patch
from inductor_debug_jupyter.pipeline.fixits.result import FixResult
from inductor_debug_jupyter.pipeline.fixits.search import NO_IDEA, FixItSearch
from inductor_debug_jupyter.pipeline.fixits.verify import FixTrial, combined, try_fixits
from inductor_debug_jupyter.pipeline.interrupts import stoppable
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.session.life import SessionLife, added
from inductor_debug_jupyter.pipeline.what_if.baseline import first_calls
from inductor_debug_jupyter.pipeline.words import RANK, SEVERITIES


@dataclass
class _Fixes:
    """What was tried and applied so far."""

    trials: dict[tuple[tuple[str, str], ...], FixTrial] = field(default_factory=dict)
    applied: list[FixTrial] = field(default_factory=list)
    original: SessionRecord | None = None
    """What the session holds without any."""
    base: SessionRecord | None = None
    """The same without graphs that no kept call makes again: what was not run is neither fixed nor taken."""
    left_out: tuple[str, ...] = ()


class Fixing(SessionLife):
    """A session's fix-its."""

    _fixes: _Fixes | None = None

    def on_change(self, observer: Callable[[], None]) -> Callable[[], None]:
        """Call ``observer`` whenever what the session shows became another: after :meth:`apply` and :meth:`undo`.

        The answer, when called, ends that.
        """
        return added(self._change_observers, observer)

    @property
    def applied(self) -> tuple[FixIt, ...]:
        """The fix-its that are in force."""
        made = self._made.applied
        return made[-1].fixits if made else ()

    @stoppable
    def fixits(self, finding: int | None = None) -> Offers:
        """Verified fix-its: of one finding (counted from 0), or of all.

        Each one is tried on every model first: captured, judged by the same rules, and its numbers compared with the
        original's. One that does not help, changes a number or makes the target refuse something else is not offered;
        ``.declined`` says why.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``), or there is no such finding.
        """
        if finding is not None and not 0 <= finding < len(self.record.findings):
            raise NotFoundError(f"finding {finding}: there are {len(self.record.findings)}, counted from 0")
        tried = self._made.applied[-1].after if self.applied else self._comparable
        ideas = suggestions(tried, self.rules)
        declined = []
        if finding is not None:
            wanted = finding_key(self.record.findings[finding])
            alone = replace(tried, findings=tuple(each for each in tried.findings if finding_key(each) == wanted))
            found = suggestions(alone, self.rules, SEVERITIES)
            ideas = [replace(idea, finding=wanted) for idea in found]
            if not ideas:
                declined = [NO_IDEA] if alone.findings else list(self._made.left_out)
        offered = []
        for idea in ideas:
            trial = self.try_fixits([*self.applied, idea])
            if problem := trial.problem(idea):
                declined.append(f"{idea.title}: {problem}")
            else:
                offered.append(trial)
        self._note_offers(offered)
        return Offers(offered, declined)

    @stoppable
    def try_fixits(self, fixits: Sequence[FixIt]) -> FixTrial:
        """Run every model with these fix-its together, and look at everything; nothing is applied.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
        """
        key = tuple(sorted(fixit.key for fixit in fixits))
        if key not in self._made.trials:
            calls, base = self._kept_calls(), self._comparable
            self._made.trials[key] = try_fixits(
                fixits,
                calls,
                base,
                _Capture(self),
                backward=self._trains,
                left_out=self._made.left_out,
            )
        return self._made.trials[key]

    @stoppable
    def apply(self, *fixits: FixIt | FixTrial) -> FixTrial:
        """Put fix-its in force, beside those that are: the session shows the model with them. :meth:`undo` goes back.

        Raises:
            UsageError: together they change numbers, or nothing could be captured with them.
            NotFoundError: no model call was kept (see ``keep_inputs``).
        """
        wanted: dict[tuple[str, str], FixIt] = {fixit.key: fixit for fixit in self.applied}
        for each in fixits:
            for fixit in each.fixits if isinstance(each, FixTrial) else (each,):
                wanted[fixit.key] = fixit
        trial = self.try_fixits(list(wanted.values()))
        if not trial.after.captures or not trial.same_numbers:
            said = "; ".join(trial.diff.notes[:1]) or trial.diff.verdict
            raise UsageError(f"{', '.join(fixit.title for fixit in trial.fixits)}: not applied, {said}")
        self._made.applied.append(trial)
        self._show_fixed(trial.after)
        return trial

    def undo(self) -> tuple[FixIt, ...]:
        """Take back what was applied last; what is still in force.

        Raises:
            UsageError: nothing is applied.
        """
        if not self._made.applied:
            raise UsageError("nothing to undo: no fix-it is applied")
        self._made.applied.pop()
        self._show_fixed(self._made.applied[-1].after if self._made.applied else self._unfixed)
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
        return call_patch(combined(chosen), [(call.site, call.backend) for call in self._kept_calls()])

    @stoppable
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
        calls = self._kept_calls()
        search = FixItSearch(self.try_fixits, self.rules, self._comparable, trials=trials, seconds=seconds)
        search.run()
        rewrite = combined(search.chosen)
        patch = self.patch(*search.chosen) if search.chosen else Patch()
        modules = tuple(rewritten_model(call.model, rewrite) if search.chosen else call.model for call in calls)
        return FixResult(
            tuple(search.chosen),
            search.best,
            search.remaining(),
            modules[0],
            search.runs,
            patch.diff,
            patch.unwritten,
            modules,
            self._made.left_out if self._refuses_more else (),
        )

    @property
    def _made(self) -> _Fixes:
        if self._fixes is None:
            self._fixes = _Fixes()
        return self._fixes

    @property
    def _unfixed(self) -> SessionRecord:
        if self._made.original is None:
            self._made.original = self.record
        return self._made.original

    @property
    def _comparable(self) -> SessionRecord:
        if self._made.base is None:
            self._made.base, self._made.left_out = first_calls(
                self._unfixed, self.profile, self.rules, self._call_was_kept
            )
        return self._made.base

    @property
    def _refuses_more(self) -> bool:
        """Whether the target refuses something in a graph that is not tried."""
        tried = {capture.compile_id for capture in self._comparable.captures}
        errors = (each for each in self._unfixed.findings if each.severity == "error")
        return any(place.compile_id not in tried for each in errors for place in each.places)

    @property
    def _trains(self) -> bool:
        return any(capture.graph("backward") is not None for capture in self._comparable.captures)

    def _show_fixed(self, record: SessionRecord) -> None:
        original = self._unfixed
        if record is not original:
            record = _with_left_out(record, original, self._comparable)
        self._record = replace(record, id=original.id, created=original.created, name=original.name)
        for observer in tuple(self._change_observers):
            observer()

    def _note_offers(self, offers: Sequence[FixTrial]) -> None:
        """The findings say what would help, in words."""
        words: dict[str, list[str]] = {}
        for trial in offers:
            fixit = trial.fixits[-1]
            said = f"{fixit.title}, checked: {trial.diff.verdict}, at most {trial.max_error:.2g} off"
            words.setdefault(fixit.finding, []).append(said)
        if words:
            findings = tuple(
                replace(each, fixits=tuple(words[finding_key(each)])) if finding_key(each) in words else each
                for each in self.record.findings
            )
            self._record = replace(self.record, findings=findings)


def _with_left_out(record: SessionRecord, original: SessionRecord, tried: SessionRecord) -> SessionRecord:
    """The record with the graphs that were not tried, as they are, and what was found in them."""
    ids = {capture.compile_id for capture in original.captures} - {capture.compile_id for capture in tried.captures}
    if not ids:
        return record
    findings = {finding_key(each): each for each in record.findings}
    for each in original.findings:
        if places := tuple(place for place in each.places if place.compile_id in ids):
            there = findings.get(finding_key(each), replace(each, places=()))
            findings[finding_key(each)] = replace(there, places=(*there.places, *places))
    return replace(
        record,
        captures=(*record.captures, *(each for each in original.captures if each.compile_id in ids)),
        memory=(*record.memory, *(each for each in original.memory if each.compile_id in ids)),
        findings=tuple(sorted(findings.values(), key=lambda each: RANK[each.severity])),
    )


class _Capture:
    """A session for one trial, like the user's; it is not the last one, and saves nothing."""

    def __init__(self, session: Fixing) -> None:
        self._life = SessionLife(session.settings, constraints=session.rules, name=session.record.name)
        self._life._recorder.runs_for(session._recorder)

    def open(self) -> None:
        self._life.open()

    def close(self) -> SessionRecord:
        self._life.stop()
        return self._life.record
