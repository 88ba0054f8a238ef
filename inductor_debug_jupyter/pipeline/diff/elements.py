"""Two tensors, a piece at a time: how far apart each pair of elements is.

Nothing here needs memory in proportion to the tensors. They are cut, as they lie in memory, into pieces of at most
:data:`CHUNK` elements; only a piece is ever converted to float64 (complex128, int64), where its errors are computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

CHUNK = 1 << 18
"""At most so many elements are looked at together: four float64 buffers of that size (8 MB) are in the last cache of
most machines, and an op takes much longer than it takes to start."""

_EXACT = 2.0**62


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A run of elements, flat.

    Attributes:
        offset: the position of the first of them, counted row by row over the whole tensor.
        error: ``|reference - candidate|``, 0 where they are equal, infinite where ``wild``.
        size: ``|reference|``.
        equal: where the two are the same.
        wild: where they differ and at least one is NaN or infinite.
        reference_nonfinite: how many elements of the reference are NaN, +∞ and −∞ (a complex number with an infinite
            part counts as +∞).
        candidate_nonfinite: likewise of the candidate.
        both_nan: how many places are NaN on both sides.
        zeros: how many zeros differ in sign.
        values: reference and candidate, widened.
    """

    offset: int
    error: torch.Tensor
    size: torch.Tensor
    equal: torch.Tensor
    wild: torch.Tensor
    reference_nonfinite: tuple[int, int, int]
    candidate_nonfinite: tuple[int, int, int]
    both_nan: int
    zeros: int
    values: tuple[torch.Tensor, torch.Tensor]

    def products(self, chosen: torch.Tensor) -> tuple[float, float, float]:
        """Reference · reference, candidate · candidate and reference · candidate, over the chosen places."""
        one, other = (_summable(values[chosen]) for values in self.values)
        pairs = ((one, one), (other, other), (one, other))
        own, theirs, mixed = (float((left.conj() * right).real.sum()) for left, right in pairs)
        return own, theirs, mixed

    def plain_sums(self, chosen: torch.Tensor) -> tuple[float, float, int]:
        """The sum of the reference, that of the candidate, and of how many numbers; a complex one is two."""
        one, other = (_summable(values[chosen]) for values in self.values)
        if one.is_complex():
            one, other = torch.view_as_real(one), torch.view_as_real(other)
        return float(one.sum()), float(other.sum()), one.numel()


def pieces(reference: torch.Tensor, candidate: torch.Tensor, *, equal_nan: bool) -> Iterator[Piece]:
    """Every element of two tensors of the same shape, in order."""
    working = working_dtype(reference.dtype, candidate.dtype)
    device = meeting_place(reference, candidate)
    for offset, one, other in cut(reference, candidate, CHUNK):
        one, other = (each.to(device).to(working).reshape(-1) for each in (one, other))
        yield piece_of(offset, one, other, equal_nan=equal_nan)


def cut(
    reference: torch.Tensor, candidate: torch.Tensor, largest: int, offset: int = 0
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Views of both, row by row, none larger than ``largest``, each with the position of its first element."""
    if not offset:
        reference, candidate = reference.detach(), candidate.detach()
        if reference.is_contiguous() and candidate.is_contiguous():
            reference, candidate = reference.view(-1), candidate.view(-1)
    if reference.numel() <= largest:
        yield offset, reference, candidate
        return
    inner = reference.numel() // len(reference)
    step = max(1, largest // inner)
    for start in range(0, len(reference), step):
        at = offset + start * inner
        if inner > largest:
            yield from cut(reference[start], candidate[start], largest, at)
        else:
            yield at, reference[start : start + step], candidate[start : start + step]


def working_dtype(*dtypes: torch.dtype) -> torch.dtype:
    """What both can be widened to."""
    if any(dtype.is_complex for dtype in dtypes):
        return torch.complex128
    return torch.float64 if any(dtype.is_floating_point for dtype in dtypes) else torch.int64


def meeting_place(reference: torch.Tensor, candidate: torch.Tensor) -> torch.device:
    """Where to compare: where both are, unless that is two places or one without float64."""
    if reference.device == candidate.device and reference.device.type != "mps":
        return reference.device
    return torch.device("cpu")


def piece_of(offset: int, reference: torch.Tensor, candidate: torch.Tensor, *, equal_nan: bool) -> Piece:
    """The errors of two flat tensors in the same working dtype."""
    if reference.dtype == torch.int64:
        return _piece_of_integers(offset, reference, candidate)
    equal = reference == candidate
    both_nan = reference.isnan() & candidate.isnan()
    if equal_nan:
        equal |= both_nan
    finite, other_finite = reference.isfinite(), candidate.isfinite()
    wild = ~(finite & other_finite) & ~equal
    error = (reference - candidate).abs().masked_fill_(equal, 0.0).masked_fill_(wild, torch.inf)
    return Piece(
        offset,
        error,
        reference.abs(),
        equal,
        wild,
        reference_nonfinite=_nonfinite(reference),
        candidate_nonfinite=_nonfinite(candidate),
        both_nan=int(both_nan.sum()),
        zeros=signed_zeros(reference, candidate),
        values=(reference, candidate),
    )


def _nonfinite(values: torch.Tensor) -> tuple[int, int, int]:
    nan = int(values.isnan().sum())
    if values.is_complex():
        return nan, int((values.isinf() & ~values.isnan()).sum()), 0
    return nan, int(values.isposinf().sum()), int(values.isneginf().sum())


def signed_zeros(reference: torch.Tensor, candidate: torch.Tensor) -> int:
    """How many places are zero on both sides, with different signs; each part of a complex number counts."""
    if reference.is_complex():
        parts = zip(torch.view_as_real(reference).unbind(-1), torch.view_as_real(candidate).unbind(-1), strict=True)
        return sum(signed_zeros(one, other) for one, other in parts)
    both = (reference == 0) & (candidate == 0)
    return int((both & (reference.signbit() != candidate.signbit())).count_nonzero())


def _piece_of_integers(offset: int, reference: torch.Tensor, candidate: torch.Tensor) -> Piece:
    """Integers are subtracted as such, because float64 is exact only to 2**53; a difference that overflows is not."""
    equal = reference == candidate
    size = reference.double().abs()
    rough = (reference.double() - candidate.double()).abs()
    error = torch.where(rough < _EXACT, (reference - candidate).abs().double(), rough)
    nothing = (0, 0, 0)
    values = (reference, candidate)
    return Piece(offset, error, size, equal, torch.zeros_like(equal), nothing, nothing, 0, 0, values)


def _summable(values: torch.Tensor) -> torch.Tensor:
    return values.double() if values.dtype == torch.int64 else values


def same_values(one: Any, other: Any) -> bool:
    """Whether two tensors have the same shape, dtype and elements; NaN is equal to NaN."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def unravel(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of the element at that position, counted row by row."""
    index: list[int] = []
    for extent in reversed(shape):
        position, at = divmod(position, extent)
        index.append(at)
    return tuple(reversed(index))
