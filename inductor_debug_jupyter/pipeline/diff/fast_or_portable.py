"""One pass over two tensors, the fast way where it can be gone."""

from __future__ import annotations

from typing import Final

import torch

from inductor_debug_jupyter.pipeline.diff.elements import cut
from inductor_debug_jupyter.pipeline.diff.native import LIBRARY, native_sums
from inductor_debug_jupyter.pipeline.diff.partial_figures import Limits, Sums, added
from inductor_debug_jupyter.pipeline.diff.portable import portable_sums

_COPIED: Final = 1 << 20
"""Tensors that lie differently are copied so many elements at a time."""


def one_pass(reference: torch.Tensor, candidate: torch.Tensor, limits: Limits) -> Sums:
    """The sums over two tensors of the same shape. Positions count row by row.

    Tensors that lie alike and without gaps (channels_last, transposed) are gone through as they lie.
    """
    reference, candidate = reference.detach(), candidate.detach()
    if reference.is_contiguous() and candidate.is_contiguous():
        return _sums(reference, candidate, limits)
    strides = reference.stride()
    order = sorted(range(reference.ndim), key=lambda dim: -strides[dim])
    one, other = reference.permute(order), candidate.permute(order)
    if one.is_contiguous() and other.is_contiguous():
        sums = _sums(one, other, limits)
        sums.worst = _row_by_row(sums.worst, one, order)
        sums.first_wild = _row_by_row(sums.first_wild, one, order)
        return sums
    return _sums(reference, candidate, limits)


def _sums(reference: torch.Tensor, candidate: torch.Tensor, limits: Limits) -> Sums:
    function = None
    if reference.dtype == candidate.dtype and reference.is_cpu and candidate.is_cpu:
        function = LIBRARY.function(reference.dtype, reference.numel())
    if function is None or reference.is_neg() or candidate.is_neg():
        return portable_sums(reference, candidate, limits)
    if reference.is_contiguous() and candidate.is_contiguous():
        return native_sums(reference, candidate, limits, function)
    pieces = cut(reference, candidate, _COPIED)
    return added(
        (offset, native_sums(one.contiguous(), other.contiguous(), limits, function)) for offset, one, other in pieces
    )


def _row_by_row(position: int, lying: torch.Tensor, order: list[int]) -> int:
    """A position counted as the elements lie, as one that is counted row by row."""
    if position < 0:
        return position
    index = [0] * len(order)
    for dim in reversed(range(len(order))):
        position, index[order[dim]] = divmod(position, lying.shape[dim])
    shape = [lying.shape[order.index(dim)] for dim in range(len(order))]
    place = 0
    for extent, at in zip(shape, index, strict=True):
        place = place * extent + at
    return place
