"""Recognise a device's arithmetic from what it made of single ops.

One op on known inputs tells far more than a whole model: with the right formats every element of its result is
predicted, not only the size of the error. So each sample (:class:`OpSample`) rules out every known arithmetic whose
prediction it does not meet, and what is left after all samples is the answer. When nothing or more than one is left,
the answer is "not known".

- A result with wide sums is predicted to the last bit of its format, but for ties of the sum's own rounding: nearly
  all elements must be equal (:data:`_EQUAL`), and none further than a unit off.
- A result with narrow sums depends on the order of the sum. Its error must have the size that such a sum gives
  (:data:`_SIZES`) and no direction of its own: an error that is proportional to the result is a fault, not rounding.
- A sample says nothing about arithmetics that predict the same for it. Neither does an op that is no product and is
  wrong in all of them, float32 too: that is a fault of the op.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.formats.arithmetic import KNOWN, OPERANDS, Arithmetic
from inductor_debug_jupyter.pipeline.formats.rounding import NARROW, is_held_in, unit
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import bare_op
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors

_EQUAL: Final = 0.9
"""Share of the elements that the right arithmetic predicts to the bit."""
_LIKE_FLOAT32: Final = 16.0
"""Units of float32, for each root of the number of terms, by which two float32 sums may differ."""
_SIZES: Final = (0.1, 4.0)
"""A narrow sum's error over that of a narrow sum taken in blocks of eight terms (one by one it is √8 of it)."""
_DIRECTION: Final = 0.5
"""The largest correlation of a narrow sum's error with its result."""
_FEWEST: Final = 32
"""Elements that a sample must have to be looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class OpSample:
    """One op: its function, its inputs, and the result that the device gave."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: torch.Tensor

    @property
    def name(self) -> str:
        """The op's name without namespace and overload."""
        return bare_op(self.func)

    @property
    def is_product(self) -> bool:
        """Whether the op multiplies and adds up, so that operands and sums have formats of their own."""
        return self.name in OPERANDS


@dataclass(frozen=True, slots=True)
class Recognition:
    """What the samples say.

    Attributes:
        arithmetic: the one that explains all samples; None when it is not known.
        reason: why it is not known; empty when it is.
        explained: sample → the arithmetics that explain it, in words.
        wrong: ops that no arithmetic explains.
    """

    arithmetic: Arithmetic | None
    reason: str = ""
    explained: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    def notes(self, candidate: str) -> list[str]:
        """What to say of a candidate; nothing where it computes as torch does."""
        if self.arithmetic is None:
            return [f"in which arithmetic {candidate} computes is not known: {self.reason}"]
        if self.arithmetic.is_exact:
            return []
        but = f", but no arithmetic explains {', '.join(self.wrong)}" if self.wrong else ""
        return [f"{candidate} does not say how it computes; its single ops look like {self.arithmetic}{but}"]

    def against(self, candidate: str, stated: torch.dtype) -> list[str]:
        """What speaks against the format that a candidate is said to hold numbers in; nothing where nothing does."""
        named = str(stated).removeprefix("torch.")
        if self.arithmetic is None or self.arithmetic.results == named:
            return []
        return [f"{candidate} is said to compute in {named}, but its single ops look like {self.arithmetic}"]


def recognise(samples: Iterable[OpSample], known: Sequence[Arithmetic] = KNOWN) -> Recognition:
    """The arithmetic that explains every sample, if just one does.

    Args:
        samples: single ops that the device ran, of float32 tensors.
        known: the arithmetics to choose from, plainest first.
    """
    left, products = list(known), 0
    lines: list[str] = []
    wrong: list[str] = []
    for sample in filter(_says_something, samples):
        explaining = _explaining(left, sample)
        if not explaining and (sample.is_product or _explains(Arithmetic(), sample)):
            return Recognition(None, f"no known arithmetic explains {sample.name}", tuple(lines))
        if not explaining:  # an op that is wrong in any arithmetic says nothing about products
            wrong.append(sample.name)
            continue
        lines.append(f"{sample.name}: {', '.join(map(str, explaining))}")
        left = explaining
        products += sample.is_product
        if products and left[0].is_exact:  # its products are exact, and devices round those first
            break
    if not products:
        return Recognition(None, "no product of enough elements was seen", tuple(lines))
    if left[0].is_exact or len(left) == 1 or all(replace(each, before_bias=False) == left[0] for each in left):
        return Recognition(left[0], "", tuple(lines), tuple(wrong))
    several = " or ".join(map(str, left))
    return Recognition(None, f"the samples do not tell {several} apart", tuple(lines))


