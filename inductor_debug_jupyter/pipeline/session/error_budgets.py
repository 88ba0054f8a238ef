"""What a device's arithmetic costs the models of a session: error budgets, ops to keep in float32, ops to narrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.devices import JudgingContext
from inductor_debug_jupyter.pipeline.diff.executions import Call
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.formats.arithmetic import (
    NAMED,
    Arithmetic,
    arithmetic_of_profile,
    named_arithmetic,
)
from inductor_debug_jupyter.pipeline.numerics.error_budget import error_budget
from inductor_debug_jupyter.pipeline.numerics.prescription import narrow, prescribe
from inductor_debug_jupyter.pipeline.records import ErrorBudget, Narrowing, Prescription
from inductor_debug_jupyter.pipeline.rerun.again import as_called
from inductor_debug_jupyter.pipeline.session.current_record import CurrentRecord


def _as_compared(call: ModelCall) -> Call:
    """A kept call, to be run without gradients."""
    return Call(call.model, call.args, call.kwargs)


class ErrorBudgets:
    """The error budgets of one session: the answers go into its record.

    Args:
        context: its target and settings say which arithmetic is meant.
        record: where the answers go.
        call_to_search: the kept call to look at, and notes on those that are left out.
    """

    def __init__(
        self,
        context: JudgingContext,
        record: CurrentRecord,
        call_to_search: Callable[[], tuple[ModelCall, list[str]]],
    ) -> None:
        self._context = context
        self._record = record
        self._call_to_search = call_to_search

    def error_budget(self, of: str | None = None, *, numerics: str | None = None) -> ErrorBudget:
        """Which ops make the deviation of an output on a device of narrow arithmetic; ``.shares``, largest first.

        ``of`` is the path of an output, as :meth:`diff` names it, or ``"margin"``: how far the second best logit is
        from the best; the first output by default. ``numerics`` names the arithmetic (``"float16"``,
        ``"bfloat16-products"``, …); the target's own by default. No device is needed: its arithmetic is computed
        here, op by op. The prediction is checked by a run, and the largest ops by two more each. In the panel it is a
        tab of its own, and the graph can be coloured by it.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: there is no such output, the target does not say how it computes, or there is no derivative.
        """
        call, others = self._call_to_search()
        with as_called(call):
            found = error_budget(_as_compared(call), self._arithmetic(numerics), of, precise=self._precise(numerics))
        found = replace(found, notes=(*found.notes, *others))
        self._record.update(error_budget=found)
        return found

    def prescribe(self, of: str | None = None, *, numerics: str | None = None, goal: float = 1.1) -> Prescription:
        """The fewest ops to keep in float32 so that an output is as good as the device's format; verified by a run.

        The answer has its cost, the line of code (``.code``) and the line of a device's profile (``.profile_line``);
        :meth:`apply` takes it as a fix-it. ``of`` and ``numerics`` are as in :meth:`error_budget`; ``goal`` is the
        deviation that the output may have, in units of the format: 1 is the output rounded once.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: as for :meth:`error_budget`.
        """
        call, others = self._call_to_search()
        with as_called(call):
            found = prescribe(_as_compared(call), self._arithmetic(numerics), of, goal, self._precise(numerics))
        found = replace(found, notes=(*found.notes, *others))
        self._record.update(prescription=found)
        return found

    def narrow(self, to: str, of: str | None = None, *, numerics: str | None = None, goal: float = 1.1) -> Narrowing:
        """The ops that may go to a narrower arithmetic, such as ``"float8-products"``; verified by a run.

        :meth:`prescribe` the other way round: as many ops as leave the output within the goal. ``numerics="float32"``
        stands for a device that rounds as torch does: the goal is then in units of the narrower format.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: as for :meth:`error_budget`.
        """
        call, others = self._call_to_search()
        with as_called(call):
            found = narrow(_as_compared(call), self._arithmetic(numerics), named_arithmetic(to), of, goal)
        return replace(found, notes=(*found.notes, *others))

    def _arithmetic(self, numerics: str | None) -> Arithmetic:
        """The arithmetic of that name, or the one that the target says it computes in."""
        name = numerics or self._context.settings["numerics"]
        found = named_arithmetic(name) if name else arithmetic_of_profile(self._context.profile)
        if found is None:
            target = self._context.profile.name
            raise UsageError(f"{target} does not say how it computes: give numerics=, one of {', '.join(NAMED)}")
        return found

    def _precise(self, numerics: str | None) -> tuple[str, ...]:
        """The ops that the target computes in float32, where its own arithmetic is meant."""
        return () if numerics or self._context.settings["numerics"] else self._context.profile.precise
