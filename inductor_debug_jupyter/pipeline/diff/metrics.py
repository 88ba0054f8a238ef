"""One pair of tensors, compared: figures, a verdict and the reason for it.

Verdicts: ``match`` means equal element by element; ``rounding`` means different, but within the tolerance;
``mismatch`` means outside of it, or another shape or dtype; ``not_compared`` means that there was nothing to compare
(no elements) or no way to (a sparse tensor, a string). What was not compared has not passed.

The figures come from one pass over both tensors, by the native library (:mod:`native`) where it can read them and by
torch's ops (:mod:`portable`) elsewhere; quantiles, units in the last place and the worst places are a second pass on
request (:mod:`details`). Neither needs memory in proportion to the tensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy
import torch

from inductor_debug_jupyter.pipeline.adapters.adapter import first_line
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.details import Details, Number, Place, look_closer
from inductor_debug_jupyter.pipeline.diff.elements import unravel
from inductor_debug_jupyter.pipeline.diff.floors import parts, quantum
from inductor_debug_jupyter.pipeline.diff.gates import check_gates, gated_verdict
from inductor_debug_jupyter.pipeline.diff.native import one_pass
from inductor_debug_jupyter.pipeline.diff.partial_figures import Limits, Sums, figures_of
from inductor_debug_jupyter.pipeline.records import Verdict
from inductor_debug_jupyter.pipeline.words import count

LARGEST_SHARE: Final = 1e-3
"""An absolute tolerance that is more of the largest element lets faults pass."""


@dataclass(frozen=True, slots=True)
class TensorComparisonResult:
    """What came out of comparing a reference and a candidate.

    Figures that could not be computed are NaN. When only one side is NaN or infinite somewhere, the errors are infinite
    (there is no number that would say how wrong that is), and ``largest_finite_error`` tells about the rest.

    Attributes:
        passed: whether the candidate is as it should be; False when nothing was compared.
        verdict: ``match``, ``rounding``, ``mismatch`` or ``not_compared``.
        reason: why, in one sentence; empty for a match.
        max_relative_error: relative to the reference, over the elements where that is not zero; so is the mean.
        mismatch_percentage: how many percent of the elements are outside the tolerance.
        max_error_indices: where the worst element is; None when nothing differs.
        reference_value: the reference there.
        candidate_value: the candidate there.
        reference_nonfinite: how many elements of the reference are NaN or infinite.
        candidate_nonfinite: how many of the candidate are.
        elements: how many pairs were compared.
        atol: the absolute tolerance that was applied.
        rtol: the relative one.
        smallest_atol: the smallest absolute tolerance that would pass, beside ``rtol``.
        smallest_rtol: the smallest relative tolerance that would pass, beside ``atol``.
        pcc: Pearson's correlation, over the pairs that are finite; NaN where one side is constant.
        cosine: of the angle between the two, over the pairs that are finite.
        signal_to_noise: the reference over the error, in decibels; likewise.
        signed_zeros: how many zeros differ in sign; they are equal.
        reference_nonfinite_kinds: how many elements of the reference are NaN, +∞ and −∞.
        candidate_nonfinite_kinds: likewise of the candidate.
        details: what the second pass found, if it was asked for.
        missed_gates: the figures that the config requires and that are not reached, with the limits.
    """

    verdict: Verdict
    reason: str = ""
    max_absolute_error: float = math.nan
    mean_absolute_error: float = math.nan
    max_relative_error: float = math.nan
    mean_relative_error: float = math.nan
    rmse: float = math.nan
    mismatch_percentage: float = math.nan
    max_error_indices: tuple[int, ...] | None = None
    reference_value: Number | None = None
    candidate_value: Number | None = None
    reference_nonfinite: int = 0
    candidate_nonfinite: int = 0
    largest_finite_error: float = math.nan
    elements: int = 0
    shape: tuple[int, ...] = ()
    dtype: str = ""
    candidate_shape: tuple[int, ...] = ()
    candidate_dtype: str = ""
    atol: float = math.nan
    rtol: float = math.nan
    smallest_atol: float = math.nan
    smallest_rtol: float = math.nan
    pcc: float = math.nan
    cosine: float = math.nan
    signal_to_noise: float = math.nan
    signed_zeros: int = 0
    reference_nonfinite_kinds: tuple[int, int, int] = (0, 0, 0)
    candidate_nonfinite_kinds: tuple[int, int, int] = (0, 0, 0)
    details: Details | None = None
    missed_gates: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the candidate is as it should be. What was not compared has not passed."""
        return self.verdict in {"match", "rounding"}

    def summary(self) -> str:
        """All of it, as a few lines of text."""
        lines = [f"{self.verdict.upper()}{f': {self.reason}' if self.reason else ''}"]
        if self.dtype:
            lines.append(f"  reference {self.dtype} {list(self.shape)}")
            lines.append(f"  candidate {self.candidate_dtype} {list(self.candidate_shape)}")
        if self.elements:
            lines += [
                f"  absolute error   max {self.max_absolute_error:.3e}   mean {self.mean_absolute_error:.3e}",
                f"  relative error   max {self.max_relative_error:.3e}   mean {self.mean_relative_error:.3e}",
                f"  rmse             {self.rmse:.3e}",
                f"  outside          {self.mismatch_percentage:.4g}% of {self.elements:,} elements",
                f"  tolerance        atol {self.atol:g}   rtol {self.rtol:g}",
                f"  would pass with  atol {self.smallest_atol:.3g}   or rtol {self.smallest_rtol:.3g}",
                f"  pcc              {self.pcc:.9g}   cosine {self.cosine:.9g}   sqnr {self.signal_to_noise:.4g} dB",
            ]
        if self.max_error_indices is not None:
            place = list(self.max_error_indices)
            lines.append(f"  worst at {place}: {self.reference_value} against {self.candidate_value}")
        for role, kinds in (
            ("reference", self.reference_nonfinite_kinds),
            ("candidate", self.candidate_nonfinite_kinds),
        ):
            if any(kinds):
                named = zip(("NaN", "+inf", "-inf"), kinds, strict=True)
                told = ", ".join(f"{count:,} {name}" for name, count in named if count)
                lines.append(f"  {role} has {told}")
        if self.signed_zeros:
            lines.append(f"  zeros of the other sign: {self.signed_zeros:,} (they are equal)")
        if self.details is not None:
            lines += _detail_lines(self.details)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()


