"""Whether tensors still hold what they held: a checksum of their bytes.

Torch counts writes to a tensor (``_version``), but not those through ``.data`` or a numpy array that shares its memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import torch

_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
_THREADS: Final = 4


def contents_of(values: Iterable[Any]) -> tuple[Any, ...] | None:
    """A fingerprint: equal for equal contents, and hardly ever for others; None for tensors that are not plain."""
    with ThreadPoolExecutor(_THREADS) as pool:  # a checksum does not hold Python's lock
        prints = list(pool.map(_fingerprint, values))
    return None if None in prints else tuple(prints)


def _fingerprint(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor):
        return repr(tensor)
    if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        return None
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    buffer: Any = plain.reshape(-1).view(torch.uint8).numpy()
    checksum = zlib.crc32(buffer)
    written = None if tensor.is_inference() else tensor._version
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), written, checksum
