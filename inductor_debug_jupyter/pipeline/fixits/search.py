"""Search for fix-its that together make the target take every graph, cheapest first.

Findings suggest fix-its; those of the cheapest kind are tried together, and the findings *then* suggest the next ones
(images with channels innermost need no padding of their rows any more). A fix-it is kept if it leaves fewer findings
and the same numbers. At the end the model is run without each kept one, the most wasteful first, and those that are not
needed are dropped. :class:`Offers` and :class:`FixResult` are what ``session.fixits()`` and ``fix_all()`` return.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from inductor_debug_jupyter.pipeline.devices.constraint import Constraint
from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt, finding_key, suggestions
from inductor_debug_jupyter.pipeline.fixits.verify import FixTrial
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records import SessionRecord, Violation
from inductor_debug_jupyter.pipeline.words import TO_FIX, count

NO_IDEA = "no fix-it is known for it"
_NO_GAIN = "the target refuses as much with it"

Try = Callable[[Sequence[FixIt]], FixTrial]


@dataclass(frozen=True)
class Remaining(Harmless):
    """A finding that no fix-it removes, and the reason."""

    finding: Violation
    why: str

    def __str__(self) -> str:
        return f"{self.finding}: {self.why}"


@dataclass
class FixItSearch:
    """One search.

    Args:
        attempt: runs the model with these fix-its, judges and compares it.
        rules: the target's rules.
        before: the record without any fix-it.
        trials: run the model at most so often.
        seconds: begin no run after so many seconds.
    """

    attempt: Try
    rules: Sequence[Constraint]
    before: SessionRecord
    trials: int = 24
    seconds: float = 900.0
    chosen: list[FixIt] = field(default_factory=list)
    best: FixTrial | None = None
    runs: int = 0
    _why_not: dict[tuple[str, str], str] = field(default_factory=dict)
    _spent: str = ""

    def run(self) -> None:
        """Search; the answer is in :attr:`chosen`, :attr:`best` and :meth:`remaining`."""
        self._deadline = time.monotonic() + self.seconds
        while (ideas := self._ideas()) and not self._over():
            batch = [idea for idea in ideas if idea.kind == ideas[0].kind]
            if self._take(batch) or len(batch) == 1:
                continue
            for idea in batch:
                if self._over():
                    break
                self._take([idea])
        self._drop_needless()

    @property
    def record(self) -> SessionRecord:
        """The record of the model with the chosen fix-its."""
        return self.best.after if self.best is not None else self.before

    def remaining(self) -> tuple[Remaining, ...]:
        """The findings of what the target still refuses."""
        return tuple(Remaining(each, self._why(each)) for each in self.record.findings if each.severity == "error")

    def _why(self, finding: Violation) -> str:
        ideas = suggestions(replace(self.record, findings=(finding,)), self.rules)
        reasons = [self._why_not[idea.key] for idea in ideas if idea.key in self._why_not]
        if reasons:
            return "; ".join(dict.fromkeys(reasons))
        if taken := [each.title for each in self.chosen if each.key in {idea.key for idea in ideas}]:
            return f"it is there with {', '.join(taken)} too"
        return self._spent or NO_IDEA

    def _ideas(self) -> list[FixIt]:
        known = {each.key for each in self.chosen} | set(self._why_not)
        for severity in TO_FIX:  # of warnings once nothing is refused
            ideas = [idea for idea in suggestions(self.record, self.rules, (severity,)) if idea.key not in known]
            if ideas:
                return ideas
        return []

    def _over(self) -> bool:
        if self.runs >= self.trials:
            self._spent = f"the search ended after {self.runs} runs of the model (trials={self.trials})"
        elif time.monotonic() > self._deadline:
            self._spent = f"the search ended after {self.seconds:g} s"
        return bool(self._spent)

    def _take(self, batch: list[FixIt]) -> bool:
        """Try more fix-its beside the chosen ones; returns whether they were kept."""
        alone = len(batch) == 1
        trial = self._tried([*self.chosen, *batch])
        problem = self._problem(trial)
        if problem == _NO_GAIN and not self._over():  # what is refused instead may have a fix-it of its own
            known = {each.key for each in (*self.chosen, *batch)} | set(self._why_not)
            more = [idea for idea in suggestions(trial.after, self.rules, ("error",)) if idea.key not in known]
            new = {finding_key(each) for each in trial.new}
            if more := [idea for idea in more if idea.finding in new]:
                batch = [*batch, *more]
                trial = self._tried([*self.chosen, *batch])
                problem = self._problem(trial)
        if not problem:
            self.chosen += batch
            self.best = trial
            return True
        if alone:
            self._why_not[batch[0].key] = f"{batch[0].title} was tried: {problem}"
        return False

    def _tried(self, fixits: Sequence[FixIt]) -> FixTrial:
        self.runs += 1
        return self.attempt(fixits)

    def _problem(self, trial: FixTrial) -> str:
        note = "".join(f" ({note})" for note in trial.diff.notes[:1])
        if not trial.after.captures:
            return f"nothing was captured with it{note}"
        if not trial.same_numbers:
            return f"the numbers are {trial.diff.verdict}{note}"
        if _refused(trial.after) >= _refused(self.record):
            return _NO_GAIN
        return ""

    def _drop_needless(self) -> None:
        for each in sorted(self.chosen, key=lambda fixit: fixit.cost, reverse=True):
            if len(self.chosen) < 2 or self._over():
                return
            rest = [other for other in self.chosen if other is not each]
            trial = self._tried(rest)
            if trial.same_numbers and _refused(trial.after) <= _refused(self.record):
                self.chosen, self.best = rest, trial


def _refused(record: SessionRecord) -> tuple[int, int]:
    """Places of errors, then of warnings: fewer of the first count more than any number of the second."""
    error, warning = (sum(len(each.places) for each in record.findings if each.severity == kind) for kind in TO_FIX)
    return error, warning


class Offers(Harmless, tuple[FixTrial, ...]):
    """Verified fix-its, cheapest first.

    Attributes:
        declined: fix-its that were tried and failed, each with the reason; or why there was nothing to try.
    """

    declined: tuple[str, ...]

    def __new__(cls, trials: Iterable[FixTrial], declined: Iterable[str] = ()) -> Offers:
        """The trials, in order."""
        offers = super().__new__(cls, trials)
        offers.declined = tuple(declined)
        return offers

    def __repr__(self) -> str:
        lines = [f"{count(len(self), 'fix-it')}, checked" if self else "no fix-it"]
        lines += [f"  [{number}] {trial.offer}" for number, trial in enumerate(self)]
        lines += [f"  not offered: {reason}" for reason in self.declined]
        return "\n".join(lines)


@dataclass(frozen=True)
class FixResult(Harmless):
    """The fix-its that were chosen, the findings that they leave, and the fixed module.

    Attributes:
        fixits: the chosen fix-its, in the order in which they were found.
        trial: the model with them, beside the model without; None when nothing helped.
        remaining: the findings of what the target still refuses, with the reason.
        module: computes what the original does; the original itself when nothing was chosen. Of several models, the
            one that was called first.
        runs: how often the model was run for the search.
        patch: the line that puts the fix-its in force, as a diff of the source that calls the model; it does exactly
            what was verified. Empty when that source is not the user's, which :attr:`unwritten` says.
        unwritten: why there is no such diff.
        modules: :attr:`module` for every model that was called, in the order of their first calls.
        left_out: refused graphs that were not tried, and why.
    """

    fixits: tuple[FixIt, ...]
    trial: FixTrial | None
    remaining: tuple[Remaining, ...]
    module: Any
    runs: int
    patch: str = ""
    unwritten: tuple[str, ...] = ()
    modules: tuple[Any, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the target now takes every graph; a refused graph that was not tried counts as not taken."""
        return not self.remaining and not self.left_out

    @property
    def answer(self) -> str:
        """The outcome in a few words."""
        if self.remaining:
            return f"{count(len(self.remaining), 'finding')} left"
        return "accepted, but for what was not tried" if self.left_out else "accepted"

    def __repr__(self) -> str:
        lines = [self.answer]
        lines += [f"  {fixit.kind:<10} {fixit.title}" for fixit in self.fixits]
        if self.trial is not None:
            lines += [f"  {line}" for line in self.trial.lines()]
        lines += [f"  ✗ {each}" for each in self.remaining]
        if self.trial is None:  # a trial has its own lines for it
            lines += [f"  left out   {each}" for each in self.left_out]
        if self.patch:
            lines += ["", *self.patch.splitlines()]
        return "\n".join(lines)
