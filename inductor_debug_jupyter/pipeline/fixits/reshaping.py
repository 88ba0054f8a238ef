"""Reshape a padded tensor; the padding stays where the new shape has a place for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from inductor_debug_jupyter.pipeline.fixits.padded import (
    Padded,
    Value,
    cut,
    is_zero,
    shape_of,
    tensor_of,
    wrapped,
)


def reshaped(value: Value, sizes: Sequence[int]) -> Value:
    """``value`` with the shape ``sizes``.

    Dimensions that become each other form groups (``[4, 784] → [4, 28, 28]``: ``784`` and ``28, 28``). A group keeps
    its padding when only its first dimension has one, at its end: it is at the end of the new group, too. Padding of a
    group's last dimension becomes blocks, and blocks become padding of the last dimension: ``[12, 32] ↔ [384]``.
    """
    if not isinstance(value, Padded):
        return value.reshape(list(sizes))
    if 0 in value.sizes:
        return wrapped(tensor_of(cut(value)).reshape(list(sizes)), sizes, zero=True)
    memory: list[int] = []
    lost: list[int] = []
    blocks: dict[int, int] = {}
    for old, new in groups(value.sizes, sizes):
        wanted = [sizes[at] for at in new]
        if (kept := _kept(old, wanted, value)) is not None:
            memory += kept
        elif (in_blocks := _kept_in_blocks(old, wanted, value)) is not None:
            kept, at, inner = in_blocks
            memory += kept
            blocks[new[at]] = inner
        else:
            memory += wanted
            lost += [at for at in old if at in value.dims]
    value = cut(value, lost) if lost else value
    return wrapped(tensor_of(value).reshape(memory), sizes, is_zero(value), blocks)


def _kept_in_blocks(old: list[int], new: list[int], value: Padded) -> tuple[list[int], int, int] | None:
    """The new sizes in memory of a group, which of them is in blocks, and of what size; None when no block fits."""
    real = [at for at in old if value.sizes[at] != 1]
    places = [at for at, size in enumerate(new) if size != 1]
    if [at for at in old if at in value.dims] != real[-1:] or not places:
        return None
    block, last = value.block(real[-1]), places[-1]
    if new[last] % block.inner:
        return None
    return [*new[:last], new[last] // block.inner * block.memory, *new[last + 1 :]], last, block.inner


def _kept(old: list[int], new: list[int], value: Padded) -> list[int] | None:
    """The new sizes in memory of a group; None when its padding has no place in them."""
    padded = [at for at in old if at in value.dims]
    if not padded:
        return new
    shape = shape_of(value)
    real = [at for at in old if value.sizes[at] != 1]
    if padded != real[:1] or real[0] in dict(value.blocks):
        return None
    elements = math.prod(shape[at] for at in old)
    first = next(at for at, size in enumerate(new) if size != 1)
    rest = math.prod(new[first + 1 :])
    if elements % rest:
        return None
    return [*new[:first], elements // rest, *new[first + 1 :]]


def groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Positions of the old and of the new shape that become each other, in order; each group as small as it can be."""
    made: list[tuple[list[int], list[int]]] = []
    left = right = 0
    while left < len(old) and right < len(new):
        first, start = left, right
        before, after = old[left], new[right]
        left, right = left + 1, right + 1
        while before != after:
            if before < after:
                before *= old[left]
                left += 1
            else:
                after *= new[right]
                right += 1
        made.append((list(range(first, left)), list(range(start, right))))
    made += [([dim], []) for dim in range(left, len(old))]  # the rest has size 1
    made += [([], [dim]) for dim in range(right, len(new))]
    return made


def dim_order(name: str, args: Sequence[Any], rank: int) -> list[int]:
    """For each dimension of the result of ``permute``, ``transpose``, ``swapaxes`` or ``t``, that of its operand."""
    if name == "permute":
        return [dim % rank for dim in args[1]]
    order = list(range(rank))
    if rank:
        one, other = (0, -1) if name == "t" else args[1:]
        order[one], order[other] = order[other], order[one]
    return order
