"""How ops that compute element by element keep padding: it goes through the op with the rest, and stays finite.

Finite, since it meets zeros later (in a product, in a derivative), and zero times an infinity is no number. An op that
might make an infinity of its padding is given another filling first; one that is not known here is given its operands
without padding.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.fixits.op_call import OpCall
from inductor_debug_jupyter.pipeline.fixits.padded import (
    Block,
    Padded,
    Value,
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
"""Of zero they make zero; a product does when one factor is zero, all padding being finite."""
_SUMS = frozenset(("add", "sub"))
_NEEDS_ONES = frozenset(("div", "log", "log2", "log10", "rsqrt", "sqrt", "reciprocal", "pow", "true_divide", "atan2"))
"""What of zero is no number, or has no derivative there."""
_NEEDS_ZEROS = frozenset(("exp", "exp2", "expm1", "sinh", "cosh", "square", "log1p"))
"""What of a large number is an infinity, or of another one no number: of zero it is neither."""
_NEEDS_NOTHING = frozenset(
    (
        *(
            "sigmoid",
            "relu6",
            "hardtanh",
            "hardsigmoid",
            "selu",
            "celu",
            "softplus",
            "mish",
            "threshold",
            "log_sigmoid",
        ),
        *(
            "clamp",
            "clamp_min",
            "clamp_max",
            "clip",
            "maximum",
            "minimum",
            "fmax",
            "fmin",
            "cos",
            "erfc",
            "rsub",
            "sgn",
        ),
        *(
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "isnan",
            "isinf",
            "isfinite",
            "nan_to_num",
            "lerp",
            "addcmul",
            "positive",
        ),
        *("logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_not"),
        *("bitwise_xor", "masked_fill", "where", "softshrink", "hardshrink", "signbit", "frac"),
    )
)
"""Of any finite number they make a finite one."""
_CHOOSING = frozenset(("masked_fill", "where"))
"""What may put an infinity that it was given (for a mask) where the padding is."""
KNOWN_POINTWISE = _ZERO_STAYS | _SUMS | _NEEDS_ONES | _NEEDS_ZEROS | _NEEDS_NOTHING


def call_without_blocks(call: OpCall) -> OpCall:
    """The same call with operands that are padded at the end of dimensions only."""
    args, kwargs = map_kind(Padded, without_blocks, (call.args, dict(call.kwargs)))
    return replace(call, args=args, kwargs=kwargs)


def pointwise(call: OpCall) -> Any:
    """An op whose result has an element for each of its operands', repeated where they are of size 1."""
    is_finite = all(map(math.isfinite, of_kind(float, (call.args, dict(call.kwargs)))))
    if len(call.results) != 1 or not (is_finite or call.name in _CHOOSING):
        return NotImplemented
    blocks = _same_blocks(call)
    if blocks is None:
        call, blocks = call_without_blocks(call), {}
    values = call.values
    rank = len(call.made)
    memory = list(call.made)
    for value in values:
        sizes, shape = sizes_of(value), shape_of(value)
        for at in range(1, len(sizes) + 1):
            if sizes[-at] != 1:
                memory[rank - at] = max(memory[rank - at], shape[-at])

    def fitted(value: Any) -> Any:
        if not isinstance(value, torch.Tensor | Padded):
            return value
        sizes = sizes_of(value)
        wanted = {at: memory[rank - len(sizes) + at] for at in range(len(sizes)) if sizes[at] != 1}
        value = grown(value, wanted)
        if call.name in _NEEDS_ONES:
            return filled(value, 1.0)
        return filled(value) if call.name in _NEEDS_ZEROS else value

    args = [fitted(value) if not isinstance(value, list | tuple) else value for value in call.args]
    made = wrapped(call.run(*args, **call.kwargs), call.made, _zero_after(call, values), blocks)
    chosen = call.args[2:] if call.name == "masked_fill" else [*call.args[1:], *call.kwargs.values()]
    is_known = is_finite and not any(isinstance(value, torch.Tensor | Padded) for value in chosen)
    return made if is_known or call.name not in _CHOOSING else filled(made)


def _same_blocks(call: OpCall) -> dict[int, int] | None:
    """The result's blocks: those of every operand that is not repeated there; None when they differ."""
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


def _zero_after(call: OpCall, values: list[Value]) -> bool:
    if call.name == "mul":
        return any(isinstance(value, Padded) and value.zero for value in values)
    if call.name in _SUMS:
        alike = all(sizes_of(value) == call.made for value in values)
        return len(values) == 2 and alike and all(is_zero(value) for value in values)
    return call.name in _ZERO_STAYS and all(is_zero(value) for value in values)


def dropout(call: OpCall) -> Any:
    """The noise is drawn for the elements that there are: the generator gives what it gives the original."""
    x, p, train = call.args
    if not train or p == 0.0:
        return pointwise(call) if isinstance(x, Padded) else NotImplemented
    tensor = tensor_of(x)
    if tensor is x and tensor.stride() == call.strides[0]:
        return NotImplemented
    ones = torch.empty_strided(call.made, call.strides[0], dtype=tensor.dtype, device=tensor.device).fill_(1)
    noise = grown(call.run(ones, p, True), dict(enumerate(tensor.shape)))
    return wrapped(tensor * tensor_of(noise), call.made, zero=True)
