"""Recognise a device's arithmetic from what it made of single ops.

One op on known inputs tells far more than a whole model: with the right formats every element of its result is
predicted, not only the size of the error. So each sample (:class:`OpSample`) rules out every known arithmetic whose
prediction it does not meet, and an arithmetic is named only when it is the one that is left after all samples. When
nothing or more than one is left, the answer is "not known", and says between which.

- A result with wide sums is predicted to the last bit of its format, but for ties of the sum's own rounding: nearly
  all elements must be equal (:data:`_UNEQUAL`), and none further than two units off.
- A result with narrow sums depends on the order of the sum, and of a model's values only the size of its error is
  predicted (:data:`_SIZES`), which other arithmetics share, and faults. So such sums are named only where inputs that
  were designed for it (:mod:`designed_inputs`) show them: the operands' formats where nothing is added up, and the loss
  of small terms where everything else is exact. Whole numbers must come out exact on every device, or it is faulty.
- A sample says nothing about arithmetics that predict the same for it. An op that is no product and is wrong in all of
  them has a fault. One that only another arithmetic explains is computed in another one: then no one is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.formats.arithmetic import KNOWN, OPERANDS, Arithmetic
from inductor_debug_jupyter.pipeline.formats.designed_inputs import Design
from inductor_debug_jupyter.pipeline.formats.rounding import NARROW, is_held_in, rounded, unit
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import bare_op, rounds_nothing
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors
from inductor_debug_jupyter.pipeline.words import count

_UNEQUAL: Final = 0.05
"""Share of the elements that the right arithmetic may miss by a tie; two of them in any case."""
_LIKE_FLOAT32: Final = 16.0
"""Units of float32, for each root of the number of terms, by which two float32 sums may differ."""
_SIZES: Final = (0.1, 4.0)
"""A narrow sum's error over that of a narrow sum taken in blocks of eight terms (one by one it is √8 of it)."""
_DIRECTION: Final = 0.5
"""The largest correlation of a narrow sum's error with its result."""
_NAMED: Final = 3
"""So many arithmetics that are not told apart are named."""
_FEWEST: Final = 32
"""Elements that a sample must have to be looked at."""
_BIAS: Final = {"addmm": 0, "baddbmm": 0, "convolution": 2, "linear": 2}
"""Op → the argument that is added to its product."""
_MAY_OVERFLOW: Final = float(torch.finfo(torch.float16).max) / 4
"""Larger results may be infinite on a healthy device."""


@dataclass(frozen=True, slots=True, eq=False)
class OpSample:
    """One op: its function, its inputs, and the result that the device gave.

    ``design`` is how the inputs were designed; empty for the model's own.
    """

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: torch.Tensor
    design: Design | None = None

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
    evidence = _Evidence(tuple(known), list(known))
    for sample in filter(_says_something, samples):
        if contradiction := evidence.add(sample):
            return Recognition(None, contradiction, tuple(evidence.lines))
    return evidence.answer()


@dataclass(slots=True)
class _Evidence:
    """What the samples so far leave.

    Attributes:
        known: the arithmetics to choose from.
        left: those that explain all samples.
        lines: sample → what explains it, in words.
        wrong: ops that nothing explains.
        products: how many samples were products.
        shown: whether a sample shows narrow sums, or that sums are not narrow.
    """

    known: tuple[Arithmetic, ...]
    left: list[Arithmetic]
    lines: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    products: int = 0
    shown: bool = False

    def add(self, sample: OpSample) -> str:
        """Take a sample into account; returns why no arithmetic can explain them all, or nothing."""
        explaining = _explaining(self.left, sample)
        what = f"{sample.name} of designed inputs ({sample.design})" if sample.design else sample.name
        if explaining:
            self.lines.append(f"{what}: {', '.join(map(str, explaining))}")
            self.left = explaining
            self.products += sample.is_product
            self.shown |= sample.design == "sums"
            return ""
        if others := _explaining(self.known, sample):
            return f"{what} looks like {_either(others)}, and what was seen before like {_either(self.left)}"
        if sample.is_product:
            return f"no known arithmetic explains {what}"
        self.wrong.append(sample.name)  # an op that is wrong in any arithmetic says nothing about products
        return ""

    def answer(self) -> Recognition:
        """What all samples say together."""
        found, lines = self.left[0], tuple(self.lines)
        if not self.products:
            return Recognition(None, "no product of enough elements was seen", lines)
        if not all(_is_like(each, found) for each in self.left[1:]):
            return Recognition(None, f"the samples do not tell {_either(self.left)} apart", lines)
        if found.sums == "narrow" and not self.shown:
            return Recognition(None, f"the errors have the size of {found}, but no sample shows such sums", lines)
        return Recognition(found, "", lines, tuple(self.wrong))