def compare_tensors(
    reference: Any,
    candidate: Any,
    config: ComparisonConfig | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    details: bool = False,
) -> TensorComparisonResult:
    """Compare two tensors, arrays or numbers. Whatever they are, the answer is a verdict.

    Quantized tensors are compared by the numbers that they stand for (which takes a copy of them). The default absolute
    tolerance is at most a thousandth of the reference's largest element: small numbers do not pass for being small.

    Args:
        reference: what it should be.
        candidate: what it is.
        config: what counts as equal.
        atol: instead of the config's.
        rtol: instead of the config's.
        details: go through them a second time for quantiles, a histogram, units in the last place, the worst places
            and those that are not finite.

    Raises:
        OptionError: a tolerance makes no sense.
    """
    config = config or ComparisonConfig()
    if atol is not None or rtol is not None:
        config = replace(config, atol=config.atol if atol is None else atol, rtol=config.rtol if rtol is None else rtol)
    expected, actual = _as_tensor(reference), _as_tensor(candidate)
    if isinstance(expected, str):
        return TensorComparisonResult("not_compared", f"the reference {expected}")
    if isinstance(actual, str):
        return TensorComparisonResult("not_compared", f"the candidate {actual}")
    return _compare(expected, actual, config, details)


def tensors_are_close(
    reference: Any,
    candidate: Any,
    config: ComparisonConfig | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> bool:
    """Whether :func:`compare_tensors` passes. False when nothing was compared."""
    return compare_tensors(reference, candidate, config, atol=atol, rtol=rtol).passed


def _as_tensor(value: Any) -> torch.Tensor | str:
    """The value as a tensor, or why that is impossible."""
    if isinstance(value, torch.Tensor):
        return "is a nested tensor: compare its parts, which .unbind() gives" if value.is_nested else value
    try:
        if isinstance(value, bool | int | float | complex | numpy.generic | numpy.ndarray):
            array = numpy.asarray(value)
            return torch.from_numpy(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError, RuntimeError) as error:
        return f"cannot be a tensor ({error})"
    name = type(value).__name__
    return f"is {'an' if name[:1].lower() in 'aeiou' else 'a'} {name}, not a tensor or a number"


def _compare(
    reference: torch.Tensor, candidate: torch.Tensor, config: ComparisonConfig, details: bool
) -> TensorComparisonResult:
    atol, rtol = config.tolerances(reference.dtype, candidate.dtype)
    shape, dtype, candidate_shape, candidate_dtype = *_kind(reference), *_kind(candidate)
    known: dict[str, Any] = {"shape": shape, "dtype": dtype, "atol": atol, "rtol": rtol}
    known |= {"candidate_shape": candidate_shape, "candidate_dtype": candidate_dtype}

    def unread(verdict: Verdict, reason: str) -> TensorComparisonResult:
        return TensorComparisonResult(verdict, reason, **known)

    for role, tensor in (("reference", reference), ("candidate", candidate)):
        if why := _unreadable(tensor):
            return unread("not_compared", f"the {role} is {why}")
    if shape != candidate_shape:
        return unread("mismatch", f"the shapes differ: {list(shape)} against {list(candidate_shape)}")
    if not reference.numel():
        if config.check_dtype and dtype != candidate_dtype:
            return unread("mismatch", f"the dtypes differ: {dtype} against {candidate_dtype}")
        return unread("not_compared", "there are no elements: nothing was compared")
    try:
        one, other = (each.dequantize() if each.is_quantized else each for each in (reference, candidate))
        sums, known["atol"] = _read(one, other, Limits(atol, rtol, bool(config.equal_nan)), config)
        figures = figures_of(sums, one.numel()) | _worst_place(sums, one, other)
        details |= any(gate.name == "ulp" for gate in config.gates)
        closer = look_closer(one, other, equal_nan=bool(config.equal_nan)) if details else None
        found = TensorComparisonResult("match", **known, **figures, details=closer)
        verdict, reason = _judge(found, sums, config)
        return _gated(replace(found, verdict=verdict, reason=reason), one, other, config)
    except (RuntimeError, TypeError, ValueError) as error:  # an exotic dtype or device that torch cannot convert
        return unread("not_compared", f"torch cannot compare {dtype} with {candidate_dtype}: {first_line(error)}")


def _read(one: torch.Tensor, other: torch.Tensor, limits: Limits, config: ComparisonConfig) -> tuple[Sums, float]:
    """What one pass over two tensors gives, and the absolute tolerance: a default one goes by the reference's scale."""
    sums = one_pass(one, other, limits)
    if sums.unequal and config.atol is None:
        own = atol_at_scale(limits.atol, one, other, sums, config)
        if own < limits.atol:
            return one_pass(one, other, Limits(own, limits.rtol, limits.equal_nan)), own
    return sums, limits.atol


def atol_at_scale(
    atol: float, reference: torch.Tensor, candidate: torch.Tensor, sums: Sums, config: ComparisonConfig
) -> float:
    """The default absolute tolerance, which must not hide that small numbers are wrong by a share of themselves.

    At most :data:`LARGEST_SHARE` of the reference's largest element, and at least the smallest number of the formats.
    Nothing is known of the scale of a reference that is zero everywhere.
    """
    formats = [each.dtype for each in (reference, candidate) if each.is_floating_point() or each.is_complex()]
    if (
        not atol
        or not formats
        or not sums.finite
        or math.sqrt(sums.reference_squares / sums.finite) * LARGEST_SHARE >= atol
    ):
        return atol
    largest = largest_size(reference)
    if not largest:
        return atol
    smallest = max(quantum(dtype, config.held_as) for dtype in formats)
    return min(atol, max(LARGEST_SHARE * largest, smallest))


def largest_size(value: torch.Tensor) -> float:
    """The size of the largest element that is finite."""
    value = parts(value)
    return float(value.abs().nan_to_num(nan=0.0, posinf=0.0).max()) if value.numel() else 0.0


def _gated(
    found: TensorComparisonResult, reference: torch.Tensor, candidate: torch.Tensor, config: ComparisonConfig
) -> TensorComparisonResult:
    """The result, which is no pass where floats miss a figure that the user requires."""
    if not config.gates or not (reference.is_floating_point() or reference.is_complex()):
        return found
    answer = check_gates(config.gates, found, reference, candidate)
    reason = "; ".join(filter(None, [found.reason, *answer.reasons]))
    verdict = gated_verdict(found.verdict, answer)
    return replace(found, verdict=verdict, reason=reason, missed_gates=answer.missed)


def _worst_place(sums: Sums, reference: torch.Tensor, candidate: torch.Tensor) -> dict[str, Any]:
    """Where the first wild pair is, or else the first largest error, with both values; nothing when nothing differs."""
    if (position := sums.first_wild if sums.wild else sums.worst) < 0:
        return {}
    at = unravel(position, tuple(reference.shape))
    one, other = (each.detach()[at].item() for each in (reference, candidate))
    return {"max_error_indices": at, "reference_value": one, "candidate_value": other}


def _kind(tensor: torch.Tensor) -> tuple[tuple[int, ...], str]:
    return tuple(map(int, tensor.shape)), str(tensor.dtype).removeprefix("torch.")


def _unreadable(tensor: torch.Tensor) -> str:
    """Why the elements cannot be read one by one, or the empty string."""
    if tensor.layout != torch.strided:
        return f"{str(tensor.layout).removeprefix('torch.')}: only dense tensors are compared"
    if tensor.is_meta:
        return "on the meta device: it has no values"
    return "a nested tensor: compare its parts" if tensor.is_nested else ""


def _judge(found: TensorComparisonResult, sums: Sums, config: ComparisonConfig) -> tuple[Verdict, str]:
    """The verdict, and why."""
    reasons = []
    verdict: Verdict = "match"
    if sums.wild:
        verdict = "mismatch"
        reasons.append(_wild_reason(found, sums))
    elif sums.unequal:
        within = f"atol {found.atol:g} + rtol {found.rtol:g}·|reference|"
        share = f"{sums.outside:,} of {found.elements:,} elements ({found.mismatch_percentage:.3g}%)"
        verdict = "rounding"
        if found.mismatch_percentage > config.max_mismatch_percentage:
            verdict = "mismatch"
            reasons.append(f"{share} differ by more than {within}; {_worst_text(found)}")
        elif sums.outside:
            allowed = f"{config.max_mismatch_percentage:g}%"
            reasons.append(f"{share} differ by more than {within}, which is allowed for {allowed}")
        else:
            reasons.append(f"the largest error, {sums.largest:.3g}, is within {within}")
    if found.dtype != found.candidate_dtype:
        if config.check_dtype:
            verdict = "mismatch"
        differ = f"the dtypes differ: {found.dtype} against {found.candidate_dtype}"
        reasons.insert(0, f"{differ} (values compared in the wider one)")
    return verdict, "; ".join(reasons)


def _wild_reason(found: TensorComparisonResult, sums: Sums) -> str:
    places = count(sums.wild, "place")
    if sums.wild == sums.both_nan:
        return f"both sides are NaN in {places} (equal_nan=True would accept that); {_worst_text(found)}"
    rest = f"; elsewhere the largest error is {sums.largest:.3g}" if found.elements > sums.wild else ""
    return f"NaN or infinity, and not on both sides alike, in {places}; {_worst_text(found)}{rest}"


def _worst_text(found: TensorComparisonResult) -> str:
    place = f" at {list(found.max_error_indices)}" if found.max_error_indices else ""
    return f"worst{place}: {_number(found.reference_value)} against {_number(found.candidate_value)}"


def _detail_lines(details: Details) -> list[str]:
    told = "   ".join(f"{share:.4g}: {error:.3e}" for share, error in details.quantiles)
    lines = [f"  error quantiles  {told}"]
    if not math.isnan(details.max_ulp):
        lines.append(f"  last places      max {details.max_ulp:.6g}   mean {details.mean_ulp:.4g}")
    lines += [_place_line("worst", place) for place in details.worst[:5]]
    lines += [_place_line("not finite", place) for place in details.nonfinite[:5]]
    return lines


def _place_line(what: str, place: Place) -> str:
    return f"  {what:<16} {list(place.index)}: {_number(place.reference)} against {_number(place.candidate)}"


def _number(value: Number | None) -> str:
    return f"{value:.6g}" if isinstance(value, float | complex) else str(value)
