"""One pair of tensors, compared: figures, a verdict and the reason for it.

Verdicts: ``match`` means equal element by element; ``rounding`` means different, but within the tolerance;
``mismatch`` means outside of it, or another shape or dtype; ``not_compared`` means that there was nothing to compare
(no elements) or no way to (a sparse tensor, a string). What was not compared has not passed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.elements import pieces, unravel
from inductor_debug_jupyter.pipeline.diff.tally import Tally
from inductor_debug_jupyter.pipeline.records import Verdict

Number = bool | int | float | complex


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

    @property
    def passed(self) -> bool:
        """Whether the candidate is as it should be. What was not compared has not passed."""
        return self.verdict in {"match", "rounding"}

    def summary(self) -> str:
        """All of it, as a few lines of text."""
        lines = [f"{self.verdict.upper()}{f': {self.reason}' if self.reason else ''}"]
        if self.dtype:
            lines.append(f"  reference {_tensor_text(self.shape, self.dtype)}")
            lines.append(f"  candidate {_tensor_text(self.candidate_shape, self.candidate_dtype)}")
        if self.elements:
            lines += [
                f"  absolute error   max {self.max_absolute_error:.3e}   mean {self.mean_absolute_error:.3e}",
                f"  relative error   max {self.max_relative_error:.3e}   mean {self.mean_relative_error:.3e}",
                f"  rmse             {self.rmse:.3e}",
                f"  outside          {self.mismatch_percentage:.4g}% of {self.elements:,} elements",
                f"  tolerance        atol {self.atol:g}   rtol {self.rtol:g}",
            ]
        if self.max_error_indices is not None:
            place = list(self.max_error_indices)
            lines.append(f"  worst at {place}: {self.reference_value} against {self.candidate_value}")
        if self.reference_nonfinite or self.candidate_nonfinite:
            counts = f"{self.reference_nonfinite:,} in the reference, {self.candidate_nonfinite:,} in the candidate"
            lines.append(f"  NaN or infinite: {counts}")
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
) -> TensorComparisonResult:
    """Compare two tensors, arrays or numbers. Whatever they are, the answer is a verdict.

    Args:
        reference: what it should be.
        candidate: what it is.
        config: what counts as equal.
        atol: instead of the config's.
        rtol: instead of the config's.

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
    return _compare(expected, actual, config)


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
        return value
    try:
        if isinstance(value, bool | int | float | complex | numpy.generic | numpy.ndarray):
            array = numpy.asarray(value)
            return torch.from_numpy(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError, RuntimeError) as error:
        return f"cannot be a tensor ({error})"
    return f"is {_article(type(value).__name__)}, not a tensor or a number"


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _compare(reference: torch.Tensor, candidate: torch.Tensor, config: ComparisonConfig) -> TensorComparisonResult:
    atol, rtol = config.tolerances(reference.dtype, candidate.dtype)
    plain = TensorComparisonResult(
        "not_compared",
        shape=tuple(map(int, reference.shape)),
        dtype=_dtype_text(reference.dtype),
        candidate_shape=tuple(map(int, candidate.shape)),
        candidate_dtype=_dtype_text(candidate.dtype),
        atol=atol,
        rtol=rtol,
    )
    for role, tensor in (("reference", reference), ("candidate", candidate)):
        if why := _unreadable(tensor):
            return replace(plain, reason=f"the {role} is {why}")
    if plain.shape != plain.candidate_shape:
        reason = f"the shapes differ: {list(plain.shape)} against {list(plain.candidate_shape)}"
        return replace(plain, verdict="mismatch", reason=reason)
    if not reference.numel():
        if config.check_dtype and reference.dtype != candidate.dtype:
            return replace(plain, verdict="mismatch", reason=_dtypes_differ(plain))
        return replace(plain, reason="there are no elements: nothing was compared")
    try:
        with torch.no_grad():
            tally = Tally(atol, rtol)
            for piece in pieces(reference, candidate, equal_nan=config.equal_nan):
                tally.add(piece)
            return _judge(_with_figures(plain, tally, reference, candidate), tally, config)
    except (RuntimeError, TypeError, ValueError) as error:  # an exotic dtype or device that torch cannot convert
        reason = f"torch cannot compare {plain.dtype} with {plain.candidate_dtype}: {_first_line(error)}"
        return replace(plain, reason=reason)


