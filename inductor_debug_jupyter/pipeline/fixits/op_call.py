"""One call of an ATen op with padded operands, and what the rewrite wants of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.fixits.padded import (
    Block,
    Padded,
    Value,
    block_of,
    grown_in_blocks,
    shape_of,
    sizes_of,
    tensor_of,
)
from inductor_debug_jupyter.pipeline.torch_compat.aten_level import aten_name
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind, of_kind


@dataclass(frozen=True)
class Sizes:
    """Which sizes to pad to what, as the rewrite wants them.

    Attributes:
        wanted: size → size in memory.
        asked: operands that were padded in blocks in the middle of the graph, with dimension and block: if one is an
            input, the host can do that.
    """

    wanted: Mapping[int, int]
    asked: list[tuple[Value, int, Block]] = field(default_factory=list)

    def in_blocks(self, value: Value, dim: int, block: Block) -> Value:
        """An operand with a dimension padded in blocks."""
        if block_of(value, dim) != block:
            self.asked.append((value, dim, block))
        return grown_in_blocks(value, dim, block)

    def of(self, value: Value, dims: tuple[int, ...]) -> dict[int, int]:
        """What these dimensions of a value have to be in memory: what they are, or what is wanted."""
        sizes, shape = sizes_of(value), shape_of(value)
        rank = len(sizes)
        return {dim % rank: max(shape[dim], self.wanted.get(sizes[dim], 0)) for dim in dims}


@dataclass(frozen=True)
class OpCall:
    """One call: the op, its arguments, the sizes that its result stands for (one entry a result)."""

    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[tuple[int, ...], ...]
    sizes: Sizes
    inner: int = 0
    """What blocks of the result will be looked at as, if that is known; see :mod:`blocks`."""
    strides: tuple[tuple[int, ...], ...] = ()
    """The results' strides in the original, where they have some."""

    @property
    def name(self) -> str:
        """The op without overload."""
        return aten_name(self.target)

    @property
    def made(self) -> tuple[int, ...]:
        """What the only result stands for."""
        return self.results[0]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The op itself, on what is in memory."""
        plain, named = map_kind(Padded, tensor_of, (args, kwargs))
        return self.target(*plain, **named)

    @property
    def values(self) -> list[Value]:
        """The tensors among its positional arguments."""
        return [value for value in of_kind(object, list(self.args)) if isinstance(value, torch.Tensor | Padded)]
