"""Devices whose arithmetic the package does not know, and devices with a fault, written without the package.

Each is a function of an ATen op, its arguments and keywords, as a ``TorchDispatchMode`` is given them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Rounding = Callable[[torch.Tensor], torch.Tensor]
Device = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Fault = Callable[[Any, tuple[Any, ...], Any], Any]
"""An op, its arguments and the healthy result → the faulty one."""

_MOVES = frozenset(
    ("relu", "clone", "where", "full", "full_like", "cat", "embedding", "arange", "max_pool2d_with_indices")
)


def name_of(func: Any) -> str:
    return func._schema.name.rpartition("::")[2].removesuffix("_")


def same(value: torch.Tensor) -> torch.Tensor:
    return value


def through(dtype: torch.dtype) -> Rounding:
    return lambda value: value.to(dtype).to(value.dtype)


brain, half = through(torch.bfloat16), through(torch.float16)


def truncated(bits: int) -> Rounding:
    """The last ``bits`` of a float32 are dropped."""
    return lambda value: (value.float().contiguous().view(torch.int32) & -(1 << bits)).view(torch.float32)


def up_or_down(value: torch.Tensor) -> torch.Tensor:
    """To float16, up or down at random, on average right."""
    near = value.half()
    other = torch.nextafter(near, torch.where(value > near.float(), torch.inf, -torch.inf).half())
    gap = (other.float() - near.float()).abs()
    share = torch.where(gap > 0, (value - near.float()).abs() / gap, 0)
    return torch.where(torch.rand(value.shape) < share, other, near).float()


def flushed(value: torch.Tensor) -> torch.Tensor:
    """To float16, but for numbers below its smallest normal one, which become zero."""
    return torch.where(value.abs() < 2.0**-14, 0.0, half(value))


def to_scaled(dtype: torch.dtype) -> Rounding:
    largest = torch.finfo(dtype).max

    def rounded(value: torch.Tensor) -> torch.Tensor:
        scale = value.abs().max().clamp_min(1e-30) / largest
        return (value / scale).to(dtype).float() * scale

    return rounded


def int8_tensor(value: torch.Tensor) -> torch.Tensor:
    scale = value.abs().max().clamp_min(1e-30) / 127
    return (value / scale).round() * scale


def blocks_of_16(value: torch.Tensor) -> torch.Tensor:
    """One exponent for 16 numbers, seven bits each."""
    flat = value.contiguous().reshape(-1)
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % 16)).view(-1, 16)
    _, exponent = torch.frexp(padded.abs().amax(1, keepdim=True))
    step = torch.ldexp(torch.ones_like(exponent, dtype=torch.float32), exponent - 7)
    return ((padded / step).round() * step).view(-1)[: len(flat)].view(value.shape)


def in_chunks(step: int, held: Rounding) -> Product:
    """The sum is rounded after so many terms."""

    def product(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for at in range(0, first.shape[-1], step):
            total = held(total + first[..., at : at + step] @ second[..., at : at + step, :])
        return total

    return product


def strided_lanes(held: Rounding) -> Product:
    """Eight lanes, each with every eighth term, and a tree over the lanes; all sums are rounded."""

    def product(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        lanes = [in_chunks(1, held)(first[..., lane::8], second[..., lane::8, :]) for lane in range(8)]
        while len(lanes) > 1:
            lanes = [held(one + other) for one, other in zip(lanes[::2], lanes[1::2], strict=True)]
        return lanes[0]

    return product


def device(
    first: Rounding = same,
    second: Rounding | None = None,
    result: Rounding = same,
    product: Product = torch.matmul,
    others: Rounding | None = None,
    before_bias: Rounding = same,
) -> Device:
    """A device that rounds what it multiplies, what it adds up, its results, and those of other ops."""
    second, others = second or first, others or result

    def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = name_of(func)
        if name in {"mm", "bmm"}:
            return result(product(first(args[0]), second(args[1])))
        if name in {"addmm", "baddbmm"}:
            total = before_bias(product(first(args[1]), second(args[2])))
            return result(kwargs.get("beta", 1) * args[0] + kwargs.get("alpha", 1) * total)
        if name == "convolution":
            total = before_bias(_convolution(product, first(args[0]), second(args[1]), args))
            return result(total if args[2] is None else total + args[2].view(-1, 1, 1))
        made = func(*args, **kwargs)
        if name in _MOVES or func.is_view or not _is_float(made):
            return made
        if isinstance(made, torch.Tensor):
            return others(made)
        return type(made)(others(each) if _is_float(each) else each for each in made)

    return run


def _convolution(product: Product, value: torch.Tensor, weight: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
    """A convolution of images as a matrix product: a column for each place of the result."""
    stride, padding, dilation = args[3:6]
    columns = torch.nn.functional.unfold(value, weight.shape[2:], dilation, padding, stride)
    sizes = torch.ops.aten.convolution(value[:1], weight, None, *args[3:]).shape[2:]
    return product(weight.flatten(1), columns).view(len(value), len(weight), *sizes)


def _is_float(made: Any) -> bool:
    first = made[0] if isinstance(made, tuple | list) else made
    return isinstance(first, torch.Tensor) and first.dtype is torch.float32


UNKNOWN: dict[str, Device] = {
    "float16, rounded up or down at random": device(half, result=up_or_down),
    "tf32 that truncates": device(truncated(13)),
    "bfloat16 that truncates": device(truncated(16), result=truncated(16)),
    "int8 weights of one scale": device(same, int8_tensor),
    "int8 weights of one scale, bfloat16 results": device(brain, int8_tensor, brain),
    "int8 weights and activations, bfloat16 results": device(int8_tensor, result=brain),
    "float8 e5m2": device(to_scaled(torch.float8_e5m2)),
    "float8 e5m2, bfloat16 results": device(to_scaled(torch.float8_e5m2), result=brain),
    "float8 e4m3 without a scale": device(through(torch.float8_e4m3fn)),
    "blocks with one exponent": device(blocks_of_16),
    "blocks with one exponent, bfloat16 results": device(blocks_of_16, result=brain),
    "products in float32, all else in bfloat16": device(others=brain),
    "bfloat16 weights alone": device(same, brain),
    "bfloat16 weights alone, bfloat16 sums": device(same, brain, brain, in_chunks(1, brain)),
    "float16 operands, bfloat16 results": device(half, result=brain),
    "float16 operands, bfloat16 sums": device(half, result=brain, product=in_chunks(8, brain)),
    "float32 operands, bfloat16 sums": device(result=brain, product=in_chunks(4, brain)),
    "bfloat16 twice": device(lambda value: brain(value) + brain(value - brain(value))),
}
"""Devices that are none of those that the package knows."""

KNOWN_OTHERWISE: dict[str, tuple[Device, str]] = {
    "bfloat16 sums, blocks of 32": (
        device(brain, result=brain, product=in_chunks(32, brain)),
        "bfloat16 throughout, bfloat16 sums",
    ),
    "float16 sums, chunks of 16": (
        device(half, result=half, product=in_chunks(16, half)),
        "float16 throughout, float16 sums",
    ),
    "float16 sums, eight lanes": (
        device(half, result=half, product=strided_lanes(half)),
        "float16 throughout, float16 sums",
    ),
    "bfloat16, rounded before a bias": (
        device(brain, result=brain, before_bias=brain),
        "bfloat16 throughout, float32 sums, rounded to bfloat16 before a bias is added",
    ),
    "bfloat16 products, rounded before a bias": (
        device(brain, before_bias=brain),
        "bfloat16 products with float32 sums, rounded to bfloat16 before a bias is added",
    ),
    "bfloat16 products, rounded themselves": (
        device(brain, result=brain, others=same),
        "bfloat16 products with float32 sums, each rounded to bfloat16",
    ),
    "float16 products, rounded themselves": (
        device(half, result=half, others=same),
        "float16 products with float32 sums, each rounded to float16",
    ),
    "float16 without denormals": (
        device(flushed, result=flushed),
        "float16 throughout without denormals, float32 sums",
    ),
    "float16 products without denormals": (device(flushed), "float16 products without denormals with float32 sums"),
    "float16": (device(half, result=half), "float16 throughout, float32 sums"),
    "bfloat16 products": (device(brain), "bfloat16 products with float32 sums"),
    "float32": (device(), "float32"),
}
"""Devices that the package knows, and what it calls them; their sums have an order of their own."""


def with_fault(healthy: Device, op: str, fault: Fault) -> Device:
    """The device, with a fault in one op: a function of the op, its arguments and the healthy result."""

    def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = healthy(func, args, kwargs)
        return fault(func, args, made) if name_of(func) == op else made

    return run


def _times(factor: float) -> Fault:
    return lambda func, args, made: made * factor


def _other_eps(func: Any, args: tuple[Any, ...], made: Any) -> Any:
    wrong = func(*args[:-1], 1e-2)
    right = func(*args)
    return (made[0] * (wrong[0] / right[0]).nan_to_num(1.0), *made[1:])


def _without_bias(func: Any, args: tuple[Any, ...], made: Any) -> Any:
    return made - args[0]


FAULTS: dict[str, tuple[str, Fault]] = {
    "a product is 1% too large": ("addmm", _times(1.01)),
    "a function is 1% too large": ("gelu", _times(1.01)),
    "the bias is left out": ("addmm", _without_bias),
    "another eps": ("native_layer_norm", _other_eps),
    "abs for relu": ("relu", lambda func, args, made: args[0].abs()),
}
"""What is wrong → the op, and the fault."""
