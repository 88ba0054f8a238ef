"""The simulator's faults: each makes certain ops wrong, and no others.

A fault is written as ``name``, ``name:op`` or ``name:op:argument``; an op is named like ``mm``, ``aten.mm`` or
``aten.mm.default``, several are joined by ``+`` (``wrong-accumulation:mm+addmm``). Without an op, a fault is on the
ops in the last column:

=====================  ==============================================  ================================================
``copy-first-stick``   the copy kernel writes only the first stick of  ``clone``, ``copy``, ``lift_fresh_copy``
                       each row
``negative-zero``      equality compares bits: −0.0 == 0.0 is False    ``eq``, ``ne``
``wrong-accumulation`` running sums are kept in float16 (or the dtype  ``mm``, ``addmm``, ``bmm``, ``baddbmm``, ``sum``,
                       that is the argument)                           ``mean``, ``convolution``
``read-padding``       the kernel reduces whole sticks, padding and    ``sum``
                       all (``sum``, ``mean``, ``amax``, ``amin``)
``crash``              the process is ended by a real signal           none: say ``crash:aten.mm``, or
                       (``SIGSEGV``, or the argument)                  ``crash:aten.mm:SIGILL``
``hang``               the kernel never ends (or takes as many         none: say ``hang:aten.mm``, or ``hang:aten.mm:2``
                       seconds as the argument says)
=====================  ==============================================  ================================================
"""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.adapters.stick.memory import ACCUMULATIONS
from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.errors import OptionError

COPIES = ("clone", "copy", "lift_fresh_copy")
EQUALITIES = ("eq", "ne")
ACCUMULATING = ("mm", "addmm", "bmm", "baddbmm", "sum", "mean", "convolution")
REDUCTIONS = ("sum", "mean", "amax", "amin")

DEFAULT_OPS: dict[str, tuple[str, ...]] = {
    "copy-first-stick": COPIES,
    "negative-zero": EQUALITIES,
    "wrong-accumulation": ACCUMULATING,
    "read-padding": ("sum",),
    "crash": (),
    "hang": (),
}
"""Fault → its ops by default; empty when an op must be given."""

ALLOWED_OPS = {**DEFAULT_OPS, "read-padding": REDUCTIONS}
"""Fault → the ops on which it is allowed; empty for any op."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its name, its ops (bare names), and its argument (empty for the default).

    Raises:
        OptionError: there is no such fault, or not on such an op.
    """

    name: str
    ops: tuple[str, ...] = ()
    argument: str = ""

    def __post_init__(self) -> None:
        if self.name not in DEFAULT_OPS:
            near = difflib.get_close_matches(self.name, DEFAULT_OPS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise OptionError(f"unknown fault {self.name!r}; allowed: {', '.join(DEFAULT_OPS)}{hint}")
        ops = tuple(map(bare_name, self.ops)) or DEFAULT_OPS[self.name]
        if not ops:
            raise OptionError(f"fault {self.name!r} on which op? Say one, such as {self.name}:aten.mm")
        allowed = ALLOWED_OPS[self.name]
        for op in ops:
            if allowed and op not in allowed:
                raise OptionError(f"fault {self.name!r}: {op!r} is not allowed; allowed: {', '.join(allowed)}")
        object.__setattr__(self, "ops", ops)
        self._check_argument()

    def _check_argument(self) -> None:
        if not self.argument:
            return
        allowed = {
            "crash": ([each.name for each in signal.Signals], "a signal's name, such as SIGSEGV"),
            "wrong-accumulation": (list(ACCUMULATIONS), ", ".join(ACCUMULATIONS)),
        }
        if self.name == "hang":
            try:
                good = float(self.argument) > 0
            except ValueError:
                good = False
            choices = "seconds, a number above 0"
        else:
            values, choices = allowed.get(self.name, ([], "no argument"))
            good = self.argument in values
        if not good:
            raise OptionError(f"fault {self.name!r}: {self.argument!r} is not allowed; allowed: {choices}")

    def is_on(self, op: str) -> bool:
        """Whether this fault is on an op, by any of its names."""
        return bare_name(op) in self.ops

    def __str__(self) -> str:
        parts = [self.name, "+".join(self.ops), self.argument]
        return ":".join(parts if self.argument else parts[:2])


def parse_fault(text: str) -> Fault:
    """The fault that a text such as ``copy-first-stick`` or ``crash:aten.mm:SIGILL`` names.

    Raises:
        OptionError: it names none; the message says what is allowed.
    """
    name, _, rest = text.strip().partition(":")
    ops, _, argument = rest.replace("::", ".").partition(":")
    return Fault(name, tuple(op for op in ops.split("+") if op), argument)


def faults_of(given: Iterable[Fault | str]) -> tuple[Fault, ...]:
    """Faults, or their texts, as faults; one text may hold several, separated by commas."""
    if isinstance(given, str):
        given = [given]
    parts: list[Fault | str] = []
    for each in given:
        parts += [each] if isinstance(each, Fault) else [part for part in each.split(",") if part.strip()]
    return tuple(each if isinstance(each, Fault) else parse_fault(each) for each in parts)
