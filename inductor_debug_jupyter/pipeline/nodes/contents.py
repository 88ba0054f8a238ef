"""Whether tensors still hold what they held: a checksum of their bytes.

Torch counts writes to a tensor (``_version``), but not those through ``.data`` or a numpy array that shares its memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import torch

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def contents_of(values: Iterable[Any]) -> tuple[Any, ...] | None:
    """Something that is equal for equal contents, and as good as never otherwise; None when that cannot be told."""
    told = [_told(value) if isinstance(value, torch.Tensor) else repr(value) for value in values]
    return None if None in told else tuple(told)


def _told(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        return None
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    buffer: Any = plain.reshape(-1).view(torch.uint8).numpy()
    checksum = zlib.crc32(buffer)
    written = None if tensor.is_inference() else tensor._version
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), written, checksum
