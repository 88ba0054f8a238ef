"""Reshape a padded tensor without losing its padding, where the new shape has a place for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    """``value`` as one of ``sizes``.

    Dimensions that become each other form groups (``[4, 784] → [4, 28, 28]``: ``784`` and ``28, 28``). A group keeps
    its padding when only its first dimension has one, at its end: then it is still at the end of whatever the group
    becomes. It keeps that of its last dimension in blocks, or takes it out of blocks: ``[12, 32] ↔ [384]``.
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
        kept = _kept(old, wanted, value)
        if kept is None and (in_blocks := _kept_in_blocks(old, wanted, value)) is not None:
            kept, at, inner = in_blocks
            blocks[new[at]] = inner
        if kept is None:
            lost += [at for at in old if at in value.dims]
        memory += kept or wanted
    value = cut(value, lost) if lost else value
    return wrapped(tensor_of(value).reshape(memory), sizes, is_zero(value), blocks)


def _kept_in_blocks(old: list[int], new: list[int], value: Padded) -> tuple[list[int], int, int] | None:
    """The sizes in memory that a group becomes, and which of them is in blocks of what; None when none can be."""
    real = [at for at in old if value.sizes[at] != 1]
    places = [at for at, size in enumerate(new) if size != 1]
    if [at for at in old if at in value.dims] != real[-1:] or not places:
        return None
    block, last = value.block(real[-1]), places[-1]
    if new[last] % block.inner:
        return None
    return [*new[:last], new[last] // block.inner * block.memory, *new[last + 1 :]], last, block.inner


def _kept(old: list[int], new: list[int], value: Padded) -> list[int] | None:
    """The sizes in memory that a group becomes; None when its padding has no place in it."""
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
    while left < len(old) or right < len(new):
        one, other = [left] if left < len(old) else [], [right] if right < len(new) else []
        if one and not other:  # what is left over has size 1
            made.append((one, []))
            left += 1
            continue
        if other and not one:
            made.append(([], other))
            right += 1
            continue
        before, after = old[left], new[right]
        left, right = left + 1, right + 1
        while before != after:
            if before < after:
                before *= old[left]
                one.append(left)
                left += 1
            else:
                after *= new[right]
                other.append(right)
                right += 1
        made.append((one, other))
    return made
