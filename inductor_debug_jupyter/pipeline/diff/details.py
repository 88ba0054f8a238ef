"""The second look at two tensors, on request: quantiles, histogram, units in the last place, worst places, heatmap.

Like the first it goes piece by piece and needs memory for a piece and a table, never for the tensors. Errors are
counted in a table of :data:`_BINS` bins, 64 to each power of two, so that a quantile is right to 1.6 %; up to
:data:`EXACT_QUANTILES` elements the errors themselves are kept, and quantiles are those of the sorted errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch

from inductor_debug_jupyter.pipeline.diff.elements import (
    CHUNK,
    Piece,
    cut,
    meeting_place,
    piece_of,
    pieces,
    unravel,
    working_dtype,
)
from inductor_debug_jupyter.pipeline.records import Heatmap

QUANTILES: Final = (0.5, 0.9, 0.99, 0.999)
ULP_QUANTILES: Final = (0.5, 0.999)
EXACT_QUANTILES: Final = 1 << 16
LARGEST: Final = 96
"""A heatmap has at most so many rows and columns."""
WORST: Final = 10
"""So many of the worst places are told, and so many places that are not finite."""

_SHIFT: Final = 46
"""Bits of a float64 below its exponent and first six digits: what remains numbers the bins."""
_BINS: Final = 1 << 17
_ULP_TYPES: Final = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Number = bool | int | float | complex


def number_text(value: Number) -> str:
    """A number as people read it: nine digits tell any float32 from its neighbour."""
    return f"{value:.9g}" if isinstance(value, float | complex) else str(value)


@dataclass(frozen=True, slots=True)
class Place:
    """One element: where it is, and what both sides have there. ``error`` is infinite when one is not finite."""

    index: tuple[int, ...]
    reference: Number
    candidate: Number
    error: float


@dataclass(frozen=True, slots=True)
class HistogramBin:
    """How many errors are from ``low`` up to, but not including, ``high``; the first bin is that of no error at all."""

    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Details:
    """What the second look finds.

    Attributes:
        quantiles: share of the elements → the error that so many do not exceed; wild pairs are left out.
        histogram: errors by powers of two, from none to the largest.
        max_ulp: the largest distance in units in the last place (in steps, for integers); NaN when the dtypes differ.
        mean_ulp: the mean of it.
        ulp_quantiles: share of the elements → the distance that so many do not exceed.
        worst: the places with the largest errors, worst first; wild ones come first, in order.
        nonfinite: the first places where one side at least is NaN or infinite, in order.
    """

    quantiles: tuple[tuple[float, float], ...]
    histogram: tuple[HistogramBin, ...]
    max_ulp: float
    mean_ulp: float
    ulp_quantiles: tuple[tuple[float, float], ...]
    worst: tuple[Place, ...]
    nonfinite: tuple[Place, ...]


def look_closer(reference: torch.Tensor, candidate: torch.Tensor, *, equal_nan: bool, worst: int = WORST) -> Details:
    """Go through two tensors of the same shape once more."""
    count, shape = reference.numel(), tuple(reference.shape)
    tally = _DetailTally(keep=count <= EXACT_QUANTILES, worst=worst)
    same_dtype = reference.dtype == candidate.dtype
    working, device = working_dtype(reference.dtype, candidate.dtype), meeting_place(reference, candidate)
    with torch.no_grad():
        for offset, one, other in cut(reference, candidate, CHUNK):
            one, other = (each.to(device).reshape(-1) for each in (one, other))
            piece = piece_of(offset, one.to(working), other.to(working), equal_nan=equal_nan)
            tally.add(piece)
            if same_dtype:
                tally.add_ulps(piece, one, other)
    return Details(
        tally.errors.quantiles(QUANTILES),
        tally.errors.histogram(),
        tally.max_ulp if same_dtype else math.nan,
        tally.ulp_sum / tally.ulp_count if same_dtype and tally.ulp_count else math.nan,
        tally.ulps.quantiles(ULP_QUANTILES),
        _places(sorted(tally.worst), reference, candidate, shape)[:worst],
        _places([(0.0, at) for at in tally.nonfinite], reference, candidate, shape, infinite=True),
    )


class _DetailTally:
    """Adds pieces up."""

    def __init__(self, keep: bool, worst: int) -> None:
        self.errors, self.ulps = _Distribution(keep), _Distribution(keep)
        self._most = worst
        self.worst: list[tuple[float, int]] = []
        """Minus the error, and the position."""
        self.nonfinite: list[int] = []
        self.max_ulp = self.ulp_sum = 0.0
        self.ulp_count = 0

    def add(self, piece: Piece) -> None:
        """Errors and places."""
        tame = piece.error[~piece.wild]
        self.errors.add(tame)
        most = min(self._most, len(piece.error))
        if bool(piece.wild.any()):  # they tie: the first ones count
            at = piece.wild.nonzero().flatten()[:most]
            found = [(-math.inf, piece.offset + each) for each in at.tolist()]
            self.worst = sorted([*self.worst, *found])[: self._most]
        top, at = torch.topk(piece.error.masked_fill(piece.wild, 0.0), most)
        found = [(-e, piece.offset + p) for e, p in zip(top.tolist(), at.tolist(), strict=True) if e > 0]
        self.worst = sorted([*self.worst, *found])[: self._most]
        if len(self.nonfinite) < self._most and any((*piece.reference_nonfinite, *piece.candidate_nonfinite)):
            one, other = piece.values
            places = (~(one.isfinite() & other.isfinite())).nonzero().flatten()[: self._most].tolist()
            self.nonfinite = [*self.nonfinite, *(piece.offset + at for at in places)][: self._most]

    def add_ulps(self, piece: Piece, one: torch.Tensor, other: torch.Tensor) -> None:
        """Distances between neighbouring numbers of the dtype, where both sides are finite."""
        if one.is_complex():
            one, other = torch.view_as_real(one).flatten(), torch.view_as_real(other).flatten()
        if one.is_floating_point():
            chosen = one.double().isfinite() & other.double().isfinite()
            distance = ulp_distance(one[chosen], other[chosen])
        else:
            distance = piece.error
        if len(distance):
            self.max_ulp = max(self.max_ulp, float(distance.max()))
            self.ulp_sum += float(distance.sum())
            self.ulp_count += len(distance)
            self.ulps.add(distance)


class _Distribution:
    """Numbers that are not negative, counted in a table; few of them are kept as well."""

    def __init__(self, keep: bool) -> None:
        self._kept: list[torch.Tensor] | None = [] if keep else None
        self._bins: torch.Tensor | None = None

    def add(self, values: torch.Tensor) -> None:
        """Count more numbers, in float64."""
        if self._kept is not None:
            self._kept.append(values.cpu())
        bins = torch.bincount(values.contiguous().view(torch.int64) >> _SHIFT, minlength=_BINS)
        self._bins = bins if self._bins is None else self._bins.add_(bins)

    def quantiles(self, shares: tuple[float, ...]) -> tuple[tuple[float, float], ...]:
        """Of the sorted numbers when there are few, else of the table; none when there are none."""
        if self._bins is None:
            return ()
        if self._kept is not None:
            values = torch.cat(self._kept).sort().values
            return tuple((q, float(values[math.ceil(q * len(values)) - 1])) for q in shares) if len(values) else ()
        total = self._bins.cumsum(0)
        count = int(total[-1])
        if not count:
            return ()
        ranks = torch.tensor([math.ceil(q * count) for q in shares])
        found = torch.searchsorted(total.cpu(), ranks).tolist()
        return tuple((q, _edge(at)) for q, at in zip(shares, found, strict=True))

    def histogram(self) -> tuple[HistogramBin, ...]:
        """One bin for no error, then one for each power of two between the smallest and the largest error."""
        assert self._bins is not None
        table = self._bins.cpu()
        octaves = table.view(-1, 64).sum(1)
        octaves[0] -= table[0]
        found = [HistogramBin(0.0, 0.0, int(table[0]))] if int(table[0]) else []
        if len(there := octaves.nonzero().flatten().tolist()):
            found += [
                HistogramBin(_edge(at * 64), _edge((at + 1) * 64), int(octaves[at]))
                for at in range(there[0], there[-1] + 1)
            ]
        return tuple(found)


def _edge(bin_number: int) -> float:
    """The smallest number of a bin."""
    return float(torch.tensor(bin_number << _SHIFT, dtype=torch.int64).view(torch.float64))


def ulp_distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """How many steps of the dtype lie between, for flat tensors of one float dtype; +0 and −0 are the same."""
    keys = [_ordered(each) for each in (one, other)]
    if one.element_size() == 8:
        # The distance of two float64 can exceed int64; as float64 it is right to 53 bits.
        exact = keys[0] - keys[1]
        rough = keys[0].double() - keys[1].double()
        return torch.where(rough.abs() < 2.0**62, exact.abs().double(), rough.abs())
    return (keys[0] - keys[1]).abs().double()


def _ordered(values: torch.Tensor) -> torch.Tensor:
    """The bits as whole numbers in the order of the values."""
    size = values.element_size()
    bits = values.contiguous().view(_ULP_TYPES[size]).long()
    lowest = -(1 << (8 * size - 1))
    return torch.where(bits < 0, lowest - bits, bits)


def _places(
    found: list[tuple[float, int]],
    reference: torch.Tensor,
    candidate: torch.Tensor,
    shape: tuple[int, ...],
    *,
    infinite: bool = False,
) -> tuple[Place, ...]:
    places = []
    for minus_error, position in found:
        at = unravel(position, shape)
        values = reference.detach()[at].item(), candidate.detach()[at].item()
        places.append(Place(at, *values, math.inf if infinite else -minus_error))
    return tuple(places)


def error_heatmap(
    reference: torch.Tensor, candidate: torch.Tensor, *, equal_nan: bool = False, largest: int = LARGEST
) -> Heatmap | None:
    """The absolute error, pooled by maximum; None when there is nothing to draw.

    Each element goes to the cell of its row and column, and a cell keeps its largest error, so that a single bad
    element stays visible however large the tensor is. Four digits are kept: it is a picture.
    """
    count = reference.numel()
    if reference.shape != candidate.shape or not count:
        return None
    full_rows, full_columns, note = _as_matrix(tuple(reference.shape))
    tall, wide = math.ceil(full_rows / largest), math.ceil(full_columns / largest)
    rows, columns = math.ceil(full_rows / tall), math.ceil(full_columns / wide)
    grid: torch.Tensor | None = None
    for piece in pieces(reference, candidate, equal_nan=equal_nan):
        if grid is None:
            grid = piece.error.new_zeros(rows * columns)
        position = torch.arange(piece.offset, piece.offset + len(piece.error), device=piece.error.device)
        cell = position // full_columns // tall * columns + position % full_columns // wide
        grid.scatter_reduce_(0, cell, piece.error, "amax")
    assert grid is not None
    values = tuple(float(f"{value:.4g}") if math.isfinite(value) else None for value in grid.tolist())
    if tall * wide > 1:
        note = " · ".join(filter(None, [note, f"each cell is the largest error of {tall} × {wide} elements"]))
    return Heatmap(rows, columns, values, full_rows, full_columns, note)


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, int, str]:
    """Rows, columns, and how the tensor became them."""
    if len(shape) == 0:
        return 1, 1, "a single number"
    if len(shape) == 1:
        if shape[0] <= LARGEST:
            return 1, shape[0], ""
        width = math.ceil(math.sqrt(shape[0]))
        return math.ceil(shape[0] / width), width, f"{shape[0]:,} elements, laid out in rows of {width:,}"
    if len(shape) == 2:
        return shape[0], shape[1], ""
    rows = math.prod(shape[:-1])
    folded = "×".join(map(str, shape[:-1]))
    return rows, shape[-1], f"dimensions 0–{len(shape) - 2} ({folded}) are the rows, the last is the columns"
