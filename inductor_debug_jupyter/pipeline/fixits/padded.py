"""A tensor that is larger than what it stands for: the padding is at the end of its dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Padded:
    """``tensor`` stands for one of ``sizes``; ``zero`` when all of the padding is certainly zero.

    The padding is always finite: whatever might make an infinity of it gets another filling first.
    """

    tensor: torch.Tensor
    sizes: tuple[int, ...]
    zero: bool

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions that are padded."""
        return tuple(at for at, size in enumerate(self.sizes) if self.tensor.shape[at] != size)


Value = torch.Tensor | Padded


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
    """What is in memory."""
    return value.tensor if isinstance(value, Padded) else value


def wrapped(tensor: torch.Tensor, sizes: Sequence[int], zero: bool) -> Value:
    """A tensor that stands for one of ``sizes``; itself when that is its own shape."""
    return tensor if tuple(tensor.shape) == tuple(sizes) else Padded(tensor, tuple(sizes), zero)


def cut(value: Any, dims: Iterable[int] | None = None) -> Any:
    """Without the padding, of all dimensions or of these."""
    if not isinstance(value, Padded):
        return value
    tensor = value.tensor
    rank = len(value.sizes)
    wanted = range(rank) if dims is None else {dim % rank for dim in dims}
    for dim in wanted:
        if tensor.shape[dim] != value.sizes[dim]:
            tensor = tensor.narrow(dim, 0, value.sizes[dim])
    return wrapped(tensor, value.sizes, value.zero)


def grown(value: Value, shape: dict[int, int]) -> Value:
    """Padded with zeros to these sizes (dimension → size in memory), where it is not as large already."""
    now = shape_of(value)
    rank = len(now)
    wanted = {dim % rank: size for dim, size in shape.items()}
    if all(now[dim] >= size for dim, size in wanted.items()):
        return value
    amounts: list[int] = []
    for dim in reversed(range(rank)):
        amounts += [0, max(0, wanted.get(dim, 0) - now[dim])]
    return Padded(torch.nn.functional.pad(tensor_of(value), amounts), sizes_of(value), is_zero(value))


def filled(value: Value, fill: float = 0.0) -> Value:
    """With this value for padding."""
    if not isinstance(value, Padded) or (fill == 0.0 and value.zero):
        return value
    tensor = value.tensor
    kept: torch.Tensor | None = None
    for dim in value.dims:
        shape = [1] * tensor.dim()
        shape[dim] = tensor.shape[dim]
        positions = torch.arange(tensor.shape[dim], dtype=torch.int32, device=tensor.device)
        inside = (positions < value.sizes[dim]).view(shape)
        kept = inside if kept is None else kept & inside
    assert kept is not None
    return Padded(torch.where(kept, tensor, torch.full((), fill, dtype=tensor.dtype)), value.sizes, fill == 0.0)
