"""Bug or rounding, for one value: a policy, the same for every op, kernel, dtype and run.

A candidate's value is measured against float64, and so is everything that rounding alone can do: the same ops run
eagerly in the value's own dtype, in the device's format if that is narrower, and in float64 from inputs that are each
off by one rounding. The largest of these is the noise. A value is wrong when it is further from float64 than
:data:`MARGIN` times the noise plus a few roundings of its largest element; or, over the whole tensor, when its root
mean square error is beyond :data:`MARGIN` times the noise's plus half as much. A few roundings are :data:`ROUNDINGS` of
the value's format, and :data:`LIBRARY` of float32: vector libraries differ by that much in what they call ``erf``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from inductor_debug_jupyter.pipeline.diff.elements import unravel

MARGIN: Final = 4.0
ROUNDINGS: Final = 2.0
LIBRARY: Final = 16.0
WHOLE_NUMBERS: Final = 1e-3
"""Of integers and truth values, so many may differ that follow from rounded numbers, beside :data:`MARGIN` times the
share that differs anyway."""

_SINGLE: Final = float(torch.finfo(torch.float32).eps)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found of one value.

    Attributes:
        wrong: whether rounding does not explain it.
        error: how far it is from float64, relative to the largest element.
        allowed: how far it may be, likewise.
        index: where the worst element is.
        expected: what float64 says there.
        found: what is there.
    """

    wrong: bool
    error: float
    allowed: float
    index: tuple[int, ...] = ()
    expected: float | None = None
    found: float | None = None


def judge(
    candidate: torch.Tensor, exact: torch.Tensor, samples: Sequence[torch.Tensor], held_as: torch.dtype | None = None
) -> Judgement:
    """Judge one value; ``samples`` are what rounding makes of it."""
    samples = [sample for sample in samples if sample.shape == exact.shape]
    if not candidate.numel():
        return Judgement(False, 0.0, 0.0)
    if candidate.is_complex():
        parts = [torch.view_as_real(each.to(torch.complex128)) for each in (candidate, exact, *samples)]
        return _judge_floats(parts[0], parts[1], parts[2:], _eps(candidate.dtype, held_as))
    if not candidate.is_floating_point():
        return _judge_whole(candidate, exact, samples)
    return _judge_floats(candidate.double(), exact, samples, _eps(candidate.dtype, held_as))


def _eps(*dtypes: torch.dtype | None) -> float:
    return max(float(torch.finfo(dtype).eps) for dtype in dtypes if dtype is not None)


def _judge_whole(candidate: torch.Tensor, exact: torch.Tensor, samples: Sequence[torch.Tensor]) -> Judgement:
    unequal = candidate != exact
    share = float(unequal.double().mean())
    noise = max((float((sample != exact).double().mean()) for sample in samples), default=0.0)
    allowed = MARGIN * noise + WHOLE_NUMBERS
    at = unravel(int(unequal.reshape(-1).byte().argmax()), tuple(candidate.shape)) if share else ()
    values = (float(exact[at]), float(candidate[at])) if share else (None, None)
    return Judgement(share > allowed, share, allowed, at, *values)


def _judge_floats(
    candidate: torch.Tensor, exact: torch.Tensor, samples: Sequence[torch.Tensor], eps: float
) -> Judgement:
    exact = exact.double()
    finite = exact.isfinite()
    for sample in samples:  # where rounding alone overflows, nothing is known
        finite &= sample.isfinite()
    wanted = exact.masked_fill(~finite, 0.0)
    scale, power = float(wanted.abs().max()), _rms(wanted)
    errors = [(each.double() - exact).abs_().masked_fill_(~finite, 0.0) for each in (candidate, *samples)]
    if not bool(errors[0].isfinite().all()):
        at = unravel(int((~errors[0].isfinite()).reshape(-1).byte().argmax()), tuple(exact.shape))
        return Judgement(True, math.inf, 0.0, at, float(exact[at]), float(candidate[at]))
    error, place = errors[0].reshape(-1).max(0)
    noise = max((float(each.max()) for each in errors[1:]), default=0.0)
    few = ROUNDINGS * eps + LIBRARY * min(eps, _SINGLE)
    allowed = MARGIN * noise + few * scale
    rms_noise = max((_rms(each) for each in errors[1:]), default=0.0)
    rms, rms_allowed = _rms(errors[0]), MARGIN * rms_noise + few / 2 * power
    at = unravel(int(place), tuple(exact.shape))
    wrong = float(error) > allowed or rms > rms_allowed
    size = scale or 1.0
    figures = (float(error) / size, allowed / size)
    if wrong and float(error) <= allowed:
        figures = (rms / (power or 1.0), rms_allowed / (power or 1.0))
    return Judgement(wrong, *figures, at, float(exact[at]), float(candidate[at]))


def _rms(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values)) / math.sqrt(values.numel())
