"""Inputs of a matrix product that tell what a model's own values leave open.

A model's values are rounded in all places at once: operands, partial sums, bias and result. Here all but one is exact:

- ``whole``: -1, 0, 1 and a small bias. Every partial sum is a whole number that every format holds, so every healthy
  device gives the exact result, whatever it computes in. One that does not is faulty.
- ``single``: one number that is not zero in each row of the first operand. Nothing is added up, so the formats of the
  operands and of the result predict each element to the bit, whatever the format and the order of the sum.
- ``sums``: powers of two that cancel, and ones in between. Operands and result are exact in every format; a sum that is
  kept in 16 bits loses the ones while the large numbers are in it, in whatever order it is taken.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import torch

Design = Literal["whole", "single", "sums"]
DESIGNS: Final[tuple[Design, ...]] = ("whole", "single", "sums")
FEWEST_TERMS: Final = 16
"""Terms that a product must add up for ``sums`` to tell anything."""
_OPERANDS: Final[dict[str, int]] = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
"""Op → the place of its first operand; the second follows it, and what is before it is the bias."""
_MOST_ONES: Final = 120
"""So many terms of -1, 0 and 1: with a bias of at most 8 their sum is below 256, up to where bfloat16 is exact."""
_MOST_LARGE: Final = 64
_PEAK: Final = 1 << 14
"""The largest partial sum of large numbers: float16 holds it and, as bfloat16, no ones beside it."""
_MOST_EACH: Final = 1 << 12
_BIAS: Final = 8
_SEED: Final = 20_261_119


def terms_of(name: str, args: tuple[Any, ...]) -> int:
    """How many products are added up to each element of a matrix product's result; 0 where inputs cannot be designed.

    That is so of other ops, and where both operands are the same tensor.
    """
    at = _OPERANDS.get(name)
    if at is None or len(args) != at + 2 or not all(isinstance(each, torch.Tensor) for each in args):
        return 0
    if args[at] is args[at + 1] or (at and any(args[0] is each for each in args[at:])):
        return 0
    terms = args[at].shape[-1]
    return terms if isinstance(terms, int) and args[at].dtype.is_floating_point else 0


def designed_inputs(name: str, args: tuple[Any, ...], design: Design) -> tuple[torch.Tensor, ...]:
    """Tensors in the place of a matrix product's ``args``, of the same shapes, strides and dtypes."""
    at = _OPERANDS[name]
    generator = torch.Generator().manual_seed(_SEED)
    made = {"whole": _whole, "single": _single, "sums": _sums}[design](args[at].shape, args[at + 1].shape, generator)
    values = [*(_bias(each.shape, design, generator) for each in args[:at]), *made]
    return tuple(torch.empty_like(like).copy_(value) for like, value in zip(args, values, strict=True))


def _bias(shape: torch.Size, design: Design, generator: torch.Generator) -> torch.Tensor:
    if design != "whole":
        return torch.zeros(shape)
    return torch.randint(1, _BIAS + 1, shape, generator=generator) * _signs(shape, generator)


def _whole(first: torch.Size, second: torch.Size, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    some = torch.zeros(first[-1])
    some[_spread(torch.arange(first[-1]), _MOST_ONES)] = 1
    return _ternary(first, generator) * some, _ternary(second, generator)


def _single(first: torch.Size, second: torch.Size, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    rows, terms = first[-2:]
    place = torch.nn.functional.one_hot(torch.arange(rows) % terms, terms)
    return _factors(first, generator) * place, _factors(second, generator)


def _sums(first: torch.Size, second: torch.Size, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    terms = first[-1]
    mixed = torch.randperm(terms, generator=generator)  # lanes of a vector unit take every eighth term: no pattern
    half = min(terms // 2, _MOST_LARGE) // 2
    large = mixed[: 2 * half].sort().values
    ones = mixed[2 * half : 2 * half + _MOST_ONES]
    size = min(_MOST_EACH, 1 << int(math.log2(_PEAK / half)))
    column = torch.zeros(terms, 1)
    column[large[:half]], column[large[half:]] = 1, -1
    row = torch.zeros(terms)
    row[large] = size
    is_one = torch.zeros(terms)
    is_one[ones] = 1
    rows = row + _signs(first, generator) * is_one
    columns = (column + _ternary(second, generator) * is_one[:, None]) * _signs(
        (*second[:-2], 1, second[-1]), generator
    )
    return rows, columns


def _spread(places: torch.Tensor, most: int) -> torch.Tensor:
    """At most so many of these places, from the first to the last, evenly."""
    if len(places) <= most:
        return places
    return places[torch.linspace(0, len(places) - 1, most).round().long()]


def _ternary(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(-1, 2, shape, generator=generator).float()


def _signs(shape: torch.Size | tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randint(0, 2, shape, generator=generator).float() * 2 - 1


def _factors(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Numbers of all digits from 0.5 to 2, of either sign."""
    return (0.5 + 1.5 * torch.rand(shape, generator=generator)) * _signs(shape, generator)
