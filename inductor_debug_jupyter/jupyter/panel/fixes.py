"""The strip above the panes: fix-its of the chosen finding, verified, applied, undone."""

from __future__ import annotations

from typing import Any

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.fixits import FixIt, FixResult, FixTrial, Offers
from inductor_debug_jupyter.pipeline.harmless import plain


class FixController:
    """Calls the session for the strip. It outlives the panes, which are replaced when the session's record changes."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._offers = Offers(())
        self._finding: int | None = None
        self._offered_beside: tuple[FixIt, ...] = ()
        """What was in force when they were offered: beside anything else, in another cell, they mean nothing."""
        self._message = ""

    @property
    def can_run(self) -> bool:
        """Whether there is a model to run again."""
        return bool(self._session.has_inputs)

    @property
    def in_force(self) -> bool:
        """Whether a fix-it is applied."""
        return bool(self._session.applied)

    def answers(self) -> wire.Handlers:
        """The requests that this strip answers, each with its handler; each changes :meth:`view`."""
        return {
            wire.CheckFixits: lambda request: self._check(request.finding),
            wire.ApplyFixit: lambda request: self._apply(request.offer),
            wire.UndoFixit: lambda _: self._undo(),
            wire.FixAll: lambda _: self._fix_all(),
        }

    def view(self) -> dict[str, Any]:
        """What the strip shows."""
        applied = self._session.applied
        are_valid = applied == self._offered_beside
        return {
            "offers": [_offer(trial) for trial in self._offers] if are_valid else [],
            "finding": self._finding if are_valid else None,
            "applied": [plain(fixit.title) for fixit in applied],
            "lines": [plain(line) for line in self._session.try_fixits(applied).lines()] if applied else [],
            "patch": self._patch(),
            "message": plain(self._message),
        }

    def _patch(self) -> str:
        """What is in force as a change of the user's source, or how to write it."""
        if not self.in_force:
            return ""
        patch = self._session.patch()
        return "\n".join(plain(line) for line in (*patch.diff.splitlines(), *patch.unwritten))

    def _check(self, finding: int) -> None:
        self._message = ""
        self._offers, self._finding = Offers(()), finding
        self._offered_beside = self._session.applied
        self._offers = self._session.fixits(finding)
        if not self._offers:
            self._message = "No fix-it removes this finding and keeps the numbers. " + "; ".join(self._offers.declined)

    def _apply(self, number: int) -> None:
        self._message = ""
        if not 0 <= number < len(self._offers):
            raise NotFoundError("this fix-it is no longer offered: check again")
        trial = self._offers[number]
        self._offers, self._finding = Offers(()), None
        self._session.apply(trial)

    def _undo(self) -> None:
        self._message = ""
        self._offers, self._finding = Offers(()), None
        self._session.undo()

    def _fix_all(self) -> None:
        self._message = ""
        self._offers, self._finding = Offers(()), None
        result: FixResult = self._session.fix_all()
        self._message = "The target takes all of it" if result.accepted else f"{result.answer}: {_first_reason(result)}"
        if result.fixits:
            self._session.apply(*result.fixits)


def _first_reason(result: FixResult) -> str:
    return result.remaining[0].why if result.remaining else result.left_out[0]


def _offer(trial: FixTrial) -> dict[str, Any]:
    fixit = trial.fixits[-1]
    return {
        "title": plain(fixit.title),
        "kind": fixit.kind,
        "checked": plain(f"{trial.diff.verdict}, at most {trial.max_error:.2g} off"),
        "gone": len(trial.gone),
        "worse": [plain(f"{each.severity}: {each.title}") for each in trial.new],
        "lines": [plain(line) for line in trial.lines()],
    }
