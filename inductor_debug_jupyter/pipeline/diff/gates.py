"""Figures that the user requires of every output, beside its verdict: ``require={"pcc": 0.99, "sqnr": 40}``.

A gate only takes away: what rounding does not explain stays a mismatch, however good its figures are. A figure that
cannot be computed (the correlation with a constant) is not a pass either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.harmless import quoted
from inductor_debug_jupyter.pipeline.options import GATES, parse_gates, read_gate
from inductor_debug_jupyter.pipeline.records import Verdict

if TYPE_CHECKING:
    from inductor_debug_jupyter.pipeline.diff.metrics import TensorComparisonResult

Metric = Callable[[torch.Tensor, torch.Tensor], Any]
"""A measure of the user's own: reference, candidate → a number that must be at least the limit."""
_UNITS = {"sqnr": " dB"}


@dataclass(frozen=True, slots=True)
class Gate:
    """One figure, and the limit that it must not fall below or not exceed."""

    name: str
    limit: float
    bound: str = "at least"
    metric: Metric | None = None

    def admits(self, value: float) -> bool:
        """Whether a figure is on the right side."""
        return value >= self.limit if self.bound == "at least" else value <= self.limit

    def text(self, value: float) -> str:
        """What a figure is, and what is required; with as many digits as tell the two apart."""
        short = f"{value:.6g}"
        shown = "not known" if math.isnan(value) else repr(value) if self.admits(float(short)) else short
        return f"{self.name} {shown}, required {self.bound} {self.limit:.10g}{_UNITS.get(self.name, '')}"


def read_gates(require: Any) -> tuple[Gate, ...]:
    """The gates of a text (``pcc=0.99,sqnr=40dB``), of several texts, or of a mapping: figure or metric → limit.

    Raises:
        OptionError: there is no such figure, or a limit is no number.
    """
    if require is None:
        return ()
    try:
        if isinstance(require, Mapping):
            return tuple(_gate(name, limit) for name, limit in require.items())
        return tuple(_named(gate) for gate in parse_gates(require if isinstance(require, str) else ",".join(require)))
    except TypeError:
        allowed = f"a limit for each of {', '.join(GATES)}, or for a function"
        raise OptionError(f"require={quoted(require)}; allowed: {allowed}") from None
    except ValueError as error:
        raise OptionError(f"require={quoted(require)}: {error}") from None


def _gate(name: Any, limit: Any) -> Gate:
    if callable(name) and not isinstance(limit, bool) and isinstance(limit, int | float) and not math.isnan(limit):
        return Gate(getattr(name, "__name__", type(name).__name__), float(limit), metric=name)
    return _named(f"{name}={limit}")


def _named(text: str) -> Gate:
    name, limit = read_gate(text)
    return Gate(name, limit, GATES[name])


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """What the gates say of one output: those missed, those whose figure is not known, and those without meaning."""

    missed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    meaningless: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """All of it, in words."""
        return (*self.missed, *self.unknown, *self.meaningless)


def check_gates(
    gates: Iterable[Gate], found: TensorComparisonResult, reference: torch.Tensor, candidate: torch.Tensor
) -> GateAnswer:
    """Hold the figures of two tensors of floats against gates; equal tensors pass all but the user's own metrics."""
    missed, unknown, meaningless = [], [], []
    for gate in gates:
        if gate.metric is not None:
            value, why = _measured(gate.metric, reference, candidate)
        elif found.verdict == "match":
            continue
        elif gate.name == "pcc" and found.elements == 1:
            meaningless.append("pcc has no meaning for one element")
            continue
        else:
            value, why = _figure(gate.name, found), ""
        if math.isnan(value):
            unknown.append(gate.text(value) + why)
        elif not gate.admits(value):
            missed.append(gate.text(value))
    return GateAnswer(tuple(missed), tuple(unknown), tuple(meaningless))


def gated_verdict(verdict: Verdict, answer: GateAnswer) -> Verdict:
    """The verdict with the gates: a missed one is a mismatch, an unknown one makes a pass none."""
    if answer.missed:
        return "mismatch"
    return "not_compared" if answer.unknown and verdict != "mismatch" else verdict


def _figure(name: str, found: TensorComparisonResult) -> float:
    if name == "ulp":
        return math.nan if found.details is None else found.details.max_ulp
    fields = {"sqnr": "signal_to_noise", "max_error": "max_absolute_error"}
    return float(getattr(found, fields.get(name, name)))


def _measured(metric: Metric, reference: torch.Tensor, candidate: torch.Tensor) -> tuple[float, str]:
    """What a function of the user's says, or NaN and why it says nothing."""
    try:
        return float(metric(reference.detach(), candidate.detach())), ""
    except Exception as error:  # whatever a function of the user's raises
        first = (str(error).splitlines() or [""])[0]
        return math.nan, f" (it raised {type(error).__name__}: {first})"
