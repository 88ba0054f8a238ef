"""The figures of a comparison that add up: each part of two tensors has some, and parts are added.

Both ways of going through two tensors (:mod:`native`, :mod:`portable`) fill the same fields, so that what follows from
them does not depend on the way.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from typing import Any, Final


class Limits(ctypes.Structure):
    """What counts as equal, as C++ reads it."""

    _fields_ = (("atol", ctypes.c_double), ("rtol", ctypes.c_double), ("equal_nan", ctypes.c_int64))


class Sums(ctypes.Structure):
    """Sums over some pairs of elements. The fields that are annotated, in this order, are those of ``compare.cpp``.

    ``wild`` are pairs that differ with at least one side NaN or infinite: there is no error that could be summed, so
    they only count. ``finite`` are the pairs that squares, products and plain sums are over. ``zeros`` are pairs of
    zeros whose signs differ; they are equal. The relative error is summed where the reference is not zero.
    ``atol_needed`` is the smallest absolute tolerance that would do beside the relative one in force, ``rtol_needed``
    the other way round. ``worst`` and ``first_wild`` are positions; -1 for none.
    """

    sum: float
    squares: float
    relative_sum: float
    largest: float
    largest_relative: float
    atol_needed: float
    rtol_needed: float
    reference_squares: float
    candidate_squares: float
    products: float
    reference_sum: float
    candidate_sum: float
    finite: int
    unequal: int
    outside: int
    wild: int
    both_nan: int
    relative_count: int
    zeros: int
    reference_nan: int
    reference_inf: int
    reference_neg_inf: int
    candidate_nan: int
    candidate_inf: int
    candidate_neg_inf: int
    worst: int
    first_wild: int

    def __init__(self) -> None:
        super().__init__()
        self.worst = self.first_wild = -1

    def add(self, other: Sums, offset: int) -> None:
        """Take in the sums of another part, which begins at ``offset``; of equal errors the first is the worst."""
        for name in _ADDED:
            if value := getattr(other, name):
                setattr(self, name, getattr(self, name) + value)
        for name in _LARGEST:
            if (value := getattr(other, name)) > getattr(self, name):
                setattr(self, name, value)
        if other.worst >= 0 and (-other.largest, offset + other.worst) < (-self.largest, self.worst):
            self.largest, self.worst = other.largest, offset + other.worst
        if other.first_wild >= 0 and (self.first_wild < 0 or offset + other.first_wild < self.first_wild):
            self.first_wild = offset + other.first_wild


_C_TYPES: Final[dict[str, Any]] = {"float": ctypes.c_double, "int": ctypes.c_int64}
Sums._fields_ = [(name, _C_TYPES[kind]) for name, kind in Sums.__annotations__.items()]
_LARGEST: Final = ("largest_relative", "atol_needed", "rtol_needed")
_ADDED: Final = tuple(
    name for name in Sums.__annotations__ if name not in {*_LARGEST, "largest", "worst", "first_wild"}
)


_CONSTANT: Final = 1e-11
"""A side whose variance is no more than this share of its mean square is as good as constant: the rest is rounding."""


def added(parts: Iterable[tuple[int, Sums]]) -> Sums:
    """The sums of all parts, each given with its offset."""
    total = Sums()
    for offset, part in parts:
        total.add(part, offset)
    return total


def figures_of(sums: Sums, compared: int) -> dict[str, Any]:
    """What follows from the sums over ``compared`` pairs, as fields of a comparison's result.

    An error is infinite when a pair is wild; a relative one also when something differs and the reference is zero
    throughout.
    """

    def unless_wild(value: float) -> float:
        return math.inf if sums.wild else value

    def relative(value: float) -> float:
        return math.inf if sums.unequal and not sums.relative_count else unless_wild(value)

    of_reference = (sums.reference_nan, sums.reference_inf, sums.reference_neg_inf)
    of_candidate = (sums.candidate_nan, sums.candidate_inf, sums.candidate_neg_inf)
    any_finite = max(sum(of_reference), sum(of_candidate)) < compared  # else no pair could be correlated
    return {
        "max_absolute_error": unless_wild(sums.largest),
        "mean_absolute_error": unless_wild(sums.sum / compared),
        "max_relative_error": relative(sums.largest_relative),
        "mean_relative_error": relative(sums.relative_sum / (sums.relative_count or 1)),
        "rmse": unless_wild(math.sqrt(sums.squares / compared)),
        "mismatch_percentage": 100.0 * sums.outside / compared,
        "reference_nonfinite": sum(of_reference),
        "candidate_nonfinite": sum(of_candidate),
        "largest_finite_error": sums.largest,
        "elements": compared,
        "smallest_atol": unless_wild(sums.atol_needed),
        "smallest_rtol": unless_wild(sums.rtol_needed),
        "pcc": _pearson(sums) if any_finite else math.nan,
        "cosine": _cosine(sums) if any_finite else math.nan,
        "signal_to_noise": _signal_to_noise(sums) if any_finite else math.nan,
        "signed_zeros": sums.zeros,
        "reference_nonfinite_kinds": of_reference,
        "candidate_nonfinite_kinds": of_candidate,
    }


def _pearson(sums: Sums) -> float:
    """Pearson's correlation, over the pairs that are finite; NaN where one side is as good as constant.

    From the variance of the error, not of the candidate: so 1 minus it is right where means are large, or it is small.
    """
    if sums.squares == 0:
        return 1.0
    count = sums.finite
    of_error = sums.candidate_sum - sums.reference_sum

    def about_mean(square: float, one: float, other: float) -> float:
        return square - one * other / count

    reference = about_mean(sums.reference_squares, sums.reference_sum, sums.reference_sum)
    candidate = about_mean(sums.candidate_squares, sums.candidate_sum, sums.candidate_sum)
    error = max(0.0, about_mean(sums.squares, of_error, of_error))
    shared = about_mean(sums.products - sums.reference_squares, sums.reference_sum, of_error)
    if not (reference > _CONSTANT * sums.reference_squares and candidate > _CONSTANT * sums.candidate_squares):
        return math.nan
    unexplained = (reference * error - shared * shared) / (reference * candidate)
    return math.copysign(math.sqrt(1.0 - max(0.0, min(1.0, unexplained))), reference + shared)


def _cosine(sums: Sums) -> float:
    """The cosine of the angle between the two, over the pairs that are finite; two zeros point the same way."""
    size = math.sqrt(sums.reference_squares) * math.sqrt(sums.candidate_squares)
    if size == 0:
        return 1.0 if sums.reference_squares == sums.candidate_squares else 0.0
    return max(-1.0, min(1.0, sums.products / size)) if math.isfinite(size) else math.nan


def _signal_to_noise(sums: Sums) -> float:
    """Decibels of the reference over the error, over the pairs that are finite; infinite without an error."""
    signal, noise = sums.reference_squares, sums.squares
    if noise == 0:
        return math.inf
    if signal == 0:
        return -math.inf
    return 10 * (math.log10(signal) - math.log10(noise)) if math.isfinite(signal + noise) else math.nan
