"""How ATen ops compute with padded tensors: a handler for each op computes its result and keeps the padding.

A handler gets the call's arguments (tensors, :class:`Padded` and plain values) and the sizes that the result has to
stand for, and returns ``NotImplemented`` where it cannot. Without a handler, an op runs on operands without padding:
the result is right, and the target still refuses that op.

An op that computes element by element (:func:`pointwise`) computes its padding like any element, and it stays finite.
It has to: a later product or derivative multiplies it by zero, and zero times infinity is NaN. An op that might make an
infinity of its padding gets another filling first; an op that is not listed here gets its operands without padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.fixits import padded_views
from inductor_debug_jupyter.pipeline.fixits.padded import (
    Block,
    Padded,
    PaddedCall,
    Value,
    WantedSizes,
    block_of,
    blocks_of,
    cut,
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


def compute(call: PaddedCall) -> Any:
    """The results of a call, with the padding that they can keep."""
    values = of_kind(Padded, (call.args, dict(call.kwargs)))
    handler = _HANDLERS.get(call.name)
    tags = getattr(call.target, "tags", ())
    if handler is None and torch.Tag.pointwise in tags and call.name in KNOWN_POINTWISE:
        handler = pointwise
    if handler is not None and (values or call.name in GROWING or handler is dropout):
        answer = handler(call if handler in _KNOW_BLOCKS else call_without_blocks(call))
        if answer is not NotImplemented:
            return answer
    return without_padding(call)


def without_padding(call: PaddedCall) -> Any:
    """The results of a call on operands without padding."""
    args, kwargs = map_kind(Padded, cut, (call.args, dict(call.kwargs)))
    return call.target(*args, **kwargs)


# Products -------------------------------------------------------------------------------------------------------------


def _linear(call: PaddedCall) -> Any:
    x, weight, bias = (*call.args, None)[:3]
    last = len(sizes_of(x)) - 1
    x, weight = _with_equal_features(x, weight, call.sizes)
    block = block_of(weight, 0) if 0 in blocks_of(weight) else None  # as another linear of the same weight padded it
    if call.inner:
        block = Block(call.inner, call.sizes.wanted.get(call.inner, call.inner))
    if block is not None:
        weight = call.sizes.in_blocks(weight, 0, block)
        bias = None if bias is None else filled(call.sizes.in_blocks(bias, 0, block))
    else:
        weight = grown(weight, {0: call.sizes.of(weight, (0,))[0]})
        bias = None if bias is None else filled(grown(bias, {0: shape_of(weight)[0]}))
    if not (is_zero(weight) or is_zero(x)):
        x = filled(x)
    leading = shape_of(x)[:-1] == sizes_of(x)[:-1]
    blocks = {} if block is None else {last: block.inner}
    return wrapped(call.run(x, weight, bias), call.made, leading and is_zero(weight), blocks)


def _with_equal_features(x: Value, weight: Value, sizes: WantedSizes) -> tuple[Value, Value]:
    """The operands of ``linear`` with the same padding in the dimension that it sums over."""
    last = len(sizes_of(x)) - 1
    x = cut(x, [dim for dim in blocks_of(x) if dim != last])
    if last in blocks_of(x):
        return x, sizes.in_blocks(weight, 1, block_of(x, last))
    weight = cut(weight, [1]) if 1 in blocks_of(weight) else weight
    inner = max(sizes.of(x, (-1,))[last], sizes.of(weight, (1,))[1])
    return grown(x, {-1: inner}), grown(weight, {1: inner})


def _matmul(call: PaddedCall) -> Any:
    left, right = call.args[:2]
    if len(sizes_of(left)) < 2 or len(sizes_of(right)) < 2:
        return NotImplemented
    left, right = cut(left, range(len(sizes_of(left)) - 2)), cut(right, range(len(sizes_of(right)) - 2))
    row, column = len(sizes_of(left)) - 2, len(sizes_of(right)) - 2
    if set(blocks_of(left)) - {row + 1} or set(blocks_of(right)) - {column}:
        left, right = without_blocks(left), without_blocks(right)
    if block_of(left, row + 1) != block_of(right, column):
        left, right = without_blocks(left), without_blocks(right)
    wanted = call.sizes
    inner = max(wanted.of(left, (-1,))[row + 1], wanted.of(right, (-2,))[column])
    left = grown(left, {row + 1: inner, row: wanted.of(left, (row,))[row]})
    right = grown(right, {column: inner, column + 1: wanted.of(right, (column + 1,))[column + 1]})
    if not (is_zero(left) or is_zero(right)):
        left = filled(left)
    return wrapped(call.run(left, right), call.made, is_zero(left) and is_zero(right))


def _addmm(call: PaddedCall) -> Any:
    bias, left, right = call.args
    if call.kwargs or len(sizes_of(bias)) != 1:
        return NotImplemented
    product = _matmul(PaddedCall(torch.ops.aten.mm.default, (left, right), {}, call.results, call.sizes))
    bias = filled(grown(bias, {0: shape_of(product)[1]}))
    made = tensor_of(product) + tensor_of(bias)
    rows = shape_of(product)[0] == sizes_of(product)[0]
    return wrapped(made, call.made, is_zero(product) and rows)


def _convolution(call: PaddedCall) -> Any:
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    x, weight, bias, groups = given.pop("input"), given.pop("weight"), given.pop("bias", None), given.pop("groups", 1)
    if len(sizes_of(x)) != len(sizes_of(weight)):
        return NotImplemented
    rest = range(2, len(sizes_of(x)))
    x, weight = cut(x, (0, *rest)), cut(weight, rest)
    out = call.sizes.of(weight, (0,))[0]
    if groups == 1:
        inner = max(call.sizes.of(x, (1,))[1], call.sizes.of(weight, (1,))[1])
        x, weight = grown(x, {1: inner}), grown(weight, {0: out, 1: inner})
        if not (is_zero(x) or is_zero(weight)):
            x = filled(x)
    elif groups == sizes_of(x)[1] == sizes_of(weight)[0]:
        groups = max(out, call.sizes.of(x, (1,))[1])
        x, weight = grown(x, {1: groups}), grown(weight, {0: groups})
    else:
        return NotImplemented
    if bias is not None:
        bias = filled(grown(bias, {0: shape_of(weight)[0]}))
    return wrapped(call.run(x, weight, bias, groups=groups, **given), call.made, is_zero(weight))


def _attention(call: PaddedCall) -> Any:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    query, key, value = (cut(given[name], range(len(sizes_of(given[name])) - 1)) for name in names[:3])
    width, last = sizes_of(query)[-1], len(sizes_of(query)) - 1
    if block_of(query, last) != block_of(key, last):
        query, key = without_blocks(query), without_blocks(key)
    if shape_of(value)[-1] != shape_of(query)[-1]:
        value = without_blocks(value)
    inner = max(call.sizes.of(query, (-1,))[len(sizes_of(query)) - 1], shape_of(key)[-1], shape_of(value)[-1])
    if inner == width:
        return NotImplemented
    query, key, value = (filled(grown(each, {-1: inner})) for each in (query, key, value))
    scale = given.get("scale")
    made = torch.nn.functional.scaled_dot_product_attention(
        tensor_of(query),
        tensor_of(key),
        tensor_of(value),
        cut(given.get("attn_mask")),
        given.get("dropout_p", 0.0),
        given.get("is_causal", False),
        scale=1 / math.sqrt(width) if scale is None else scale,
        enable_gqa=given.get("enable_gqa", False),
    )
    return wrapped(made, call.made, True, blocks_of(value))


# Over a dimension -----------------------------------------------------------------------------------------------------


def _batch_norm(call: PaddedCall) -> Any:
    x, *rest = call.args
    if not isinstance(x, Padded) or x.dims != (1,):
        return NotImplemented
    channels = x.tensor.shape[1]
    affine = [None if each is None else grown(each, {0: channels}) for each in rest[:4]]
    made = call.run(x, *affine, *rest[4:], **call.kwargs)
    for before, after in zip(rest[2:4], affine[2:], strict=True):
        if before is not None and tensor_of(before) is not tensor_of(after) and rest[4]:  # padded in a copy
            cut(before).copy_(tensor_of(after).narrow(0, 0, sizes_of(before)[0]))
    return wrapped(made, call.made, x.zero and affine[1] is not None)


def _layer_norm(call: PaddedCall) -> Any:
    x, shape, weight, bias, eps = (*call.args, *(None, None, 1e-5)[len(call.args) - 2 :])[:5]
    if not isinstance(x, Padded) or len(shape) != 1 or len(sizes_of(x)) - 1 not in x.dims:
        return NotImplemented
    x = filled(cut(x, range(len(x.sizes) - 1)))
    count, memory = sizes_of(x)[-1], shape_of(x)[-1]
    tensor = tensor_of(x)
    wide = torch.float32 if tensor.dtype in {torch.float16, torch.bfloat16} else tensor.dtype  # as torch's kernel does
    mean = tensor.to(wide).sum(-1, keepdim=True) / count
    offset = tensor_of(filled(Padded(tensor.to(wide) - mean, sizes_of(x), zero=False)))
    made = offset * torch.rsqrt((offset * offset).sum(-1, keepdim=True) / count + eps)
    if weight is not None:
        made = made * tensor_of(filled(grown(weight, {0: memory})))
    if bias is not None:
        made = made + tensor_of(filled(grown(bias, {0: memory})))
    return wrapped(made.to(tensor.dtype), call.made, zero=True)


def _softmax(call: PaddedCall) -> Any:
    x, dim, *rest = call.args
    assert isinstance(x, Padded)
    if dim % len(x.sizes) in x.dims:
        rows = cut(x, [at for at in x.dims if at != dim % len(x.sizes)])
        x = filled(rows, -math.inf)
    made = wrapped(call.run(x, dim, *rest, **call.kwargs), call.made, zero=False)
    return filled(made) if call.name == "log_softmax" else made


def _reduction(call: PaddedCall) -> Any:
    x = call.args[0]
    assert isinstance(x, Padded)
    rank = len(x.sizes)
    dims = _reduced_dims(call, rank)
    is_padded_there = bool({dim % rank for dim in dims} & set(x.dims))
    keepdim = bool(call.args[2] if len(call.args) > 2 else call.kwargs.get("keepdim", False))
    if call.name in _EXTREMES:
        if not x.tensor.is_floating_point():
            return NotImplemented
        x = filled(x, _EXTREMES[call.name]) if is_padded_there else x
        return wrapped(call.run(x, list(dims), keepdim), call.made, zero=False)
    if call.name == "mean" and is_padded_there:
        count = math.prod(x.sizes[dim] for dim in {dim % rank for dim in dims})
        total = tensor_of(filled(x)).sum(list(dims), keepdim=keepdim) / count
        return wrapped(total, call.made, x.zero)
    x = filled(x) if is_padded_there else x
    return wrapped(call.run(x, *call.args[1:], **call.kwargs), call.made, is_zero(x))


_EXTREMES = {"amax": -math.inf, "amin": math.inf}
"""Reductions that ignore padding of this value."""


def _reduced_dims(call: PaddedCall, rank: int) -> tuple[int, ...]:
    """The dimensions that a reduction is over; without any given, all."""
    given = call.args[1] if len(call.args) > 1 else call.kwargs.get("dim")
    return (given,) if isinstance(given, int) else tuple(given or range(rank))


def _pooling(call: PaddedCall) -> Any:
    x = call.args[0]
    if not isinstance(x, Padded) or x.dims != (len(x.sizes) - 3,):
        return NotImplemented
    return wrapped(call.run(x, *call.args[1:], **call.kwargs), call.made, x.zero)


def _cumsum(call: PaddedCall) -> Any:
    x, dim = call.args[:2]
    assert isinstance(x, Padded)
    made = call.run(*call.args, **call.kwargs)
    return wrapped(made, call.made, x.zero and dim % len(x.sizes) not in x.dims)


GROWING = frozenset(
    ("linear", "matmul", "mm", "bmm", "addmm", "conv1d", "conv2d", "conv3d", "scaled_dot_product_attention")
)
"""Ops that pad their operands by themselves; all others only keep padding."""

_HANDLERS: dict[str, Callable[[PaddedCall], Any]] = {
    "linear": _linear,
    **dict.fromkeys(("matmul", "mm", "bmm"), _matmul),
    "addmm": _addmm,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    "scaled_dot_product_attention": _attention,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    **dict.fromkeys(("softmax", "log_softmax", "_softmax", "_log_softmax"), _softmax),
    **dict.fromkeys(("sum", "mean", "amax", "amin"), _reduction),
    **dict.fromkeys(("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "max_pool2d_with_indices"), _pooling),
    "cumsum": _cumsum,
    **dict.fromkeys(("permute", "transpose", "t", "movedim", "swapaxes"), padded_views.turned),
    **dict.fromkeys(
        ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "view_as"),
        padded_views.reshape,
    ),
    "expand": padded_views.expand,
    **dict.fromkeys(("slice", "select", "split", "split_with_sizes", "chunk", "unbind"), padded_views.parts_along),
    **dict.fromkeys(("cat", "concat"), padded_views.joined),
    "embedding": padded_views.embedding,
    **dict.fromkeys(AS_POINTWISE, pointwise),
    "dropout": dropout,
}

_KNOW_BLOCKS: frozenset[Callable[[PaddedCall], Any]] = frozenset(
    (
        *(pointwise, _linear, _matmul, _attention, padded_views.turned, padded_views.reshape, padded_views.expand),
        *(padded_views.parts_along, padded_views.joined),
    )
)
"""Handlers that can take operands padded in blocks; the others get them padded at the end only."""
