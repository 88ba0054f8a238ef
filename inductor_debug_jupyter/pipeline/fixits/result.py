"""What ``session.fix_all()`` answers with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt
from inductor_debug_jupyter.pipeline.fixits.search import Remaining
from inductor_debug_jupyter.pipeline.fixits.verify import FixTrial
from inductor_debug_jupyter.pipeline.views.words import count
from inductor_debug_jupyter.pipeline.words import Harmless


@dataclass(frozen=True)
class FixResult(Harmless):
    """The fix-its that together were found, what they leave, and the module that has them.

    Attributes:
        fixits: what was chosen, in the order in which it was found.
        trial: the model with them, beside the model without; None when nothing helped.
        remaining: what the target still refuses, and why.
        module: computes what the original does; the original itself when nothing was chosen. Of several models, the
            one that was called first.
        runs: how often the model was run for it.
        patch: the line that puts them in force, as a diff of the source that calls the model; what it does is what was
            verified. Empty when that is no source of the user's; :attr:`unwritten` then says so.
        unwritten: why there is no such diff.
        modules: the same for every model that was called, in the order of their first calls.
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
        """Whether the target takes every graph now. One that was refused and was not tried is not taken."""
        return not self.remaining and not self.left_out

    @property
    def answer(self) -> str:
        """What came out, in a few words."""
        if self.remaining:
            return f"{count(len(self.remaining), 'finding')} left"
        return "accepted, but for what was not tried" if self.left_out else "accepted"

    def __repr__(self) -> str:
        lines = [self.answer]
        lines += [f"  {fixit.kind:<10} {fixit.title}" for fixit in self.fixits]
        if self.trial is not None:
            lines += [f"  {line}" for line in self.trial.lines()]
        lines += [f"  ✗ {each}" for each in self.remaining]
        if self.trial is None:  # it says so otherwise
            lines += [f"  left out   {each}" for each in self.left_out]
        if self.patch:
            lines += ["", *self.patch.splitlines()]
        return "\n".join(lines)
