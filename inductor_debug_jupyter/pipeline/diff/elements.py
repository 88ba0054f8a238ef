"""Two tensors, a piece at a time: how far apart each pair of elements is.

Nothing here needs memory in proportion to the tensors. They are cut, as they lie in memory, into pieces of at most
:data:`CHUNK` elements; only a piece is ever converted to float64 (complex128, int64), where its errors are computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

CHUNK = 1 << 18
"""At most so many elements are looked at together."""

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
        reference_nonfinite: how many NaN or infinite elements the reference has.
        candidate_nonfinite: how many the candidate has.
        both_nan: how many places are NaN on both sides.
    """

    offset: int
    error: torch.Tensor
    size: torch.Tensor
    equal: torch.Tensor
    wild: torch.Tensor
    reference_nonfinite: int
    candidate_nonfinite: int
    both_nan: int


def pieces(reference: torch.Tensor, candidate: torch.Tensor, *, equal_nan: bool) -> Iterator[Piece]:
    """Every element of two tensors of the same shape, in order."""
    working = _working_dtype(reference.dtype, candidate.dtype)
    device = _meeting_place(reference, candidate)
    for offset, one, other in _cut(reference.detach(), candidate.detach(), 0):
        one, other = (each.to(device).to(working).reshape(-1) for each in (one, other))
        yield _compare(offset, one, other, equal_nan=equal_nan)


def _cut(
    reference: torch.Tensor, candidate: torch.Tensor, offset: int
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Views of both, row by row, none larger than :data:`CHUNK`."""
    if reference.numel() <= CHUNK:
        yield offset, reference, candidate
        return
    inner = reference.numel() // len(reference)
    step = max(1, CHUNK // inner)
    for start in range(0, len(reference), step):
        at = offset + start * inner
        if inner > CHUNK:
            yield from _cut(reference[start], candidate[start], at)
        else:
            yield at, reference[start : start + step], candidate[start : start + step]


def _working_dtype(*dtypes: torch.dtype) -> torch.dtype:
    if any(dtype.is_complex for dtype in dtypes):
        return torch.complex128
    return torch.float64 if any(dtype.is_floating_point for dtype in dtypes) else torch.int64


def _meeting_place(reference: torch.Tensor, candidate: torch.Tensor) -> torch.device:
    """Where to compare: where both are, unless that is two places or one without float64."""
    if reference.device == candidate.device and reference.device.type != "mps":
        return reference.device
    return torch.device("cpu")


def _compare(offset: int, reference: torch.Tensor, candidate: torch.Tensor, *, equal_nan: bool) -> Piece:
    if reference.dtype == torch.int64:
        return _compare_integers(offset, reference, candidate)
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
        reference_nonfinite=len(finite) - int(finite.sum()),
        candidate_nonfinite=len(finite) - int(other_finite.sum()),
        both_nan=int(both_nan.sum()),
    )


def _compare_integers(offset: int, reference: torch.Tensor, candidate: torch.Tensor) -> Piece:
    """Integers are subtracted as such, because float64 is exact only to 2**53; a difference that overflows is not."""
    equal = reference == candidate
    size = reference.double().abs()
    rough = (reference.double() - candidate.double()).abs()
    error = torch.where(rough < _EXACT, (reference - candidate).abs().double(), rough)
    return Piece(offset, error, size, equal, torch.zeros_like(equal), 0, 0, 0)


def unravel(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of the element at that position, counted row by row."""
    index: list[int] = []
    for extent in reversed(shape):
        position, at = divmod(position, extent)
        index.append(at)
    return tuple(reversed(index))
