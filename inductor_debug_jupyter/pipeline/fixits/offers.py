"""What ``session.fixits()`` returns: the verified fix-its, and why the others are not offered."""

from __future__ import annotations

from collections.abc import Iterable

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
