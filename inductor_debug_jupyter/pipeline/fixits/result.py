"""What ``session.fixits()`` and ``session.fix_all()`` return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt
from inductor_debug_jupyter.pipeline.fixits.search import Remaining
from inductor_debug_jupyter.pipeline.fixits.verify import FixTrial
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.words import count


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