def _is_like(one: Arithmetic, other: Arithmetic) -> bool:
    """Whether two differ in details alone, or in what only ops that are no products would show.

    Where products alone were seen, results may be rounded throughout or not; ``other`` is then the former, which allows
    more.
    """
    plain, found = (replace(each, before_bias=False, flushes=False, rounds_products=False) for each in (one, other))
    return plain == found or (one.rounds_products and replace(plain, results=one.operands) == found)


def _either(several: Sequence[Arithmetic]) -> str:
    others = len(several) - _NAMED
    return " or ".join([*map(str, several[:_NAMED]), *([count(others, "other")] if others > 0 else [])])


def _explaining(possible: Sequence[Arithmetic], sample: OpSample) -> list[Arithmetic]:
    """Those that explain a sample. Of a narrow sum only the size is predicted, so it counts where a wide one fails."""
    if not sample.is_product or sample.design in {"whole", "single"}:  # nothing is rounded in the sum
        return [each for each in possible if _explains(each, sample)]
    explaining = [each for each in possible if each.sums == "wide" and _explains(each, sample)]
    narrow = [each for each in possible if each.sums == "narrow"]
    if sample.design == "sums":
        return explaining or [each for each in narrow if _loses_ones(each, sample)]
    return explaining + [
        each for each in narrow if _has_size_of_narrow_sum(each, sample, wide_explains=bool(explaining))
    ]


def _says_something(sample: OpSample) -> bool:
    """Whether a sample has enough numbers, and ones that every healthy device has some of."""
    result = sample.result
    if result.dtype is not torch.float32 or result.numel() < _FEWEST:
        return False
    try:
        exact = _predicted(Arithmetic(), sample)
    except (RuntimeError, NotImplementedError):  # an op that has no float64 kernel
        return bool(result.isfinite().all()) and bool((result != 0).any())
    ordinary = bool(exact.isfinite().all()) and float(exact.abs().amax()) < _MAY_OVERFLOW
    return (ordinary or bool(result.isfinite().all())) and bool((exact != 0).any())


def _explains(arithmetic: Arithmetic, sample: OpSample) -> bool:
    """Whether a device of that arithmetic would have given this result, its inputs and bias rounded first or not."""
    if arithmetic.rounds_products:
        ways = [arithmetic.of(sample.name)]
        if arithmetic.before_bias and sample.name == "convolution" and _has_bias(sample):  # often one kernel, with it
            ways.append(replace(arithmetic, rounds_products=False))
        return any(_explains(way, sample) for way in ways)
    if rounds_nothing(sample.func, sample.args):
        return _has_moved(arithmetic, sample)
    if arithmetic.results in NARROW and not is_held_in(sample.result, arithmetic.results):
        return False
    try:
        return any(_predicts(arithmetic, sample, _predicted(arithmetic, sample, held)) for held in (True, False))
    except (RuntimeError, NotImplementedError):  # an op that has no float64 kernel
        return True


def _has_moved(arithmetic: Arithmetic, sample: OpSample) -> bool:
    """Whether an op that only moves, selects or compares did so, with numbers as they are or as the device has them."""
    given = (sample.args, map_tensors(lambda value: rounded(value, arithmetic.results), sample.args))
    return any(torch.equal(_first(sample.func(*args, **sample.kwargs)), sample.result) for args in given)


