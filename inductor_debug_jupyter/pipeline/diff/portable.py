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

CHUNK: Final = 10_000
"""So many elements a piece: four float64 buffers of that size fit a core's cache, and neither torch nor the BLAS behind
numpy shares so few among threads of its own, which would wait for each other on a busy machine."""
SHARED: Final = 1 << 18
"""From so many elements on, several threads share the work."""

_Cut = tuple[int, torch.Tensor, torch.Tensor]
Array = numpy.typing.NDArray[numpy.float64]


class Scratch:
    """Four float64 buffers, used again for every piece; torch fills them, numpy (which has less overhead) computes."""

    def __init__(self, length: int) -> None:
        self._tensors = torch.empty(4, length, dtype=torch.float64)
        self._arrays: Array = self._tensors.numpy()

    def filled(self, one: torch.Tensor, other: torch.Tensor) -> tuple[Array, Array, Array, Array]:
        """The reference, the candidate, and two buffers of the same length to be written to."""
        count = one.numel()
        for buffer, source in zip(self._tensors, (one, other), strict=False):
            buffer[:count].view(source.shape).copy_(source)
        reference, candidate, error, spare = (array[:count] for array in self._arrays)
        return reference, candidate, error, spare


def portable_sums(reference: torch.Tensor, candidate: torch.Tensor, limits: Limits) -> Sums:
    """The sums over two tensors of one shape, whatever their dtypes, strides and devices."""
    count = reference.numel()
    if count < SHARED or reference.device.type != "cpu" or candidate.device.type != "cpu":
        return added((offset, part) for offset, part in _sums_of(cut(reference, candidate, CHUNK), reference, limits))
    workers = max(1, torch.get_num_threads())
    source, lock = cut(reference, candidate, CHUNK), threading.Lock()
    found: list[tuple[int, Sums]] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            found.extend(list(_sums_of(_taken(source, lock), reference, limits)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(1, workers)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return added(sorted(found, key=lambda part: part[0]))


def _taken(source: Iterator[_Cut], lock: threading.Lock) -> Iterator[_Cut]:
    """Whatever piece is next, for one of several threads."""
    while True:
        with lock:
            piece = next(source, None)
        if piece is None:
            return
        yield piece


def _sums_of(source: Iterator[_Cut], like: torch.Tensor, limits: Limits) -> Iterator[tuple[int, Sums]]:
    """The sums of each piece, with its offset."""
    scratch: Scratch | None = None
    with torch.no_grad(), numpy.errstate(all="ignore"):
        for offset, one, other in source:
            working = working_dtype(one.dtype, other.dtype)
            device = meeting_place(one, other)
            if working == torch.float64 and device.type == "cpu":
                scratch = scratch or Scratch(min(CHUNK, like.numel()))
                if (sums := _finite_sums(one, other, scratch, limits)) is not None:
                    yield offset, sums
                    continue
            flat = (each.to(device).to(working).reshape(-1) for each in (one, other))
            yield offset, _masked_sums(piece_of(0, *flat, equal_nan=bool(limits.equal_nan)), limits)


def _finite_sums(one: torch.Tensor, other: torch.Tensor, scratch: Scratch, limits: Limits) -> Sums | None:
    """The sums of a piece in which everything is finite; None when something is not."""
    reference, candidate, error, spare = scratch.filled(one, other)
    numpy.subtract(reference, candidate, out=error)
    numpy.abs(error, out=error)
    sums = Sums()
    sums.squares = error.dot(error)
    sums.reference_squares, sums.candidate_squares = reference.dot(reference), candidate.dot(candidate)
    if not math.isfinite(sums.squares + sums.reference_squares + sums.candidate_squares):
        return None
    sums.products = reference.dot(candidate)
    count = len(error)
    sums.relative_count = int(numpy.count_nonzero(reference))
    if sums.relative_count < count:
        sums.zeros = _signed_zeros(reference, candidate)
    sums.worst = int(error.argmax())
    sums.largest = float(error[sums.worst])
    if not sums.largest:
        sums.worst = -1
        return sums
    sums.sum = float(error.sum())
    sums.unequal = int(numpy.count_nonzero(error))
    size = numpy.abs(reference, out=reference)
    allowed = numpy.multiply(size, limits.rtol, out=candidate)
    sums.atol_needed = max(0.0, float(numpy.subtract(error, allowed, out=spare).max()))
    if sums.atol_needed + 1e-12 * sums.largest >= limits.atol:  # else all are within, whatever the last digit
        allowed += limits.atol
        sums.outside = count - int(numpy.count_nonzero(error <= allowed))
    if sums.relative_count < count:
        chosen = size != 0
        sums.rtol_needed = math.inf if float(error[~chosen].max()) > limits.atol else 0.0
        size, error, spare = size[chosen], error[chosen], spare[: sums.relative_count]
    if sums.relative_count:
        if sums.largest > limits.atol:
            numpy.subtract(error, limits.atol, out=spare)
            sums.rtol_needed = max(sums.rtol_needed, float(numpy.divide(spare, size, out=spare).max()))
        numpy.divide(error, size, out=error)
        sums.relative_sum, sums.largest_relative = float(error.sum()), float(error.max())
    return sums if math.isfinite(sums.relative_sum) else None


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
