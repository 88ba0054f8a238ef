"""What rounding can do at each element of a value: its floor.

A floor is made of a few runs under stochastic arithmetic
(:class:`~inductor_debug_jupyter.pipeline.torch_compat.stochastic.StochasticArithmetic`), and is the largest deviation
that they show at that element. Where a few runs happen to agree too well, the floor is raised to half a unit in the
last place of the element, and to what is usual among the value's elements of like size (within a factor of eight) that
move at all. An element that does not move in any run has a quarter of a unit: next to it noise means nothing.

Elements whose kind changes from run to run (finite, infinite, NaN), and whole numbers that change, are *unstable*:
rounding alone decides them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch

RUNS: Final = 4
"""So many runs under stochastic arithmetic."""
_SAMPLED: Final = 1 << 16
"""What is usual among elements of like size is told from at most so many elements."""
_OCTAVES: Final = 3
_OF_STILL: Final = 0.25
"""Units in the last place that are the floor of an element that no run moves."""
_JUMP: Final = 16.0
"""An element that moves so many times further than louder noise explains has jumped."""
_ENOUGH: Final = 8
"""So many elements of like size must there be to tell what is usual among them."""


@dataclass(eq=False)
class Spread:
    """How far runs are from ``base``, element by element; fed one run after the other.

    Attributes:
        base: the value as it is without noise.
        largest: the largest deviation seen; None for whole numbers and truth values.
        unstable: where the kind, or a whole number, has changed; None while nothing has.
        runs: how many runs were added.
        low: the least that was seen, element by element, NaN aside; None before the first run.
        high: the most, likewise.
        was_nan: where some run, or the base, is NaN; None while nothing is.
    """

    base: torch.Tensor
    largest: torch.Tensor | None = None
    unstable: torch.Tensor | None = None
    runs: int = 0
    low: torch.Tensor | None = None
    high: torch.Tensor | None = None
    was_nan: torch.Tensor | None = None

    def add(self, run: Any) -> bool:
        """Take one more run into account; False when it has another shape, which says nothing."""
        if not isinstance(run, torch.Tensor) or run.shape != self.base.shape:
            return False
        base, run = parts(self.base), parts(run).to(self.base.device)
        self.runs += 1
        self._stretch(base, run)
        if not base.is_floating_point():
            self._mark(base != run)
            return True
        finite = base.isfinite() & run.isfinite()
        off = torch.where(finite, (run.double() - base.double()).abs(), 0.0)
        self.largest = off if self.largest is None else torch.maximum(self.largest, off)
        if not bool(finite.all()):
            same = (base == run) | (base.isnan() & run.isnan())
            self._mark(~finite & ~same)
        return True

    def add_loud(self, run: Any, loudness: float, floor: torch.Tensor | None) -> None:
        """Take a run with louder noise into account: what moves as much as the noise did, and what jumps.

        An element that moves much further than the noise is louder is one that a comparison, a rounding to whole
        numbers or a choice decides: rounding alone can tip it, and it is unstable from then on.
        """
        if not isinstance(run, torch.Tensor) or run.shape != self.base.shape:
            return
        base, run = parts(self.base), parts(run).to(self.base.device)
        self._stretch(base, run)
        if floor is None:
            self._mark(base != run)
            return
        finite = base.isfinite() & run.isfinite()
        same = (base == run) | (base.isnan() & run.isnan())
        off = torch.where(finite, (run.double() - base.double()).abs(), 0.0)
        self._mark((~finite & ~same) | (off > _JUMP * loudness * floor))
        scaled = off / loudness
        self.largest = scaled if self.largest is None else torch.maximum(self.largest, scaled)

    def _stretch(self, base: torch.Tensor, run: torch.Tensor) -> None:
        least, most = (torch.fmin, torch.fmax) if base.is_floating_point() else (torch.minimum, torch.maximum)
        self.low = least(base if self.low is None else self.low, run)
        self.high = most(base if self.high is None else self.high, run)
        if base.is_floating_point():
            nan = base.isnan() | run.isnan()
            self.was_nan = nan if self.was_nan is None else self.was_nan | nan

    def undecided(self, candidate: torch.Tensor, tolerance: torch.Tensor | float) -> torch.Tensor | None:
        """Where rounding alone decides, and the candidate is no further than runs have been; None when nowhere.

        Of two choices that are a tie the candidate may take either, but nothing else. Where runs become NaN it may be
        NaN or infinite; a number must still be one that runs have come to.
        """
        if self.unstable is None or self.low is None or self.high is None:
            return self.unstable
        floats = self.base.is_floating_point() or self.base.is_complex()
        low, high = (self.low - tolerance, self.high + tolerance) if floats else (self.low, self.high)
        explained = (candidate >= low) & (candidate <= high)
        if floats and self.was_nan is not None:
            explained |= self.was_nan & ~candidate.isfinite()
        return self.unstable & explained

    def _mark(self, where: torch.Tensor) -> None:
        self.unstable = where if self.unstable is None else self.unstable | where

    def floor(self, held_as: torch.dtype | None = None) -> torch.Tensor:
        """What rounding can do at each element, in float64; only for floats and complex numbers."""
        size = parts(self.base).abs().to(torch.float64)
        size = torch.where(size.isfinite(), size, 0.0)
        ulp = size * unit(self.base.dtype, held_as)
        quanta = quantum(self.base.dtype, held_as)
        if self.largest is None:
            return torch.clamp_min(ulp / 2, quanta)
        still = torch.clamp_min(ulp * _OF_STILL, quanta)
        moving = torch.maximum(torch.clamp_min(ulp / 2, quanta), _usual(size, self.largest))
        return torch.where(self.largest > 0, torch.maximum(self.largest, moving), still)


def parts(value: torch.Tensor) -> torch.Tensor:
    """The tensor, detached; the real and imaginary parts of a complex one, which are judged each by itself.

    Float8, which torch has no arithmetic for, is widened.
    """
    value = value.detach()
    if value.is_floating_point() and value.element_size() == 1:
        return value.float()
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def unit(dtype: torch.dtype, held_as: torch.dtype | None = None) -> float:
    """The unit in the last place of 1, in the coarser of the two formats."""
    return max(float(torch.finfo(each).eps) for each in (dtype, held_as) if each is not None)


def quantum(dtype: torch.dtype, held_as: torch.dtype | None = None) -> float:
    """The smallest number above zero, in the coarser of the two formats: what numbers near zero are rounded to."""
    formats = [torch.finfo(each) for each in (dtype, held_as) if each is not None]
    return max(float(each.smallest_normal) * float(each.eps) for each in formats)


def _usual(size: torch.Tensor, largest: torch.Tensor) -> torch.Tensor:
    """For each element the median deviation among those of like size that deviate, as far as there are enough."""
    sizes, deviations = size.reshape(-1), largest.reshape(-1)
    usual = torch.zeros_like(sizes)
    if len(sizes) < _ENOUGH:
        return usual.view(size.shape)
    step = max(1, len(sizes) // _SAMPLED)
    bands = _band(sizes)
    some_bands, some = bands[::step], deviations[::step]
    moving = some > 0
    for band in torch.unique(some_bands[moving]).tolist():
        chosen = some[moving & (some_bands == band)]
        if len(chosen) >= _ENOUGH:
            usual = torch.where(bands == band, float(chosen.median()), usual)
    return usual.view(size.shape)


def _band(sizes: torch.Tensor) -> torch.Tensor:
    """Powers of two, a few to a band."""
    _, exponents = torch.frexp(sizes)
    return torch.div(exponents, _OCTAVES, rounding_mode="floor")


@dataclass(eq=False)
class Floors:
    """The spreads of several values by name, and what kept a run from counting."""

    spreads: dict[str, Spread] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, base: Mapping[str, Any], again: Callable[[int], Mapping[str, Any]], seeds: Iterable[int] = range(RUNS)
    ) -> Floors:
        """Run once for each seed, under stochastic arithmetic, and see how far the values are from ``base``.

        Args:
            base: the values without noise.
            again: seed → the values of a run with that noise; what it raises is kept as a problem.
            seeds: which runs.
        """
        floors = cls({name: Spread(value) for name, value in base.items() if isinstance(value, torch.Tensor)})
        for seed in seeds:
            try:
                values = again(seed)
            except Exception as error:  # whatever the user's model raises on other numbers
                first = (str(error).splitlines() or [""])[0]
                floors.problems.append(f"{type(error).__name__}: {first}")
                continue
            for name, spread in floors.spreads.items():
                spread.add(values.get(name))
        return floors
