"""Bug or rounding, for one value: a policy, the same for every op, kernel, output, dtype and run.

Each element of a candidate is held against the reference's, and their distance against the floor there: what rounding
can do at that very element (:mod:`floors`). So a mask of -1e9 hides nothing beside it, and numbers of 1e-6 are judged
as strictly as numbers of 1. A value is wrong when

- one element is further off than :data:`MARGIN` floors, or
- over the whole value, the root mean square of the distances is more than :data:`MARGIN_OF_MANY` floors, or
- one element is of another kind (finite, infinite, NaN) where rounding does not decide the kind, or
- one whole number or truth value is another where rounding does not decide it.

What is wrong in few places is looked at twice (:func:`confirm`). In a 16-bit format a factor of 1.02 on every element
is within the floor of each: :func:`judge_common_factor` looks at all of them together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.diff.elements import unravel
from inductor_debug_jupyter.pipeline.diff.floors import Spread, parts
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import StochasticArithmetic, WideArithmetic

MARGIN: Final = 8.0
"""One element may be so many floors off: a floor is seen in a few runs, and the tail of rounding is long."""
MARGIN_OF_MANY: Final = 3.0
"""The root mean square over many elements may be so many floors."""
MARGIN_OF_SUMS: Final = 4.0
"""A sum may be so many floors off on a device that says that it keeps sums in a wider format: it is rounded once."""
_MANY: Final = 16
_FEW: Final = 0.25
"""Floats that are wrong in more than this share of their elements are not looked at twice."""
_LOUDNESS: Final = 4.0
_PAIRS: Final = 8
_IN_VAIN: Final = 2
"""So many pairs in a row that explain no more places end the second look."""
_LOUD_SEED: Final = 1000
_FACTOR_SEED: Final = 2000
LEAST_FACTOR: Final = 0.005
"""A factor that all elements of a value share is looked into from so far beside 1: half a percent."""
MARGIN_OF_FACTOR: Final = 6.0
"""It may be so many times as far from 1 as runs under stochastic arithmetic are, in the root mean square."""
_FURTHER: Final = 1.5
"""So many times as far from float32 as the reference must a candidate be."""
_FACTOR_RUNS: Final = (4, 12)
"""So many runs tell what is usual; those that the first few do not clear are held against all of them."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found of one value.

    Attributes:
        wrong: whether rounding does not explain it.
        error: how far the worst element is off, relative to that element (absolute where it should be 0); for whole
            numbers the share that differs. Infinite where NaN or infinity is not matched.
        allowed: how far it may be, likewise.
        index: where the worst element is.
        expected: what the reference has there.
        found: what the candidate has there.
        floors: the same distance in floors.
        places: how many elements are wrong by themselves.
        factor: what all elements are off by together, where only that is wrong; else 0.
    """

    wrong: bool
    error: float
    allowed: float
    index: tuple[int, ...] = ()
    expected: float | None = None
    found: float | None = None
    floors: float = 0.0
    places: int = 0
    factor: float = 0.0


FINE: Final = Judgement(False, 0.0, 0.0)


def judge(candidate: torch.Tensor, spread: Spread, held_as: torch.dtype | None = None) -> Judgement:
    """Judge one value of the same shape; ``spread`` has the reference's value and what rounding makes of it.

    Args:
        candidate: the value.
        spread: the reference.
        held_as: the format that the candidate's device holds floats in, if it is narrower than their own.
    """
    if candidate.layout != spread.base.layout:
        return Judgement(True, math.inf, 0.0)
    reference = parts(spread.base)
    candidate = parts(candidate).to(reference.device)
    if not candidate.numel():
        return FINE
    if not reference.is_floating_point():
        undecided = spread.undecided(candidate, 0.0)
        return _judge_whole(candidate, reference, None if undecided is None else ~undecided)
    same = (candidate == reference) | (candidate.isnan() & reference.isnan())
    if bool(same.all()):
        return FINE
    finite = candidate.isfinite() & reference.isfinite()
    strange = ~finite & ~same
    floor = spread.floor(held_as)
    undecided = spread.undecided(candidate, MARGIN * floor)
    if undecided is not None:
        if held_as is None:  # torch's formats overflow to infinity: their largest number in its place was put there
            undecided &= ~(reference.isinf() & (candidate.abs() == torch.finfo(reference.dtype).max))
        strange &= ~undecided
        finite &= ~undecided
    if bool(strange.any()):
        at = unravel(int(strange.reshape(-1).byte().argmax()), tuple(reference.shape))
        values = _number(reference[at]), _number(candidate[at])
        return Judgement(True, math.inf, 0.0, at, *values, math.inf, int(strange.sum()))
    return _judge_floats(candidate, reference, floor, finite)


def _judge_whole(candidate: torch.Tensor, reference: torch.Tensor, steady: torch.Tensor | None) -> Judgement:
    unequal = candidate != reference
    explained = 0.0 if steady is None else float((unequal & ~steady).double().mean())
    share = float(unequal.double().mean())
    if steady is not None:
        unequal = unequal & steady
    if not bool(unequal.any()):
        return Judgement(False, share, explained)
    at = unravel(int(unequal.reshape(-1).byte().argmax()), tuple(reference.shape))
    values = _number(reference[at]), _number(candidate[at])
    return Judgement(True, share, explained, at, *values, math.inf, int(unequal.sum()))


def _judge_floats(
    candidate: torch.Tensor, reference: torch.Tensor, floor: torch.Tensor, finite: torch.Tensor
) -> Judgement:
    error = torch.where(finite, (candidate.double() - reference.double()).abs(), 0.0)
    ratio = error / floor
    worst, place = ratio.reshape(-1).max(0)
    many = float(torch.linalg.vector_norm(ratio)) / math.sqrt(ratio.numel()) if ratio.numel() >= _MANY else 0.0
    at = unravel(int(place), tuple(reference.shape))
    size = float(reference[at].abs()) or 1.0
    margin = MARGIN if float(worst) > MARGIN or many <= MARGIN_OF_MANY else MARGIN_OF_MANY
    wrong = float(worst) > MARGIN or many > MARGIN_OF_MANY
    return Judgement(
        wrong,
        float(error[at]) / size,
        margin * float(floor[at]) / size,
        at,
        _number(reference[at]),
        _number(candidate[at]),
        float(worst) if margin == MARGIN else many,
        int((ratio > MARGIN).sum()),
    )


def as_sum_rounded_once(found: Judgement) -> Judgement:
    """The judgement of a sum that is kept in a wider format than its result: wrong from :data:`MARGIN_OF_SUMS` on."""
    if found.wrong or found.floors <= MARGIN_OF_SUMS:
        return found
    return replace(found, wrong=True, allowed=found.allowed * MARGIN_OF_SUMS / MARGIN)


def confirm(
    judged: dict[str, Judgement],
    candidate: Mapping[str, torch.Tensor],
    spreads: Mapping[str, Spread],
    held_as: torch.dtype | None,
    again: Callable[[StochasticArithmetic], Mapping[str, Any]],
    multiplied_as: torch.dtype | None = None,
) -> None:
    """Look twice at what is wrong in few places: rounding may be all that decides these.

    A handful of runs may miss that a comparison or a choice is a tie. So the model runs again with louder noise, one
    way and the other, as long as that explains more of the places that are wrong. Judgements are replaced in place.

    Args:
        judged: what was found, by name.
        candidate: the values.
        spreads: what rounding makes of them; they take in the louder runs.
        held_as: as for :func:`judge`.
        again: runs everything under that noise; what it raises ends the second look.
        multiplied_as: as for :class:`StochasticArithmetic`.
    """
    doubtful = {name: found.places for name, found in judged.items() if is_doubtful(found, spreads[name])}
    floors = {name: _floor(spreads[name], held_as) for name in doubtful}
    pair = in_vain = 0
    while doubtful and pair < _PAIRS and in_vain < _IN_VAIN:
        runs = _loud_runs(again, pair, held_as, multiplied_as)
        for name in doubtful:
            _add_loud(spreads[name], name, runs, floors[name])
            judged[name] = judge(candidate[name], spreads[name], held_as)
        pair, in_vain = pair + 1, 0 if _are_fewer(judged, doubtful) else in_vain + 1
        doubtful = {name: judged[name].places for name in doubtful if runs and judged[name].wrong}


def judge_common_factor(
    judged: dict[str, Judgement],
    candidate: Mapping[str, torch.Tensor],
    spreads: Mapping[str, Spread],
    again: Callable[[StochasticArithmetic | WideArithmetic], Mapping[str, Any]],
) -> None:
    """Find values that are right element by element, and all off by one factor.

    Rounding's error is as good as random, so over a whole tensor it cancels out. Where it does not (small steps that
    are rounded away one after the other), the reference is off, and the candidate need not be: it must be further
    from float32 than the reference is. What a rounded statistic does to all that it scales is seen in runs under
    stochastic arithmetic. Judgements are replaced in place; a model that cannot be run so leaves them as they are.
    """
    factors = {
        name: _factor(candidate[name], spreads[name].base, spreads[name].unstable)
        for name, found in judged.items()
        if not found.wrong and found.error
    }
    factors = {name: factor for name, factor in factors.items() if abs(factor) >= LEAST_FACTOR}
    try:
        factors = _unlike_float32(factors, candidate, spreads, again) if factors else {}
        allowed = _allowed_factors(factors, spreads, again)
    except Exception:  # whatever a model raises on other numbers or formats: nothing is known of the factor then
        return
    for name, most in allowed.items():
        error = factors[name]
        judged[name] = replace(judged[name], wrong=True, error=abs(error), allowed=most, factor=error)


def _allowed_factors(
    factors: Mapping[str, float],
    spreads: Mapping[str, Spread],
    again: Callable[[StochasticArithmetic | WideArithmetic], Mapping[str, Any]],
) -> dict[str, float]:
    """Of the values whose factor runs under stochastic arithmetic do not explain, the largest that they would."""
    unexplained = dict(factors)
    seen: dict[str, list[float]] = {name: [] for name in factors}
    for first, last in itertools.pairwise((0, *_FACTOR_RUNS)):
        for seed in range(first, last) if unexplained else ():
            run = again(StochasticArithmetic(_FACTOR_SEED + seed))
            for name in unexplained:
                seen[name].append(_factor(run.get(name), spreads[name].base, spreads[name].unstable))
        unexplained = {name: each for name, each in unexplained.items() if abs(each) > _usual(seen[name])}
    return {name: _usual(seen[name]) for name in unexplained}


def _usual(factors: Sequence[float]) -> float:
    """How far from 1 a factor may be, given those of some runs."""
    return MARGIN_OF_FACTOR * math.sqrt(sum(each**2 for each in factors) / len(factors))


def _unlike_float32(
    factors: Mapping[str, float],
    candidate: Mapping[str, torch.Tensor],
    spreads: Mapping[str, Spread],
    again: Callable[[StochasticArithmetic | WideArithmetic], Mapping[str, Any]],
) -> dict[str, float]:
    """The factors of those values that are further from what float32 gives than the reference is."""
    wide = again(WideArithmetic())
    kept = {}
    for name, factor in factors.items():
        theirs = _factor(spreads[name].base, wide.get(name), spreads[name].unstable)
        ours = _factor(candidate[name], wide.get(name), spreads[name].unstable)
        if abs(ours) > max(LEAST_FACTOR, _FURTHER * abs(theirs)):
            kept[name] = factor
    return kept


def _factor(value: Any, reference: Any, unstable: torch.Tensor | None) -> float:
    """By what share of themselves all elements are off together; 0 where too few elements could tell.

    Least squares, in which an element below the median counts the less the smaller it is: it is mostly noise.
    """
    if not isinstance(value, torch.Tensor) or not isinstance(reference, torch.Tensor) or value.shape != reference.shape:
        return 0.0
    reference, value = parts(reference), parts(value)
    if not reference.is_floating_point():
        return 0.0
    reference, value = reference.double(), value.to(reference.device).double()
    counted = reference.isfinite() & value.isfinite() & (reference != 0)
    if unstable is not None:
        counted &= ~unstable
    reference, error = reference[counted], (value - reference)[counted]
    if reference.numel() < _MANY:
        return 0.0
    weights = 1 / (reference.square() + reference.abs().median() ** 2)
    return float((error * reference * weights).sum() / (reference.square() * weights).sum())


def _are_fewer(judged: Mapping[str, Judgement], places: Mapping[str, int]) -> bool:
    return any(judged[name].places < before for name, before in places.items())


def _loud_runs(
    again: Callable[[StochasticArithmetic], Mapping[str, Any]],
    pair: int,
    held_as: torch.dtype | None,
    multiplied_as: torch.dtype | None,
) -> list[Mapping[str, Any]]:
    """Two runs with the same noise, in one of them the other way round; none when the model raises on such numbers."""
    try:
        loud = partial(StochasticArithmetic, multiplied_as=multiplied_as, loudness=_LOUDNESS)
        return [again(loud(_LOUD_SEED + pair, held_as, mirrored=mirrored)) for mirrored in (False, True)]
    except Exception:  # the first look stands then
        return []


def _add_loud(spread: Spread, name: str, runs: Iterable[Mapping[str, Any]], floor: torch.Tensor | None) -> None:
    for run in runs:
        spread.add_loud(run.get(name), _LOUDNESS, floor)


def is_doubtful(found: Judgement, spread: Spread) -> bool:
    """Whether a value is wrong in single places, and not as a whole."""
    if not found.wrong:
        return False
    if not (spread.base.is_floating_point() or spread.base.is_complex()):
        return True
    return 0 < found.places <= _FEW * spread.base.numel()


def _floor(spread: Spread, held_as: torch.dtype | None) -> torch.Tensor | None:
    floats = spread.base.is_floating_point() or spread.base.is_complex()
    return spread.floor(held_as) if floats else None


def _number(value: torch.Tensor) -> float:
    """One element as a float."""
    return float(value.item())
