"""Any part of two tensors as a grid, made when somebody looks: pooled while it is large, element by element when small.

A record keeps one small picture of an output. While the process lives, the worst outputs' tensors are kept as well (up
to :data:`KEPT_BYTES`), and any two dimensions of them, at any place of the others, can be looked at in absolute, signed
or relative errors or in units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.diff.details import number_text, ulp_distance
from inductor_debug_jupyter.pipeline.errors import NotFoundError, OptionError
from inductor_debug_jupyter.pipeline.records import OutputDiff

MEASURES: Final = ("absolute", "signed", "relative", "ulp")
KEPT_BYTES: Final = 256 << 20
LARGEST: Final = 96
SINGLE: Final = 256
"""A part of at most so many elements is told element by element."""


@dataclass(frozen=True)
class LivePairs:
    """Reference and candidate of some outputs, by path."""

    pairs: Mapping[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)

    @classmethod
    def worst(
        cls, outputs: Iterable[OutputDiff], reference: Mapping[str, Any], candidate: Mapping[str, Any]
    ) -> LivePairs:
        """Of outputs that are sorted worst first, as many as fit."""
        kept: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        room = KEPT_BYTES
        for output in outputs:
            if output.verdict == "match" or output.mismatch_percentage is None:
                continue
            one, other = reference.get(output.path), candidate.get(output.path)
            if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor) or one.is_quantized:
                continue
            size = 2 * one.numel() * max(one.element_size(), other.element_size())
            if size <= room:
                room -= size
                kept[output.path] = one.detach().cpu(), other.detach().cpu()
        return cls(kept)

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def look(
        self,
        path: str,
        *,
        measure: str = "absolute",
        rows: int | None = None,
        columns: int | None = None,
        at: Sequence[int] = (),
        window: Sequence[int] = (),
        largest: int = LARGEST,
    ) -> dict[str, Any]:
        """A part of one output.

        Args:
            path: which output.
            measure: ``absolute``, ``signed`` (candidate minus reference), ``relative`` or ``ulp``.
            rows: the dimension that goes down; the last but one when not said.
            columns: the one that goes across; the last.
            at: where in the other dimensions: an index of the whole tensor, of which those two do not matter.
            window: first row, first column, how many rows, how many columns; all when not said.
            largest: at most so many cells each way; each is then the value of largest size among its elements.

        Raises:
            NotFoundError: that output is not kept.
            OptionError: there is no such measure, dimension or part.
        """
        if path not in self.pairs:
            raise NotFoundError(f"the tensors of {path!r} are not kept; their picture in the report is all there is")
        if measure not in MEASURES:
            raise OptionError(f"measure={measure!r}; allowed: {', '.join(MEASURES)}")
        one, other = (_at_least_a_matrix(each) for each in self.pairs[path])
        down, across = _dimensions(one.ndim, rows, columns)
        index = _index(one.shape, at)
        left, right = (_plane(each, down, across, index) for each in (one, other))
        top, first, height, width = _window(left.shape, window)
        left, right = (each[top : top + height, first : first + width] for each in (left, right))
        tall, wide = math.ceil(height / largest), math.ceil(width / largest)
        grid = _pooled(left, right, measure, tall, wide)
        return {
            "path": path,
            "measure": measure,
            "shape": list(one.shape),
            "row_dim": down,
            "column_dim": across,
            "at": index,
            "top": top,
            "left": first,
            "full_rows": height,
            "full_columns": width,
            "rows": math.ceil(height / tall),
            "columns": math.ceil(width / wide),
            "tall": tall,
            "wide": wide,
            "values": grid,
            "elements": _elements(left, right, top, first) if height * width <= SINGLE else [],
        }


def _at_least_a_matrix(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.ndim >= 2 else tensor.reshape(1, -1)


def _dimensions(count: int, rows: int | None, columns: int | None) -> tuple[int, int]:
    down, across = count - 2 if rows is None else rows, count - 1 if columns is None else columns
    if not (0 <= down < count and 0 <= across < count) or down == across:
        raise OptionError(f"rows={down}, columns={across}; allowed: two different dimensions from 0 to {count - 1}")
    return down, across


def _index(shape: Sequence[int], at: Sequence[int]) -> list[int]:
    wanted = [*at, *[0] * len(shape)][: len(shape)]
    return [min(max(0, int(place)), size - 1) for place, size in zip(wanted, shape, strict=True)]


def _plane(tensor: torch.Tensor, down: int, across: int, index: Sequence[int]) -> torch.Tensor:
    chosen = tuple(slice(None) if dim in {down, across} else index[dim] for dim in range(tensor.ndim))
    plane = tensor[chosen]
    return plane if down < across else plane.T


def _window(shape: Sequence[int], window: Sequence[int]) -> tuple[int, int, int, int]:
    top, left, height, width = window or (0, 0, shape[0], shape[1])
    if not (0 <= top < shape[0] and 0 <= left < shape[1] and height > 0 and width > 0):
        raise OptionError(f"window={list(window)}; allowed: a part of {shape[0]} × {shape[1]} elements")
    return top, left, min(height, shape[0] - top), min(width, shape[1] - left)


def _pooled(left: torch.Tensor, right: torch.Tensor, measure: str, tall: int, wide: int) -> list[float | None]:
    """Row of cells by row of cells, so that no more than one is ever widened."""
    cells: list[float | None] = []
    for start in range(0, len(left), tall):
        errors = _measured(left[start : start + tall], right[start : start + tall], measure)
        missing = -errors.shape[1] % wide
        padded = torch.nn.functional.pad(errors, (0, missing)).reshape(len(errors), -1, wide)
        high, low = padded.amax((0, 2)), padded.amin((0, 2))
        chosen = torch.where(high >= -low, high, low)
        odd = ~padded.isfinite().all(2).all(0)
        cells += [
            None if wild or not math.isfinite(value) else float(f"{value:.4g}")
            for value, wild in zip(chosen.tolist(), odd.tolist(), strict=True)
        ]
    return cells


def _measured(left: torch.Tensor, right: torch.Tensor, measure: str) -> torch.Tensor:
    if left.is_complex() or right.is_complex():
        error = (right.to(torch.complex128) - left.to(torch.complex128)).abs()
        size = left.to(torch.complex128).abs()
    else:
        error, size = right.double() - left.double(), left.double().abs()
    if measure == "ulp":
        if left.dtype != right.dtype or not left.is_floating_point():
            return error.abs()
        distance = ulp_distance(left.reshape(-1), right.reshape(-1)).reshape(left.shape)
        return torch.where(left.double().isfinite() & right.double().isfinite(), distance, torch.inf)
    if not left.is_complex():
        equal = left.double() == right.double()
        error = error.masked_fill(equal, 0.0)
    if measure == "relative":
        return torch.where(error == 0, 0.0, error.abs() / size)
    return error if measure == "signed" else error.abs()


def _elements(left: torch.Tensor, right: torch.Tensor, top: int, first: int) -> list[list[Any]]:
    """Row, column, reference and candidate of each, the numbers as text."""
    return [
        [top + row, first + column, number_text(one), number_text(other)]
        for row, (ones, others) in enumerate(zip(left.tolist(), right.tolist(), strict=True))
        for column, (one, other) in enumerate(zip(ones, others, strict=True))
    ]