def _predicts(arithmetic: Arithmetic, sample: OpSample, predicted: torch.Tensor) -> bool:
    """Whether a prediction is the sample's result, as far as ties and float32 leave it open."""
    result = sample.result.double()
    if predicted.shape != result.shape:
        return True
    error = (result - predicted).abs()
    allowance = _float32_allowance(sample, predicted)
    early = arithmetic.before_bias and sample.is_product
    if early:  # a product that lies between two numbers may go either way, whatever the bias then leaves of it
        allowance = allowance + unit(predicted.abs() + _bias_of(sample), arithmetic.operands)
    if arithmetic.results in NARROW:
        near = error <= allowance + 2 * unit(predicted, arithmetic.results)
        return _nearly_all(error == 0) and bool(near.all())
    exactly = error <= _float32_allowance(sample, predicted)
    return (_nearly_all(exactly) if early else bool(exactly.all())) and bool((error <= allowance).all())


def _bias_of(sample: OpSample) -> float:
    """The largest number of the bias that is added to a product; 0 where there is none."""
    return float(sample.args[_BIAS[sample.name]].abs().max()) if _has_bias(sample) else 0.0


def _has_bias(sample: OpSample) -> bool:
    at = _BIAS.get(sample.name)
    bias = sample.args[at] if at is not None and at < len(sample.args) else None
    return isinstance(bias, torch.Tensor) and bias.numel() > 0


def _nearly_all(true: torch.Tensor) -> bool:
    return int((~true).sum()) <= max(2, _UNEQUAL * true.numel())


def _predicted(arithmetic: Arithmetic, sample: OpSample, held: bool = True) -> torch.Tensor:
    """The result in float64 arithmetic but for the roundings of the device.

    Operands are rounded before they are widened: a scale that is divided by in float64 rounds some numbers otherwise.

    ``held``: what it reads is rounded to the format of its results first, where that is not an operand of a product.
    """
    wide = replace(arithmetic, sums="wide")
    places = [at for at in OPERANDS.get(sample.name, ()) if at < len(sample.args)]
    given = [
        wide.operand(sample.name, at, value) if at in places and isinstance(value, torch.Tensor) else value
        for at, value in enumerate(sample.args)
    ]
    args, kwargs = map_tensors(_widened, (tuple(given), sample.kwargs))
    operands = {id(args[at]) for at in places}
    return _first(
        wide.compute(sample.func, args, kwargs, lambda value: not held and id(value) not in operands)
    ).double()


def _first(made: Any) -> torch.Tensor:
    """The first result of an op."""
    return made[0] if isinstance(made, tuple | list) else made  # type: ignore[no-any-return]


def _widened(value: torch.Tensor) -> torch.Tensor:
    return value.double() if value.is_floating_point() else value


def _float32_allowance(sample: OpSample, predicted: torch.Tensor) -> torch.Tensor:
    """How far two float32 results of the op may be apart, element by element."""
    eps = torch.finfo(torch.float32).eps
    size = predicted.abs()
    if sample.is_product:
        args, kwargs = map_tensors(lambda value: _widened(value).abs(), (sample.args, sample.kwargs))
        size = torch.maximum(size, _first(sample.func(*args, **kwargs)).double().abs())
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
    narrow = _first(arithmetic.compute(sample.func, sample.args, sample.kwargs))
    usual = float((narrow.double() - exact).square().mean().sqrt())
    if wide_explains:
        rounding = float((unit(exact, arithmetic.results).square().mean() / 12).sqrt())
        return usual <= 1.5 * rounding
    if _nearly_all(narrow.double() == result):
        return True
    return _is_of_size(error, usual) and abs(_correlation(error, exact)) <= _DIRECTION


def _loses_ones(arithmetic: Arithmetic, sample: OpSample) -> bool:
    """Whether a sum of whole numbers whose parts are large came out as another whole number, as far off as expected."""
    result, exact = sample.result.double(), _predicted(Arithmetic(), sample)
    narrow = _first(arithmetic.compute(sample.func, sample.args, sample.kwargs)).double()
    usual = float((narrow - exact).square().mean().sqrt())
    return usual > 0 and bool((result == result.round()).all()) and _is_of_size(result - exact, usual)


def _is_of_size(error: torch.Tensor, usual: float) -> bool:
    low, high = _SIZES
    return low * usual <= float(error.square().mean().sqrt()) <= high * usual


def _correlation(first: torch.Tensor, second: torch.Tensor) -> float:
    one, other = (each.flatten() - each.mean() for each in (first, second))
    return float(one @ other / (one.norm() * other.norm()).clamp_min(1e-300))
