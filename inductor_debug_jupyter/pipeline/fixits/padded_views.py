"""How padding goes through ATen ops that only move elements: permute, reshape, expand, slice, split, cat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.fixits.padded import (
    Padded,
    PaddedCall,
    Value,
    block_of,
    blocks_of,
    cut,
    grown,
    is_zero,
    shape_of,
    sizes_of,
    tensor_of,
    without_blocks,
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


def turned(call: PaddedCall) -> Any:
    """Permute, transpose and their like: their arguments mean the same for a padded tensor."""
    x = call.args[0]
    if call.name == "movedim":
        x, order = without_blocks(x), []
    else:
        order = dim_order(call.name, call.args, len(call.made))
    blocks = {to: blocks_of(x)[dim] for to, dim in enumerate(order) if dim in blocks_of(x)}
    return wrapped(call.run(x, *call.args[1:], **call.kwargs), call.made, is_zero(x), blocks)


def reshape(call: PaddedCall) -> Any:
    """Another shape for the same elements; a view of the bits as another dtype is computed without padding."""
    if getattr(call.target, "_overloadname", "") == "dtype":
        return NotImplemented
    return reshaped(call.args[0], call.made)


def expand(call: PaddedCall) -> Any:
    """Repeat dimensions of size 1."""
    x = call.args[0]
    sizes, shape = sizes_of(x), shape_of(x)
    target = list(call.made)
    for at in range(1, len(sizes) + 1):
        if sizes[-at] != 1:
            target[-at] = shape[-at]
    more = len(target) - len(sizes)
    blocks = {dim + more: inner for dim, inner in blocks_of(x).items()}
    return wrapped(tensor_of(x).expand(target), call.made, is_zero(x), blocks)


def parts_along(call: PaddedCall) -> Any:
    """Slice, select, split, …: the dimension loses its padding, unless every part consists of whole blocks."""
    x = call.args[0]
    if not isinstance(x, Padded):
        return NotImplemented
    rank = len(x.sizes)
    if call.name in {"slice", "select", "unbind"}:
        dim = (call.args[1] if len(call.args) > 1 else 0) % rank
    else:
        dim = (call.args[2] if len(call.args) > 2 else call.kwargs.get("dim", 0)) % rank
    if (parts := _whole_blocks(call, x, dim)) is not None:
        return parts
    x = cut(x, [dim])
    if call.name in {"select", "unbind"}:
        x = without_blocks(x)  # the other dimensions get other numbers
    made = call.run(x, *call.args[1:], **call.kwargs)
    if isinstance(made, torch.Tensor):
        return wrapped(made, call.made, is_zero(x), blocks_of(x))
    return [wrapped(part, sizes, is_zero(x), blocks_of(x)) for part, sizes in zip(made, call.results, strict=True)]


def _whole_blocks(call: PaddedCall, x: Padded, dim: int) -> Any:
    """The parts, still padded in blocks; None when one begins or ends inside a block."""
    block = x.block(dim)
    if dim not in x.dims or call.name in {"select", "unbind"}:
        return None
    start = 0
    if call.name == "slice":
        start, _, step = slice(*[*call.args[2:5], None, None, None][:3]).indices(x.sizes[dim])
        if step != 1:
            return None
    ends = [start]
    for sizes in call.results:
        ends.append(ends[-1] + sizes[dim])
    if any(end % block.inner for end in ends):
        return None
    made = []
    for begin, sizes in zip(ends, call.results, strict=False):
        count = sizes[dim] // block.inner
        part = x.tensor.narrow(dim, begin // block.inner * block.memory, count * block.memory)
        made.append(wrapped(part, sizes, x.zero, {**blocks_of(x), dim: block.inner}))
    return made[0] if call.name == "slice" else made


def joined(call: PaddedCall) -> Any:
    """Cat: the dimension loses its padding, unless all operands have the same blocks there."""
    values = list(call.args[0])
    rank = len(call.made)
    dim = (call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", 0)) % rank
    if any(len(sizes_of(value)) != rank for value in values):
        return NotImplemented
    values, blocks = _with_common_blocks(values, dim)
    memory = {at: max(shape_of(value)[at] for value in values) for at in range(rank) if at != dim}
    if any(shape_of(value)[at] != memory[at] for value in values for at in blocks if at != dim):
        return NotImplemented
    values = [grown(value, memory) for value in values]
    return wrapped(call.run(values, dim), call.made, all(map(is_zero, values)), blocks)


def _with_common_blocks(values: list[Value], dim: int) -> tuple[list[Value], dict[int, int]]:
    """The operands of a cat along ``dim``, cut until all have the same blocks; and those blocks."""
    elsewhere = [{at: inner for at, inner in blocks_of(value).items() if at != dim} for value in values]
    if any(each != elsewhere[0] for each in elsewhere):
        return [without_blocks(cut(value, [dim])) for value in values], {}
    block, *others = {block_of(value, dim) for value in values}
    if others or block.inner == block.memory:
        return [cut(value, [dim]) for value in values], elsewhere[0]
    return values, {**elsewhere[0], dim: block.inner}


def embedding(call: PaddedCall) -> Any:
    """Look rows up in a table: a padded table gives padded rows."""
    weight = call.args[0]
    return wrapped(call.run(*call.args, **call.kwargs), call.made, is_zero(weight))
