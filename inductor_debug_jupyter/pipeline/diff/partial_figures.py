"""The figures of a comparison that add up: each part of two tensors has some, and parts are added.

Both ways of going through two tensors (:mod:`native`, :mod:`portable`) fill the same fields, so that what follows from
them does not depend on the way.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_ADDED: Final = (
    *("sum", "squares", "relative_sum", "reference_squares", "candidate_squares", "products"),
    *("unequal", "outside", "wild", "both_nan", "relative_count", "zeros"),
    *("reference_nan", "reference_inf", "reference_neg_inf"),
    *("candidate_nan", "candidate_inf", "candidate_neg_inf"),
)
_LARGEST: Final = ("largest_relative", "atol_needed", "rtol_needed")


class Limits(ctypes.Structure):
    """What counts as equal, as C++ reads it."""

    _fields_ = (("atol", ctypes.c_double), ("rtol", ctypes.c_double), ("equal_nan", ctypes.c_int64))


class Sums(ctypes.Structure):
    """Sums over some pairs of elements. The same fields, in this order, as in ``compare.cpp``.

    ``wild`` are pairs that differ with at least one side NaN or infinite: there is no error that could be summed, so
    they only count. ``zeros`` are pairs of zeros whose signs differ; they are equal. The relative error is summed where
    the reference is not zero. ``atol_needed`` is the smallest absolute tolerance that would do beside the relative one
    in force, ``rtol_needed`` the other way round. ``worst`` and ``first_wild`` are positions; -1 for none.
    """

    _fields_ = (
        *((name, ctypes.c_double) for name in ("sum", "squares", "relative_sum", "largest", "largest_relative")),
        *((name, ctypes.c_double) for name in ("atol_needed", "rtol_needed")),
        *((name, ctypes.c_double) for name in ("reference_squares", "candidate_squares", "products")),
        *((name, ctypes.c_int64) for name in ("unequal", "outside", "wild", "both_nan", "relative_count", "zeros")),
        *((name, ctypes.c_int64) for name in ("reference_nan", "reference_inf", "reference_neg_inf")),
        *((name, ctypes.c_int64) for name in ("candidate_nan", "candidate_inf", "candidate_neg_inf")),
        *((name, ctypes.c_int64) for name in ("worst", "first_wild")),
    )
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


def added(parts: Iterable[tuple[int, Sums]]) -> Sums:
    """The sums of all parts, each given with its offset."""
    total = Sums()
    for offset, part in parts:
        total.add(part, offset)
    return total


@dataclass(frozen=True, slots=True)
class Figures:
    """What follows from the sums over ``compared`` pairs."""

    sums: Sums
    compared: int

    @property
    def worst_position(self) -> int | None:
        """Where the first wild pair is, or else the first largest error; None when nothing differs."""
        at = self.sums.first_wild if self.sums.wild else self.sums.worst
        return None if at < 0 else at

    def unless_wild(self, value: float) -> float:
        """An error, or infinity when somewhere there is none."""
        return math.inf if self.sums.wild else value

    @property
    def mean_absolute_error(self) -> float:
        """The mean error."""
        return self.unless_wild(self.sums.sum / self.compared)

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return self.unless_wild(math.sqrt(self.sums.squares / self.compared))

    @property
    def max_relative_error(self) -> float:
        """The largest relative error; infinite when something differs and the reference is zero throughout."""
        return self._relative(self.sums.largest_relative)

    @property
    def mean_relative_error(self) -> float:
        """The mean relative error; likewise."""
        return self._relative(self.sums.relative_sum / self.sums.relative_count if self.sums.relative_count else 0.0)

    def _relative(self, value: float) -> float:
        nowhere = not self.sums.relative_count and self.sums.unequal
        return math.inf if nowhere else self.unless_wild(value)

    @property
    def mismatch_percentage(self) -> float:
        """How many percent of the elements are outside the tolerance."""
        return 100.0 * self.sums.outside / self.compared

    @property
    def cosine(self) -> float:
        """The cosine of the angle between the two, over the pairs that are finite; two zeros point the same way."""
        sums = self.sums
        size = math.sqrt(sums.reference_squares) * math.sqrt(sums.candidate_squares)
        if size == 0:
            return 1.0 if sums.reference_squares == sums.candidate_squares else 0.0
        return max(-1.0, min(1.0, sums.products / size)) if math.isfinite(size) else math.nan

    @property
    def signal_to_noise(self) -> float:
        """Decibels of the reference over the error, over the pairs that are finite; infinite without an error."""
        signal, noise = self.sums.reference_squares, self.sums.squares
        if noise == 0:
            return math.inf
        if signal == 0:
            return -math.inf
        return 10 * (math.log10(signal) - math.log10(noise)) if math.isfinite(signal + noise) else math.nan
