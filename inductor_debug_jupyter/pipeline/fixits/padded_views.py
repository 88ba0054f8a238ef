"""How ATen ops that only look at a padded tensor otherwise keep its padding: turned, reshaped, cut in parts, joined."""

from __future__ import annotations

from typing import Any

import torch

from inductor_debug_jupyter.pipeline.fixits.op_call import OpCall
from inductor_debug_jupyter.pipeline.fixits.padded import (
    Block,
    Padded,
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
from inductor_debug_jupyter.pipeline.fixits.reshaping import reshaped


def turned(call: OpCall) -> Any:
    """Ops whose arguments mean the same for a larger tensor: permute, transpose."""
    x, rank = call.args[0], len(call.made)
    if call.name == "permute":
        order = [dim % rank for dim in call.args[1]]
    elif call.name in {"t", "transpose", "swapaxes"}:
        one, other = call.args[1:] if call.name != "t" else (0, rank - 1)
        order = list(range(rank))
        if rank:
            order[one % rank], order[other % rank] = other % rank, one % rank
    else:
        x, order = without_blocks(x), []
    blocks = {to: blocks_of(x)[dim] for to, dim in enumerate(order) if dim in blocks_of(x)}
    return wrapped(call.run(x, *call.args[1:], **call.kwargs), call.made, is_zero(x), blocks)


def reshape(call: OpCall) -> Any:
    """Another shape for the same elements; the same bits as another dtype are looked at without padding."""
    if getattr(call.target, "_overloadname", "") == "dtype":
        return NotImplemented
    return reshaped(call.args[0], call.made)


def expand(call: OpCall) -> Any:
    """Dimensions of size 1 repeated."""
    x = call.args[0]
    sizes, shape = sizes_of(x), shape_of(x)
    target = list(call.made)
    for at in range(1, len(sizes) + 1):
        if sizes[-at] != 1:
            target[-at] = shape[-at]
    more = len(target) - len(sizes)
    blocks = {dim + more: inner for dim, inner in blocks_of(x).items()}
    return wrapped(tensor_of(x).expand(target), call.made, is_zero(x), blocks)


def parts_along(call: OpCall) -> Any:
    """Ops that take a part along one dimension: that one loses its padding, unless the part is made of whole blocks."""
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
        x = without_blocks(x)  # the other dimensions are counted otherwise afterwards
    made = call.run(x, *call.args[1:], **call.kwargs)
    if isinstance(made, torch.Tensor):
        return wrapped(made, call.made, is_zero(x), blocks_of(x))
    return [wrapped(part, sizes, is_zero(x), blocks_of(x)) for part, sizes in zip(made, call.results, strict=True)]


def _whole_blocks(call: OpCall, x: Padded, dim: int) -> Any:
    """The parts in blocks; None when one begins or ends in the middle of a block."""
    block = x.block(dim)
    if dim not in x.dims or call.name in {"select", "unbind"}:
        return None
    start = 0
    if call.name == "slice":
        start, _, step = _slice(call, x.sizes[dim])
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


def _slice(call: OpCall, size: int) -> tuple[int, int, int]:
    given = [*call.args[2:5], None, None, None][:3]
    return slice(*given).indices(size)


def joined(call: OpCall) -> Any:
    """One after the other: what is joined loses its padding there, unless all have the same blocks."""
    values = list(call.args[0])
    rank = len(call.made)
    dim = (call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", 0)) % rank
    if any(len(sizes_of(value)) != rank for value in values):
        return NotImplemented
    block = _common_block(values, dim)
    if block is None:
        values = [cut(value, [dim]) for value in values]
    elsewhere = [{at: inner for at, inner in blocks_of(value).items() if at != dim} for value in values]
    if any(each != elsewhere[0] for each in elsewhere):
        values = [without_blocks(value) for value in values]
        block, elsewhere = None, [{}]
    memory = {at: max(shape_of(value)[at] for value in values) for at in range(rank) if at != dim}
    if any(shape_of(value)[at] != memory[at] for value in values for at in elsewhere[0]):
        return NotImplemented
    values = [grown(value, memory) for value in values]
    blocks = {**elsewhere[0], **({dim: block.inner} if block is not None else {})}
    return wrapped(call.run(values, dim), call.made, all(map(is_zero, values)), blocks)


def _common_block(values: list[Value], dim: int) -> Block | None:
    """The block that all have along a dimension, if they are padded."""
    blocks = {block_of(value, dim) for value in values}
    block = next(iter(blocks))
    return block if len(blocks) == 1 and block.inner != block.memory else None


def embedding(call: OpCall) -> Any:
    """Rows of a table."""
    weight = call.args[0]
    return wrapped(call.run(*call.args, **call.kwargs), call.made, is_zero(weight))
