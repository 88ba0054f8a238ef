"""Which changes make a command fail: ``new-break,new-fallback,error-grew,kernels+10%``.

A gate on something that is not known fails: what was not checked is no pass.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.comparing.changes import KINDS, Change, Quantity, RunComparison
from inductor_debug_jupyter.pipeline.comparing.quantities import QUANTITIES
from inductor_debug_jupyter.pipeline.errors import OptionError

_LIMIT = re.compile(r"([a-z-]+)\+(\d+(?:\.\d+)?)%")
_NEEDS = {
    "new-fallback": "fallbacks",
    "moved": "fallbacks",
    "kernel-split": "kernels",
    "memory-grew": "memory",
    "new-finding": "errors",
    "new-break": "graphs",
}
"""Kind of a change → the figure that must be known for such a change to be found."""
ANY = "any"


@dataclass(frozen=True)
class Gate:
    """One condition: a kind of change that may not occur, or a figure that may not grow by more than ``percent``."""

    text: str
    kind: str = ""
    figure: str = ""
    percent: float = 0.0


@dataclass(frozen=True)
class GateResult:
    """Why a gate fails, one line each; empty when it passes."""

    gate: Gate
    failures: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()


def read_gates(text: str) -> tuple[Gate, ...]:
    """The gates of a comma-separated list.

    Raises:
        OptionError: one is not known.
    """
    return tuple(_gate(part.strip()) for part in text.split(",") if part.strip())


def _gate(text: str) -> Gate:
    if text in KINDS or text == ANY:
        return Gate(text, kind=text)
    if (found := _LIMIT.fullmatch(text)) and found[1] in QUANTITIES:
        return Gate(text, figure=found[1], percent=float(found[2]))
    name = text.partition("+")[0]
    near = difflib.get_close_matches(name, [*KINDS, *QUANTITIES, ANY], n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    kinds, figures = ", ".join([ANY, *KINDS]), ", ".join(QUANTITIES)
    raise OptionError(
        f"--fail-on: {text!r} is not allowed; allowed: {kinds}, or a figure and its growth, such as kernels+10% "
        f"(of {figures}){hint}"
    )


def check(comparison: RunComparison, gates: Sequence[Gate]) -> tuple[GateResult, ...]:
    """Every gate on one comparison."""
    return tuple(_check_kind(comparison, each) if each.kind else _check_figure(comparison, each) for each in gates)


def _check_kind(comparison: RunComparison, gate: Gate) -> GateResult:
    if gate.kind == ANY:
        unknown = [f"not known: {why}" for why in comparison.unknown]
        return GateResult(gate, (*map(str, comparison.changes), *unknown), comparison.changes)
    changes = comparison.of_kind(gate.kind)
    unknown = [f"not known: {why}" for why in _why_unknown(comparison, gate.kind)]
    return GateResult(gate, (*map(str, changes), *unknown), changes)


def _why_unknown(comparison: RunComparison, kind: str) -> list[str]:
    if kind in ("error-grew", "new-culprit"):
        return [why for why in comparison.unknown if why.startswith("numbers")]
    figure = _NEEDS.get(kind, "graphs")
    return [_no_figure(each) for each in [comparison.quantity(figure)] if None in (each.before, each.after)]


def _no_figure(figure: Quantity) -> str:
    return f"{figure.name} {figure.text(figure.before)} → {figure.text(figure.after)}"


def _check_figure(comparison: RunComparison, gate: Gate) -> GateResult:
    figure = comparison.quantity(gate.figure)
    if figure.before is None or figure.after is None:
        return GateResult(gate, (f"not known: {_no_figure(figure)}",))
    if figure.after <= figure.before * (1 + gate.percent / 100):
        return GateResult(gate)
    return GateResult(gate, (f"{figure.name}: {figure.text(figure.before)} → {figure.text(figure.after)}",))
