"""The way through two tensors that needs no compiler: pieces that stay in the cache, a few ops over buffers used again.

Pieces of at most :data:`CHUNK` elements are widened to float64 into scratch memory, where their sums are computed in
place by torch's ops, each of which torch shares among its threads. A piece in which something is not finite is gone
through again with masks (:mod:`elements`), and so are complex numbers and 64-bit integers.
"""

from __future__ import annotations

import math
import threading
from typing import Final

import numpy
import torch

from inductor_debug_jupyter.pipeline.diff.elements import (
    CHUNK,
    Piece,
    cut,
    meeting_place,
    piece_of,
    signed_zeros,
    working_dtype,
)
from inductor_debug_jupyter.pipeline.diff.partial_figures import Limits, Sums

_FEW: Final = 10_000
"""Up to here the BLAS behind numpy uses one thread."""


class Scratch(threading.local):
    """Four float64 buffers, used again for every piece, and for the next comparison on the same thread."""

    def __init__(self) -> None:
        self._resize(0)

    def _resize(self, length: int) -> None:
        with torch.inference_mode(False):  # they outlive whatever mode the caller is in
            self._buffers = torch.empty(4, length, dtype=torch.float64)

    def filled(self, one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The reference, the candidate, and two buffers of the same length to be written to."""
        count = one.numel()
        if count > self._buffers.shape[1]:
            self._resize(count)
        reference, candidate, *spare = self._buffers[:, :count].unbind()
        reference.view(one.shape).copy_(one)
        candidate.view(one.shape).copy_(other)
        return reference, candidate, *spare


_SCRATCH: Final = Scratch()


def portable_sums(reference: torch.Tensor, candidate: torch.Tensor, limits: Limits) -> Sums:
    """The sums over two tensors of one shape, whatever their dtypes, strides and devices."""
    total = Sums()
    working = working_dtype(reference.dtype, candidate.dtype)
    device = meeting_place(reference, candidate)
    plain = working == torch.float64 and device.type == "cpu"
    with torch.no_grad(), numpy.errstate(all="ignore"):
        for offset, one, other in cut(reference, candidate, CHUNK):
            if plain and _add_finite(total, offset, one, other, limits):
                continue
            flat = (each.to(device).to(working).reshape(-1) for each in (one, other))
            total.add(_masked_sums(piece_of(0, *flat, equal_nan=bool(limits.equal_nan)), limits), offset)
    return total


def _add_finite(total: Sums, offset: int, one: torch.Tensor, other: torch.Tensor, limits: Limits) -> bool:
    """Add the sums of a piece in which everything is finite; False, and nothing is added, when something is not."""
    reference, candidate, error, size = _SCRATCH.filled(one, other)
    torch.sub(reference, candidate, out=error)
    sums = Sums()
    sums.finite = sums.relative_count = len(error)
    sums.squares = _dot(error, error)
    sums.reference_squares, sums.candidate_squares = _dot(reference, reference), _dot(candidate, candidate)
    if not math.isfinite(sums.squares + sums.reference_squares + sums.candidate_squares):
        return False
    sums.products = (sums.reference_squares + sums.candidate_squares - sums.squares) / 2
    sums.reference_sum, sums.candidate_sum = float(reference.sum()), float(candidate.sum())
    torch.abs(reference, out=size)
    worst = int(error.abs_().numpy().argmax())  # torch's takes several times as long
    if largest := float(error[worst]):
        sums.largest, sums.worst, sums.sum = largest, worst, float(error.sum())
        sums.unequal = int(numpy.count_nonzero(reference.numpy() != candidate.numpy()))
        sums.relative_sum = float(torch.div(error, size, out=candidate).sum())
    if not (largest and math.isfinite(sums.relative_sum)) and not float(size.amin(0)):
        sums.relative_count = int(size.count_nonzero())
        sums.zeros = signed_zeros(*_SCRATCH.filled(one, other)[:2])
    if largest:
        _add_tolerances(sums, error, size, candidate, limits)
    if not math.isfinite(sums.relative_sum):
        return False
    total.add(sums, offset)
    return True


def _dot(one: torch.Tensor, other: torch.Tensor) -> float:
    """The sum of the products. Torch's shares even a few among threads, which wait for each other on a busy machine."""
    return float(one.numpy().dot(other.numpy()) if len(one) <= _FEW else one.dot(other))


def _add_tolerances(sums: Sums, error: torch.Tensor, size: torch.Tensor, spare: torch.Tensor, limits: Limits) -> None:
    """What follows from errors and sizes together. ``spare`` has the relative errors, and is written to.

    Relative errors that are all within the relative tolerance, as those of most healthy candidates are, leave nothing
    to ask of the absolute one.
    """
    chosen_error, chosen_size, relative = error, size, spare
    if has_zeros := sums.relative_count < len(error):
        chosen = size != 0
        sums.rtol_needed = math.inf if float(error[~chosen].max()) > limits.atol else 0.0
        chosen_error, chosen_size = error[chosen], size[chosen]
        relative = chosen_error / chosen_size
        sums.relative_sum = float(relative.sum())
    if sums.relative_count:
        sums.largest_relative = float(relative.amax(0))
    if has_zeros or sums.largest_relative > limits.rtol * (1 - 1e-12):
        sums.atol_needed = max(0.0, float(torch.sub(error, size, alpha=limits.rtol, out=spare).amax(0)))
    if sums.atol_needed + 1e-12 * sums.largest >= limits.atol:  # else all are within, whatever the last digit
        allowed = torch.mul(size, limits.rtol, out=spare).add_(limits.atol)
        sums.outside = len(error) - int((error <= allowed).count_nonzero())
    if sums.relative_count and sums.largest > limits.atol:
        above = torch.sub(chosen_error, limits.atol, out=spare[: len(chosen_error)]).div_(chosen_size)
        sums.rtol_needed = max(sums.rtol_needed, float(above.amax(0)))


def _masked_sums(piece: Piece, limits: Limits) -> Sums:
    """The sums of any piece."""
    sums = Sums()
    tame = piece.error.masked_fill(piece.wild, 0.0)
    allowed = limits.rtol * piece.size
    finite = ~piece.wild & piece.size.isfinite()
    outside = (~(tame <= allowed + limits.atol) & ~piece.equal) | piece.wild
    sums.unequal = len(piece.error) - int(piece.equal.sum())
    sums.outside, sums.wild, sums.both_nan = int(outside.sum()), int(piece.wild.sum()), piece.both_nan
    sums.zeros = piece.zeros
    sums.reference_nan, sums.reference_inf, sums.reference_neg_inf = piece.reference_nonfinite
    sums.candidate_nan, sums.candidate_inf, sums.candidate_neg_inf = piece.candidate_nonfinite
    sums.sum, sums.squares = float(tame.sum()), float(tame.square().sum())
    sums.reference_squares, sums.candidate_squares, sums.products = piece.products(finite)
    sums.reference_sum, sums.candidate_sum, sums.finite = piece.plain_sums(finite)
    sums.relative_count = int((has_relative := (piece.size > 0) & finite).sum())
    if sums.relative_count:
        relative = tame[has_relative] / piece.size[has_relative]
        sums.relative_sum, sums.largest_relative = float(relative.sum()), float(relative.max())
    if bool(finite.any()):
        sums.atol_needed = max(0.0, float((tame - allowed)[finite].max()))
        needy = finite & (tame > limits.atol)
        if bool(needy.any()):
            sums.rtol_needed = float(((tame[needy] - limits.atol) / piece.size[needy]).max())
    largest, at = torch.max(tame, 0)
    if float(largest) > 0:
        sums.largest, sums.worst = float(largest), int(at)
    if sums.wild:
        sums.first_wild = int(piece.wild.byte().argmax())
    return sums
