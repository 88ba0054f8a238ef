"""What rounding can do at each element of a value: its floor.

A floor is made of a few runs under stochastic arithmetic
(:class:`~inductor_debug_jupyter.pipeline.torch_compat.stochastic.StochasticArithmetic`), and is the largest deviation
that they show at that element. Where a few runs happen to agree too well, the floor is raised to

- half a unit in the last place of the element, and
- what is usual among the value's elements of like size (within a factor of eight). Zeros count with the smallest
  elements that there are: a ``relu`` makes zeros of numbers that are a rounding away from being positive.

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
    """

    base: torch.Tensor
    largest: torch.Tensor | None = None
    unstable: torch.Tensor | None = None
    runs: int = 0

    def add(self, run: Any) -> bool:
        """Take one more run into account; False when it has another shape, which says nothing."""
        if not isinstance(run, torch.Tensor) or run.shape != self.base.shape:
            return False
        base, run = self.base.detach(), run.detach().to(self.base.device)
        self.runs += 1
        if not (base.is_floating_point() or base.is_complex()):
            self._mark(base != run)
            return True
        finite = base.isfinite() & run.isfinite()
        off = torch.where(finite, (run.to(_wide(base)) - base.to(_wide(base))).abs(), 0.0)
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
        base, run = self.base.detach(), run.detach().to(self.base.device)
        if floor is None:
            self._mark(base != run)
            return
        finite = base.isfinite() & run.isfinite()
        same = (base == run) | (base.isnan() & run.isnan())
        off = torch.where(finite, (run.to(_wide(base)) - base.to(_wide(base))).abs(), 0.0)
        self._mark((~finite & ~same) | (off > _JUMP * loudness * floor))
        scaled = off / loudness
        self.largest = scaled if self.largest is None else torch.maximum(self.largest, scaled)

    def _mark(self, where: torch.Tensor) -> None:
        self.unstable = where if self.unstable is None else self.unstable | where

    def floor(self, held_as: torch.dtype | None = None) -> torch.Tensor:
        """What rounding can do at each element, in float64; only for floats and complex numbers."""
        size = self.base.detach().abs().to(torch.float64)
        size = torch.where(size.isfinite(), size, 0.0)
        least = torch.clamp_min(size * (0.5 * unit(self.base.dtype, held_as)), quantum(self.base.dtype, held_as))
        if self.largest is None:
            return least
        largest = self.largest.to(torch.float64)
        return torch.maximum(torch.maximum(largest, least), _usual(size, largest))


def unit(dtype: torch.dtype, held_as: torch.dtype | None = None) -> float:
    """The unit in the last place of 1, in the coarser of the two formats."""
    return max(float(torch.finfo(each).eps) for each in (dtype, held_as) if each is not None)


def quantum(dtype: torch.dtype, held_as: torch.dtype | None = None) -> float:
    """The smallest number above zero, in the coarser of the two formats: what numbers near zero are rounded to."""
    formats = [torch.finfo(each) for each in (dtype, held_as) if each is not None]
    return max(float(each.smallest_normal) * float(each.eps) for each in formats)


def _wide(value: torch.Tensor) -> torch.dtype:
    return torch.complex128 if value.is_complex() else torch.float64


def _usual(size: torch.Tensor, largest: torch.Tensor) -> torch.Tensor:
    """For each element the median deviation among those of like size, as far as there are enough that deviate."""
    sizes, deviations = size.reshape(-1), largest.reshape(-1)
    if len(sizes) < _ENOUGH:
        return torch.zeros_like(size)
    step = max(1, len(sizes) // _SAMPLED)
    bands = _band(sizes)
    some_bands, some = bands[::step], deviations[::step]
    moving = some > 0
    medians: dict[int, float] = {}
    for band in torch.unique(some_bands[moving]).tolist():
        chosen = some[moving & (some_bands == band)]
        if len(chosen) >= _ENOUGH:
            medians[int(band)] = float(chosen.median())
    if not medians:
        return torch.zeros_like(size)
    nothing = _band(torch.zeros(1, dtype=torch.float64))[0]
    smallest = medians[min(each for each in medians)]
    usual = torch.zeros_like(sizes)
    for band, median in medians.items():
        usual = torch.where(bands == band, median, usual)
    return torch.where(bands == nothing, smallest, usual).view(size.shape)


def _band(sizes: torch.Tensor) -> torch.Tensor:
    """Powers of two, a few to a band; zero has a band of its own, below all others."""
    _, exponents = torch.frexp(sizes)
    bands = torch.div(exponents, _OCTAVES, rounding_mode="floor")
    return torch.where(sizes == 0, -(1 << 20), bands)


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
