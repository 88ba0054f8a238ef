"""A tensor that is larger than the one it stands for: padding is at the end of its dimensions, or of their blocks.

A dimension of 384 that is later viewed as 12 heads of 32 is padded in blocks: 12 × 64 in memory, each 32 followed by 32
of padding. So heads are computed where they will be read, and nothing has to be moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.torch_compat.aten_tracing import aten_name
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind, of_kind


@dataclass(frozen=True)
class Padded:
    """``tensor`` stands for one of ``sizes``; ``zero`` when all of the padding is certainly zero.

    The padding is always finite: an op that might make an infinity of it gets another filling first. ``blocks`` has the
    dimensions that are padded in blocks, with the size that a block stands for.
    """

    tensor: torch.Tensor
    sizes: tuple[int, ...]
    zero: bool
    blocks: tuple[tuple[int, int], ...] = ()

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions that are padded."""
        return tuple(at for at, size in enumerate(self.sizes) if self.tensor.shape[at] != size)

    def block(self, dim: int) -> Block:
        """How a dimension is padded; without padding it is one full block."""
        inner = dict(self.blocks).get(dim, self.sizes[dim])
        if not self.sizes[dim]:  # nothing to pad
            return Block(0, self.tensor.shape[dim])
        return Block(inner, self.tensor.shape[dim] * inner // self.sizes[dim])


@dataclass(frozen=True)
class Block:
    """``inner`` elements in room for ``memory``."""

    inner: int
    memory: int


Value = torch.Tensor | Padded


def block_of(value: Value, dim: int) -> Block:
    """How a dimension is padded."""
    dim %= len(sizes_of(value))
    return value.block(dim) if isinstance(value, Padded) else Block(value.shape[dim], value.shape[dim])


def blocks_of(value: Value) -> dict[int, int]:
    """Dimension → the size that a block stands for, for dimensions that are padded in blocks."""
    return dict(value.blocks) if isinstance(value, Padded) else {}


def sizes_of(value: Value) -> tuple[int, ...]:
    """The shape that a value stands for."""
    return value.sizes if isinstance(value, Padded) else tuple(value.shape)


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape that a value has in memory."""
    return tuple(value.tensor.shape if isinstance(value, Padded) else value.shape)


def is_zero(value: Value) -> bool:
    """Whether the padding, if there is any, is zero."""
    return not isinstance(value, Padded) or value.zero


def tensor_of(value: Any) -> Any:
    """The tensor in memory; any other value as it is."""
    return value.tensor if isinstance(value, Padded) else value


def wrapped(tensor: torch.Tensor, sizes: Sequence[int], zero: bool, blocks: Mapping[int, int] | None = None) -> Value:
    """A tensor that stands for ``sizes``; the tensor itself if that is its shape. ``blocks``: dimension → inner."""
    if tuple(tensor.shape) == tuple(sizes):
        return tensor
    real = {dim: inner for dim, inner in (blocks or {}).items() if inner != sizes[dim] != tensor.shape[dim]}
    return Padded(tensor, tuple(sizes), zero, tuple(sorted(real.items())))


def cut(value: Any, dims: Iterable[int] | None = None) -> Any:
    """The value without the padding of these dimensions, or of all."""
    if not isinstance(value, Padded):
        return value
    tensor = value.tensor
    rank = len(value.sizes)
    wanted = range(rank) if dims is None else {dim % rank for dim in dims}
    for dim in wanted:
        if tensor.shape[dim] != value.sizes[dim]:
            inner = value.block(dim).inner
            if inner == value.sizes[dim]:
                tensor = tensor.narrow(dim, 0, inner)
            else:
                shape = list(tensor.shape)
                parts = tensor.reshape([*shape[:dim], value.sizes[dim] // inner, -1, *shape[dim + 1 :]])
                tensor = parts.narrow(dim + 1, 0, inner).flatten(dim, dim + 1)
    return wrapped(tensor, value.sizes, value.zero, dict(value.blocks))


def without_blocks(value: Any) -> Any:
    """The value with padding only at the end of dimensions."""
    return cut(value, [dim for dim, _ in value.blocks]) if isinstance(value, Padded) and value.blocks else value


def grown_in_blocks(value: Value, dim: int, block: Block) -> Value:
    """The value with a dimension padded in these blocks, instead of any padding that it had."""
    dim %= len(sizes_of(value))
    if block_of(value, dim) == block:
        return value
    value = cut(value, [dim])
    count = sizes_of(value)[dim] // block.inner
    shape = list(shape_of(value))
    parts = tensor_of(value).reshape([*shape[:dim], count, block.inner, *shape[dim + 1 :]])
    amounts = [0, 0] * (parts.dim() - dim - 2) + [0, block.memory - block.inner]
    tensor = torch.nn.functional.pad(parts, amounts).flatten(dim, dim + 1)
    return wrapped(tensor, sizes_of(value), is_zero(value), {**blocks_of(value), dim: block.inner})


def grown(value: Value, shape: dict[int, int]) -> Value:
    """The value padded with zeros to at least these sizes (dimension → size in memory)."""
    now = shape_of(value)
    rank = len(now)
    wanted = {dim % rank: size for dim, size in shape.items()}
    value = cut(value, [dim for dim in blocks_of(value) if now[dim] < wanted.get(dim, 0)])
    now = shape_of(value)
    if all(now[dim] >= size for dim, size in wanted.items()):
        return value
    amounts: list[int] = []
    for dim in reversed(range(rank)):
        amounts += [0, max(0, wanted.get(dim, 0) - now[dim])]
    tensor = torch.nn.functional.pad(tensor_of(value), amounts)
    return wrapped(tensor, sizes_of(value), is_zero(value), blocks_of(value))


def filled(value: Value, fill: float = 0.0) -> Value:
    """The value with ``fill`` in its padding."""
    if not isinstance(value, Padded) or (fill == 0.0 and value.zero):
        return value
    tensor = value.tensor
    kept: torch.Tensor | None = None
    for dim in value.dims:
        shape = [1] * tensor.dim()
        shape[dim] = tensor.shape[dim]
        positions = torch.arange(tensor.shape[dim], dtype=torch.int32, device=tensor.device)
        block = value.block(dim)
        if block.inner != value.sizes[dim]:
            positions = positions % block.memory
        inside = (positions < block.inner).view(shape)
        kept = inside if kept is None else kept & inside
    assert kept is not None
    filling = torch.full((), fill, dtype=tensor.dtype)
    return Padded(torch.where(kept, tensor, filling), value.sizes, fill == 0.0, value.blocks)


def with_strides(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """The tensor itself or a copy, with these strides; where a stride is 0, its elements are all the same."""
    if tuple(tensor.stride()) == tuple(strides):
        return tensor
    repeated = [dim for dim, stride in enumerate(strides) if stride == 0 and tensor.shape[dim] > 1]
    once = tensor
    for dim in repeated:
        once = once.narrow(dim, 0, 1)
    copied = once.new_empty_strided(once.shape, list(strides)).copy_(once)
    return copied.expand(tensor.shape) if repeated else copied


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
    """The size of a block in which the result is to be padded, 0 for none; see :mod:`rewriting`."""
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
