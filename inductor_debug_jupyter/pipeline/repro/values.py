"""A value → the Python expression that makes it again, with torch alone.

Small tensors are written number by number; large ones of whole numbers, or whose exact values matter, as their bytes;
other large ones are drawn from a seed. Shapes, strides and dtypes are kept.
"""

from __future__ import annotations

import base64
import math
import textwrap
import zlib
from collections.abc import Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import ReproError

SMALL = 4096
"""The most elements of a tensor that is written number by number."""
LARGEST = 64 * 1024**2
"""The most bytes of a tensor whose exact values go into a script."""

_MAKERS = {
    "dense": '''\
def dense(shape, stride, dtype, seed):
    """Random numbers, the same every time."""
    size = 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if all(shape) else 0
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype).as_strided(shape, stride)
''',
    "listed": """\
def listed(numbers, shape, stride, dtype):
    return torch.tensor(numbers, dtype=torch.float64).to(dtype).as_strided(shape, stride) if dtype.is_floating_point \\
        else torch.tensor(numbers, dtype=dtype).as_strided(shape, stride)
""",
    "packed": '''\
def packed(text, shape, stride, dtype):
    """A tensor's own bytes."""
    data = bytearray(zlib.decompress(base64.b64decode(text)))
    return torch.frombuffer(data, dtype=dtype).as_strided(shape, stride)
''',
}
"""The functions that the expressions call."""


def makers_of(text: str) -> str:
    """The functions that expressions call, for the script that has these."""
    return "".join(f"\n{source}\n" for name, source in _MAKERS.items() if f"{name}(" in text)


def copy_of(value: Any) -> Any:
    """A copy of a tensor with the same strides; any other value itself."""
    if not isinstance(value, torch.Tensor):
        return value
    plain = value.detach()
    copy = _flat(plain).clone().as_strided(plain.shape, plain.stride()) if _has_strides(plain) else plain.clone()
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(copy, requires_grad=value.requires_grad)
    return copy.requires_grad_(value.requires_grad) if value.requires_grad else copy


def is_drawn(value: Any) -> bool:
    """Whether a script draws this value from a seed, unless it needs exact values."""
    return isinstance(value, torch.Tensor) and _has_strides(value) and _is_float(value) and _extent(value) > SMALL


def drawn(values: Sequence[Any]) -> list[Any]:
    """The values as a script without exact values has them."""
    return [_draw(value, seed) if is_drawn(value) else copy_of(value) for seed, value in enumerate(values)]


def expression(value: Any, seed: int, *, exact: bool) -> str:
    """The expression for one input.

    Raises:
        ReproError: it cannot be written.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value)
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, (tuple, list)):
        parts = ", ".join(expression(part, seed, exact=exact) for part in value)
        return f"[{parts}]" if isinstance(value, list) else f"({parts},)" if value else "()"
    if not isinstance(value, torch.Tensor):
        raise ReproError(f"an input of type {type(value).__name__} cannot be written into a script")
    written = _tensor(value, seed, exact)
    if isinstance(value, torch.nn.Parameter):
        return f"torch.nn.Parameter({written}, requires_grad={value.requires_grad})"
    return f"{written}.requires_grad_()" if value.requires_grad else written


def _tensor(tensor: torch.Tensor, seed: int, exact: bool) -> str:
    if (
        not _has_strides(tensor)
        or tensor.device.type == "meta"
        or type(tensor) not in (torch.Tensor, torch.nn.Parameter)
    ):
        raise ReproError(f"a {type(tensor).__name__} of layout {tensor.layout} cannot be written into a script")
    where = f"{list(tensor.shape)}, {list(tensor.stride())}, {tensor.dtype}"
    flat = _flat(tensor.detach()).cpu()
    if flat.numel() <= SMALL:
        numbers = flat.double().tolist() if _is_float(flat) and not flat.is_complex() else flat.tolist()
        return f"listed({numbers}, {where})"
    if not exact and is_drawn(tensor):
        return f"dense({where}, {seed})"
    size = flat.numel() * flat.element_size()
    if size > LARGEST:
        raise ReproError(f"an input of {size:,} bytes is too large for a script; at most {LARGEST:,}")
    packed = base64.b64encode(zlib.compress(flat.contiguous().view(torch.uint8).numpy().tobytes())).decode()
    lines = "\n".join(f'    "{line}"' for line in textwrap.wrap(packed, 100))
    return f"packed(\n{lines},\n    {where})"


def _draw(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """A tensor from a seed, as the function ``dense`` of a script makes it."""
    numbers = torch.randn(_extent(tensor), generator=torch.Generator().manual_seed(seed))
    copy = numbers.to(tensor.dtype).as_strided(tensor.shape, tensor.stride()).to(tensor.device)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copy, requires_grad=tensor.requires_grad)
    return copy.requires_grad_(tensor.requires_grad)


def _has_strides(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_quantized


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _extent(tensor: torch.Tensor) -> int:
    """How many elements of memory lie between a tensor's first and last element."""
    if math.prod(tensor.shape) == 0:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.as_strided((_extent(tensor),), (1,))
