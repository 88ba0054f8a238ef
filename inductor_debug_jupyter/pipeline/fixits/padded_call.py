"""One call of an ATen op with padded operands, and the sizes that the rewrite wants in memory."""

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
from inductor_debug_jupyter.pipeline.torch_compat.aten_tracing import aten_name
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind, of_kind


@dataclass(frozen=True)
class WantedSizes:
    """Which sizes the rewrite pads, and to what.

    Attributes:
        wanted: size → size in memory.
        padded_in_graph: operands that were padded in blocks inside the graph, with dimension and block: if one is an
            input, the host can pad it instead.
    """

    wanted: Mapping[int, int]
    padded_in_graph: list[tuple[Value, int, Block]] = field(default_factory=list)

    def in_blocks(self, value: Value, dim: int, block: Block) -> Value:
        """An operand with a dimension padded in blocks."""
        if block_of(value, dim) != block:
            self.padded_in_graph.append((value, dim, block))
        return grown_in_blocks(value, dim, block)

    def of(self, value: Value, dims: tuple[int, ...]) -> dict[int, int]:
        """The size in memory of these dimensions of a value: the present one, or the wanted one if it is larger."""
        sizes, shape = sizes_of(value), shape_of(value)
        rank = len(sizes)
        return {dim % rank: max(shape[dim], self.wanted.get(sizes[dim], 0)) for dim in dims}


@dataclass(frozen=True)
class PaddedCall:
    """One call: the op, its arguments, and the sizes that each result stands for."""

    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[tuple[int, ...], ...]
    sizes: WantedSizes
    inner: int = 0
    """The size of a block in which the result is to be padded, 0 for none; see :mod:`blocks`."""
    strides: tuple[tuple[int, ...], ...] = ()
    """The results' strides in the original, for strided results."""

    @property
    def name(self) -> str:
        """The op without overload."""
        return aten_name(self.target)

    @property
    def made(self) -> tuple[int, ...]:
        """The sizes that the only result stands for."""
        return self.results[0]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the op on the tensors in memory."""
        plain, named = map_kind(Padded, tensor_of, (args, kwargs))
        return self.target(*plain, **named)

    @property
    def values(self) -> list[Value]:
        """The tensors among its positional arguments."""
        return [value for value in of_kind(object, list(self.args)) if isinstance(value, torch.Tensor | Padded)]