def _unreadable(tensor: torch.Tensor) -> str:
    """Why the elements cannot be read one by one, or the empty string."""
    if tensor.layout != torch.strided:
        return f"{str(tensor.layout).removeprefix('torch.')}: only dense tensors are compared"
    if tensor.is_meta:
        return "on the meta device: it has no values"
    if tensor.is_quantized:
        return f"quantized ({_dtype_text(tensor.dtype)}): dequantize it to compare"
    return "a nested tensor: compare its parts" if tensor.is_nested else ""


def _with_figures(
    plain: TensorComparisonResult, tally: Tally, reference: torch.Tensor, candidate: torch.Tensor
) -> TensorComparisonResult:
    at = None if tally.worst_position is None else unravel(tally.worst_position, plain.shape)
    return replace(
        plain,
        max_absolute_error=tally.max_absolute_error,
        mean_absolute_error=tally.mean_absolute_error,
        max_relative_error=tally.max_relative_error,
        mean_relative_error=tally.mean_relative_error,
        rmse=tally.rmse,
        mismatch_percentage=tally.mismatch_percentage,
        max_error_indices=at,
        reference_value=None if at is None else reference.detach()[at].item(),
        candidate_value=None if at is None else candidate.detach()[at].item(),
        reference_nonfinite=tally.reference_nonfinite,
        candidate_nonfinite=tally.candidate_nonfinite,
        largest_finite_error=tally.largest,
        elements=tally.compared,
    )


def _judge(result: TensorComparisonResult, tally: Tally, config: ComparisonConfig) -> TensorComparisonResult:
    reasons: list[str] = []
    verdict: Verdict = "match"
    within = f"atol {result.atol:g} + rtol {result.rtol:g}·|reference|"
    share = f"{tally.outside:,} of {tally.compared:,} elements ({result.mismatch_percentage:.3g}%)"
    if tally.wild:
        verdict = "mismatch"
        reasons.append(_wild_reason(result, tally))
    elif result.mismatch_percentage > config.max_mismatch_percentage:
        verdict = "mismatch"
        reasons.append(f"{share} differ by more than {within}; {_worst_text(result)}")
    elif tally.unequal:
        verdict = "rounding"
        if tally.outside:
            allowed = f"{config.max_mismatch_percentage:g}%"
            reasons.append(f"{share} differ by more than {within}, which is allowed for {allowed}")
        else:
            reasons.append(f"the largest error, {result.max_absolute_error:.3g}, is within {within}")
    if result.dtype != result.candidate_dtype:
        if config.check_dtype:
            verdict = "mismatch"
        reasons.insert(0, _dtypes_differ(result))
    return replace(result, verdict=verdict, reason="; ".join(reasons))


def _wild_reason(result: TensorComparisonResult, tally: Tally) -> str:
    if tally.wild == tally.both_nan:
        return f"both sides are NaN in {_places(tally.wild)} (equal_nan=True would accept that); {_worst_text(result)}"
    rest = f"; elsewhere the largest error is {tally.largest:.3g}" if tally.compared > tally.wild else ""
    return f"NaN or infinity is not matched in {_places(tally.wild)}; {_worst_text(result)}{rest}"


def _places(count: int) -> str:
    return f"{count:,} place{'' if count == 1 else 's'}"


def _worst_text(result: TensorComparisonResult) -> str:
    place = f" at {list(result.max_error_indices)}" if result.max_error_indices else ""
    return f"worst{place}: {_number(result.reference_value)} against {_number(result.candidate_value)}"


def _number(value: Number | None) -> str:
    return f"{value:.6g}" if isinstance(value, float | complex) else str(value)


def _dtypes_differ(result: TensorComparisonResult) -> str:
    compared = " (values compared in the wider one)" if result.elements else ""
    return f"the dtypes differ: {result.dtype} against {result.candidate_dtype}{compared}"


def _dtype_text(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _tensor_text(shape: tuple[int, ...], dtype: str) -> str:
    return f"{dtype} {list(shape)}"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