def _explaining(possible: Sequence[Arithmetic], sample: OpSample) -> list[Arithmetic]:
    """Those that explain a sample. Of a narrow sum only the size is predicted, so it counts where a wide one fails."""
    explaining = [each for each in possible if each.sums == "wide" and _explains(each, sample)]
    for each in possible:
        if each.sums != "narrow":
            continue
        if not sample.is_product:
            fits = _explains(each, sample)
        else:
            fits = _has_size_of_narrow_sum(each, sample, wide_explains=bool(explaining))
        explaining += [each] if fits else []
    return explaining


def _says_something(sample: OpSample) -> bool:
    result = sample.result
    return (
        result.dtype is torch.float32
        and result.numel() >= _FEWEST
        and bool(result.isfinite().all())
        and bool((result != 0).any())
    )


def _explains(arithmetic: Arithmetic, sample: OpSample) -> bool:
    """Whether a device of that arithmetic would have given this result, its inputs and bias rounded first or not."""
    if arithmetic.results in NARROW and not is_held_in(sample.result, arithmetic.results):
        return False
    try:
        return any(_predicts(arithmetic, sample, _predicted(arithmetic, sample, held)) for held in (True, False))
    except (RuntimeError, NotImplementedError):  # an op that has no float64 kernel
        return True


def _predicts(arithmetic: Arithmetic, sample: OpSample, predicted: torch.Tensor) -> bool:
    """Whether a prediction is the sample's result, as far as ties and float32 leave it open."""
    result = sample.result.double()
    if predicted.shape != result.shape:
        return True
    error = (result - predicted).abs()
    if arithmetic.results in NARROW:
        units = error / unit(predicted, arithmetic.results)
        return float((error == 0).double().mean()) >= _EQUAL and float(units.max()) <= 2.0
    allowance = _float32_allowance(sample, predicted)
    within = error <= allowance
    if not arithmetic.before_bias or not sample.is_product:
        return bool(within.all())
    tie = unit(predicted, arithmetic.operands)  # a product that lies between two numbers may go either way
    return float(within.double().mean()) >= _EQUAL and bool((error <= allowance + tie).all())


def _predicted(arithmetic: Arithmetic, sample: OpSample, held: bool = True) -> torch.Tensor:
    """The result in float64 arithmetic but for the roundings of the device.

    ``held``: what it reads is rounded to the format of its results first, where that is not an operand of a product.
    """
    wide = replace(arithmetic, sums="wide")
    args, kwargs = map_tensors(_widened, (sample.args, sample.kwargs))
    operands = {id(args[at]) for at in OPERANDS.get(sample.name, ()) if at < len(args)}
    made: Any = wide.compute(sample.func, args, kwargs, lambda value: not held and id(value) not in operands)
    first = made[0] if isinstance(made, tuple | list) else made
    return first.double()  # type: ignore[no-any-return]


def _widened(value: torch.Tensor) -> torch.Tensor:
    return value.double() if value.is_floating_point() else value


def _float32_allowance(sample: OpSample, predicted: torch.Tensor) -> torch.Tensor:
    """How far two float32 results of the op may be apart, element by element."""
    eps = torch.finfo(torch.float32).eps
    size = predicted.abs()
    if sample.is_product:
        args, kwargs = map_tensors(lambda value: _widened(value).abs(), (sample.args, sample.kwargs))
        made: Any = sample.func(*args, **kwargs)
        size = torch.maximum(size, (made[0] if isinstance(made, tuple | list) else made).double().abs())
    else:
        size = torch.maximum(size, size.amax() * 0.1)
    terms = max([1, *(value.shape[-1] for value in sample.args if isinstance(value, torch.Tensor) and value.ndim)])
    return size * (eps * _LIKE_FLOAT32 * math.sqrt(terms) if not sample.is_product else eps * _LIKE_FLOAT32)


def _has_size_of_narrow_sum(arithmetic: Arithmetic, sample: OpSample, *, wide_explains: bool) -> bool:
    """Whether the error is as large as such a sum makes it; where a wide sum explains the result, no larger."""
    result = sample.result.double()
    if not is_held_in(sample.result, arithmetic.results):
        return False
    exact = _predicted(Arithmetic(arithmetic.operands), sample)
    error = result - exact
    made: Any = arithmetic.compute(sample.func, sample.args, sample.kwargs)
    narrow = made[0] if isinstance(made, tuple | list) else made
    usual = float((narrow.double() - exact).square().mean().sqrt())
    if wide_explains:
        rounding = float((unit(exact, arithmetic.results).square().mean() / 12).sqrt())
        return usual <= 1.5 * rounding
    if float((narrow.double() == result).double().mean()) >= _EQUAL:
        return True
    low, high = _SIZES
    seen = float(error.square().mean().sqrt())
    return low * usual <= seen <= high * usual and abs(_correlation(error, exact)) <= _DIRECTION


def _correlation(first: torch.Tensor, second: torch.Tensor) -> float:
    one, other = (each.flatten() - each.mean() for each in (first, second))
    return float(one @ other / (one.norm() * other.norm()).clamp_min(1e-300))
