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
    its padding when only its first dimension has one: then it is still at the end of whatever the group becomes.
    """
    if not isinstance(value, Padded):
        return value.reshape(list(sizes))
    memory: list[int] = []
    lost: list[int] = []
    shape = shape_of(value)
    for old, new in groups(value.sizes, sizes):
        kept = _kept(old, [sizes[at] for at in new], value, shape)
        if kept is None:
            lost += [at for at in old if at in value.dims]
        memory += kept or [sizes[at] for at in new]
    value = cut(value, lost) if lost else value
    return wrapped(tensor_of(value).reshape(memory), sizes, is_zero(value))


def _kept(old: list[int], new: list[int], value: Padded, shape: tuple[int, ...]) -> list[int] | None:
    """The sizes in memory that a group becomes; None when its padding has no place in it."""
    padded = [at for at in old if at in value.dims]
    if not padded:
        return new
    real = [at for at in old if value.sizes[at] != 1]
    if padded != real[:1]:
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
