"""Round numbers to a format and keep them in the dtype that they have.

``float32`` stands for "as it is". ``tf32`` keeps ten bits behind the point of a float32, ``int8`` scales a tensor so
that its largest number is 127 and rounds to whole numbers (:func:`rounded_weight`, channel by channel).
``float8_e4m3fn`` scales a tensor so that its largest number is the format's own, as devices do that compute in it.
"""

from __future__ import annotations

from typing import Final, Literal

import torch

Format = Literal["float32", "tf32", "float16", "bfloat16", "float8_e4m3fn", "int8"]
NARROW: Final[tuple[Format, ...]] = ("float16", "bfloat16")
"""Formats that results are held in."""
_TF32_DROPPED: Final = 13
"""Bits of a float32 that tf32 does not have."""
_INT8_LARGEST: Final = 127.0


def rounded(value: torch.Tensor, kind: Format) -> torch.Tensor:
    """The tensor with every number rounded to the nearest one of the format, in its own dtype."""
    if kind == "float32" or not value.is_floating_point():
        return value
    if kind == "tf32":
        return _rounded_to_tf32(value)
    if kind == "int8":
        return _scaled(value, value.abs().amax() if value.numel() else value.new_tensor(1.0), kind)
    if kind == "float8_e4m3fn":
        return _scaled(value, value.abs().amax() if value.numel() else value.new_tensor(1.0), kind)
    return value.to(getattr(torch, kind)).to(value.dtype)


def rounded_weight(value: torch.Tensor, channel: int) -> torch.Tensor:
    """The tensor as int8 with a scale of its own for each index of dimension ``channel``."""
    others = [dim for dim in range(value.ndim) if dim != channel % max(1, value.ndim)]
    return _scaled(value, value.abs().amax(others, keepdim=True), "int8") if others else rounded(value, "int8")


def is_held_in(value: torch.Tensor, kind: Format) -> bool:
    """Whether every number of the tensor is one of the format."""
    return bool(torch.equal(rounded(value, kind).nan_to_num(), value.nan_to_num()))


def precision(kind: Format) -> float:
    """The distance of 1 to the next number of the format; for int8, of the largest number."""
    if kind in {"tf32", "int8"}:
        return 2.0**-10 if kind == "tf32" else 1 / _INT8_LARGEST
    return float(torch.finfo(getattr(torch, kind)).eps)


def unit(value: torch.Tensor, kind: Format) -> torch.Tensor:
    """The distance of neighbours in the format, at each number (at least at its smallest normal one)."""
    info = torch.finfo(getattr(torch, kind)) if kind != "tf32" else torch.finfo(torch.float16)
    _, exponents = torch.frexp(value.abs().double().clamp_min(float(info.smallest_normal)))
    return torch.ldexp(torch.full_like(value, float(info.eps), dtype=torch.float64), exponents - 1)


def _rounded_to_tf32(value: torch.Tensor) -> torch.Tensor:
    bits = value.float().contiguous().view(torch.int32)
    tie_to_even = (bits >> _TF32_DROPPED) & 1
    kept = (bits + ((1 << (_TF32_DROPPED - 1)) - 1) + tie_to_even) & ~((1 << _TF32_DROPPED) - 1)
    return torch.where(value.isfinite(), kept.view(torch.float32).to(value.dtype), value)


def _scaled(value: torch.Tensor, largest: torch.Tensor, kind: Format) -> torch.Tensor:
    top = _INT8_LARGEST if kind == "int8" else float(torch.finfo(torch.float8_e4m3fn).max)
    scale = torch.where(largest > 0, largest, torch.ones_like(largest)) / top
    if kind == "int8":
        return (value / scale).round().clamp(-top, top) * scale
    return (value / scale).to(torch.float8_e4m3fn).to(value.dtype) * scale
