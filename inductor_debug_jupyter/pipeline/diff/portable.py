"""The way through two tensors that needs no compiler: cache-sized pieces, a few ops over buffers used again.

Pieces of at most :data:`CHUNK` elements are widened to float64 into scratch memory, where their sums are computed in
place; several threads take pieces in turn (the ops let go of Python's lock). A piece in which something is not
finite is gone through again with masks (:mod:`elements`), and so are complex numbers and 64-bit integers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Final

import numpy
import numpy.typing
import torch

from inductor_debug_jupyter.pipeline.diff.elements import Piece, cut, meeting_place, piece_of, working_dtype
from inductor_debug_jupyter.pipeline.diff.sums import Limits, Sums, added

CHUNK: Final = 1 << 15
"""So many elements a piece: four float64 buffers of that size fit a core's cache, and torch does not share so few among
threads of its own, which would wait for each other on a busy machine."""
_ALONE: Final = 1 << 13
"""Likewise for the BLAS behind numpy."""
SHARED: Final = 1 << 18
"""From so many elements on, several threads share the work."""

_Cut = tuple[int, torch.Tensor, torch.Tensor]
Array = numpy.typing.NDArray[numpy.float64]


class Scratch(threading.local):
    """Four float64 buffers, used again for every piece, and for the next comparison on the same thread.

    Torch fills them; numpy, which has less overhead, computes.
    """

    def __init__(self) -> None:
        self._tensors = torch.empty(4, 0, dtype=torch.float64)
        self._arrays: Array = self._tensors.numpy()

    def filled(self, one: torch.Tensor, other: torch.Tensor) -> tuple[Array, Array, Array, Array]:
        """The reference, the candidate, and two buffers of the same length to be written to."""
        count = one.numel()
        if count > self._tensors.shape[1]:
            self._tensors = torch.empty(4, count, dtype=torch.float64)
            self._arrays = self._tensors.numpy()
        for buffer, source in zip(self._tensors, (one, other), strict=False):
            buffer[:count].view(source.shape).copy_(source)
        reference, candidate, error, spare = (array[:count] for array in self._arrays)
        return reference, candidate, error, spare


_SCRATCH: Final = Scratch()


def portable_sums(reference: torch.Tensor, candidate: torch.Tensor, limits: Limits) -> Sums:
    """The sums over two tensors of one shape, whatever their dtypes, strides and devices."""
    source = cut(reference, candidate, CHUNK)
    if reference.numel() < SHARED or reference.device.type != "cpu" or candidate.device.type != "cpu":
        return _sums_of(source, limits)
    lock = threading.Lock()
    found: list[Sums] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            found.append(_sums_of(_taken(source, lock), limits))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(1, max(1, torch.get_num_threads()))]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return added((0, sums) for sums in found)


def _taken(source: Iterator[_Cut], lock: threading.Lock) -> Iterator[_Cut]:
    """Whatever piece is next, for one of several threads."""
    while True:
        with lock:
            piece = next(source, None)
        if piece is None:
            return
        yield piece


def _sums_of(source: Iterator[_Cut], limits: Limits) -> Sums:
    """The sums of all these pieces; positions count from the tensors' first element."""
    total = Sums()
    with torch.no_grad(), numpy.errstate(all="ignore"):
        for offset, one, other in source:
            working = working_dtype(one.dtype, other.dtype)
            device = meeting_place(one, other)
            if working == torch.float64 and device.type == "cpu" and _add_finite(total, offset, one, other, limits):
                continue
            flat = (each.to(device).to(working).reshape(-1) for each in (one, other))
            total.add(_masked_sums(piece_of(0, *flat, equal_nan=bool(limits.equal_nan)), limits), offset)
    return total


def _add_finite(total: Sums, offset: int, one: torch.Tensor, other: torch.Tensor, limits: Limits) -> bool:
    """Add the sums of a piece in which everything is finite; False, and nothing is added, when something is not."""
    reference, candidate, error, size = _SCRATCH.filled(one, other)
    numpy.subtract(reference, candidate, out=error)
    squares, own, theirs, products = (
        _dot(*pair) for pair in ((error, error), (reference, reference), (candidate, candidate), (reference, candidate))
    )
    if not math.isfinite(squares + own + theirs):
        return False
    numpy.abs(reference, out=size)
    numpy.abs(error, out=error)
    worst = int(error.argmax())
    sums = Sums()
    sums.largest = largest = float(error[worst])
    sums.relative_count = len(error)
    if not size.min():
        sums.relative_count = int(numpy.count_nonzero(size != 0))
        sums.zeros = _signed_zeros(reference, candidate)
    if largest:
        sums.worst = worst
        sums.sum = float(error.sum())
        sums.unequal = int(numpy.count_nonzero(error != 0))
        _add_tolerances(sums, error, size, (reference, candidate), limits)
        if not math.isfinite(sums.relative_sum):
            return False
    sums.squares, sums.reference_squares, sums.candidate_squares, sums.products = squares, own, theirs, products
    total.add(sums, offset)
    return True


def _dot(one: Array, other: Array) -> float:
    """The sum of the products, so few at a time that the BLAS behind numpy starts no threads of its own."""
    return float(sum(one[at : at + _ALONE].dot(other[at : at + _ALONE]) for at in range(0, len(one), _ALONE)))


def _add_tolerances(sums: Sums, error: Array, size: Array, spare: tuple[Array, Array], limits: Limits) -> None:
    """What follows from errors and sizes together. Writes to ``error`` and to the spare buffers."""
    allowed = numpy.multiply(size, limits.rtol, out=spare[0])
    sums.atol_needed = max(0.0, float(numpy.subtract(error, allowed, out=spare[1]).max()))
    if sums.atol_needed + 1e-12 * sums.largest >= limits.atol:  # else all are within, whatever the last digit
        allowed += limits.atol
        sums.outside = len(error) - int(numpy.count_nonzero(error <= allowed))
    if sums.relative_count < len(error):
        chosen = size != 0
        sums.rtol_needed = math.inf if float(error[~chosen].max()) > limits.atol else 0.0
        size, error = size[chosen], error[chosen]
    if not sums.relative_count:
        return
    if sums.largest > limits.atol:
        above = numpy.subtract(error, limits.atol, out=spare[0][: len(error)])
        sums.rtol_needed = max(sums.rtol_needed, float(numpy.divide(above, size, out=above).max()))
    numpy.divide(error, size, out=error)
    sums.relative_sum, sums.largest_relative = float(error.sum()), float(error.max())


def _signed_zeros(reference: Array, candidate: Array) -> int:
    both = (reference == 0) & (candidate == 0)
    return int(numpy.count_nonzero(both & (numpy.signbit(reference) != numpy.signbit(candidate))))


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
