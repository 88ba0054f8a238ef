"""Where in a tensor the errors are, as a grid small enough to draw."""

from __future__ import annotations

import math

import torch

from inductor_debug_jupyter.pipeline.diff.elements import pieces
from inductor_debug_jupyter.pipeline.records import Heatmap

LARGEST = 96
"""A heatmap has at most so many rows and columns."""


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
