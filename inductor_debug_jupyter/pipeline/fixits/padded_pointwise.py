"""How ops that compute element by element keep padding: the op computes it like any element, and it stays finite.

It has to: a later product or derivative multiplies it by zero, and zero times infinity is NaN. An op that might make an
infinity of its padding gets another filling first; an op that is not listed here gets its operands without padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.fixits.padded import (
    Block,
    Padded,
    PaddedCall,
    block_of,
    blocks_of,
    filled,
    grown,
    is_zero,
    shape_of,
    sizes_of,
    tensor_of,
    without_blocks,
    wrapped,
)
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind, of_kind

AS_POINTWISE = frozenset(
    ("dropout", "clone", "contiguous", "detach", "alias", "to", "_to_copy", "lift_fresh", "lift_fresh_copy")
)
_ZERO_STAYS = AS_POINTWISE | frozenset(
    (
        *("relu", "gelu", "silu", "tanh", "neg", "abs", "sin", "square", "sqrt", "mul", "hardswish", "leaky_relu"),
        *("elu", "erf", "expm1", "log1p", "sign", "trunc", "round", "floor", "ceil", "asinh", "atan"),
    )
)
"""Ops that make zero of zero; a product does so when one factor is zero, since all padding is finite."""
_SUMS = frozenset(("add", "sub"))
_NEEDS_ONES = frozenset(("div", "log", "log2", "log10", "rsqrt", "sqrt", "reciprocal", "pow", "true_divide", "atan2"))
"""Ops that make NaN or an infinity of zero, or have no derivative there: their padding is filled with ones."""
_NEEDS_ZEROS = frozenset(("exp", "exp2", "expm1", "sinh", "cosh", "square", "log1p"))
"""Ops that may make NaN or an infinity of other numbers than zero: their padding is filled with zeros."""
_NEEDS_NOTHING = frozenset(
    (
        *("sigmoid", "relu6", "hardtanh", "hardsigmoid", "selu", "celu", "softplus", "mish", "threshold"),
        *("log_sigmoid", "clamp", "clamp_min", "clamp_max", "clip", "maximum", "minimum", "fmax", "fmin", "cos"),
        *("erfc", "rsub", "sgn", "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "nan_to_num"),
        *("lerp", "addcmul", "positive"),
        *("logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_not"),
        *("bitwise_xor", "masked_fill", "where", "softshrink", "hardshrink", "signbit", "frac"),
    )
)
"""Ops that make a finite number of any finite one."""
_CHOOSING = frozenset(("masked_fill", "where"))
"""Ops that may write an infinity they were given (for a mask) into the padding."""
KNOWN_POINTWISE = _ZERO_STAYS | _SUMS | _NEEDS_ONES | _NEEDS_ZEROS | _NEEDS_NOTHING


def call_without_blocks(call: PaddedCall) -> PaddedCall:
    """The same call with operands that are padded at the end of dimensions only."""
    args, kwargs = map_kind(Padded, without_blocks, (call.args, dict(call.kwargs)))
    return replace(call, args=args, kwargs=kwargs)


def pointwise(call: PaddedCall) -> Any:
    """An op that computes each element of its result from one element of each operand."""
    is_finite = all(map(math.isfinite, of_kind(float, (call.args, dict(call.kwargs)))))
    if len(call.results) != 1 or not (is_finite or call.name in _CHOOSING):
        return NotImplemented
    blocks = _same_blocks(call)
    if blocks is None:
        call, blocks = call_without_blocks(call), {}
    memory = _memory_of_result(call)
    args = [_fitted(value, memory, call.name) for value in call.args]
    made = wrapped(call.run(*args, **call.kwargs), call.made, _zero_after(call), blocks)
    if call.name not in _CHOOSING:
        return made
    chosen = call.args[2:] if call.name == "masked_fill" else [*call.args[1:], *call.kwargs.values()]
    is_known = is_finite and not any(isinstance(value, torch.Tensor | Padded) for value in chosen)
    return made if is_known else filled(made)


def _memory_of_result(call: PaddedCall) -> list[int]:
    """The result's shape in memory: in each dimension the largest of its operands, which repeat where they have 1."""
    memory = list(call.made)
    for value in call.values:
        sizes, shape = sizes_of(value), shape_of(value)
        for at in range(-len(sizes), 0):
            if sizes[at] != 1:
                memory[at] = max(memory[at], shape[at])
    return memory


def _fitted(value: Any, memory: Sequence[int], name: str) -> Any:
    """An operand padded for a result of this shape in memory, with the filling that the op needs."""
    if not isinstance(value, torch.Tensor | Padded):
        return value
    sizes = sizes_of(value)
    value = grown(value, {at: memory[at] for at in range(-len(sizes), 0) if sizes[at] != 1})
    if name in _NEEDS_ONES:
        return filled(value, 1.0)
    return filled(value) if name in _NEEDS_ZEROS else value


def _same_blocks(call: PaddedCall) -> dict[int, int] | None:
    """The result's blocks: those of the operands, which may repeat a dimension of 1; None when they differ."""
    rank = len(call.made)
    found: dict[int, set[Block]] = {}
    for value in call.values:
        sizes = sizes_of(value)
        for dim in range(len(sizes)):
            if sizes[dim] != 1:
                found.setdefault(rank - len(sizes) + dim, set()).add(block_of(value, dim))
    in_blocks = {rank - len(sizes_of(value)) + dim for value in call.values for dim in blocks_of(value)}
    if any(len(found[dim]) > 1 for dim in in_blocks):
        return None
    return {dim: next(iter(found[dim])).inner for dim in in_blocks}


def _zero_after(call: PaddedCall) -> bool:
    """Whether the padding of the result is certainly zero."""
    values = call.values
    if call.name == "mul":
        return any(isinstance(value, Padded) and value.zero for value in values)
    if call.name in _SUMS:
        alike = all(sizes_of(value) == call.made for value in values)
        return len(values) == 2 and alike and all(is_zero(value) for value in values)
    return call.name in _ZERO_STAYS and all(is_zero(value) for value in values)


def dropout(call: PaddedCall) -> Any:
    """Draw the noise for the elements without padding, so that the generator gives the same as to the original."""
    x, p, train = call.args
    if not train or p == 0.0:
        return pointwise(call) if isinstance(x, Padded) else NotImplemented
    tensor = tensor_of(x)
    if tensor is x and tensor.stride() == call.strides[0]:
        return NotImplemented
    ones = torch.empty_strided(call.made, call.strides[0], dtype=tensor.dtype, device=tensor.device).fill_(1)
    noise = grown(call.run(ones, p, True), dict(enumerate(tensor.shape)))
    return wrapped(tensor * tensor_of(noise), call.made, zero=True)
