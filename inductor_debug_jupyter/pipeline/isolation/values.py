"""Values ↔ JSON and bytes: what may go from one process to the other.

Numbers, strings, containers, dtypes and the like become tagged JSON. Tensors that share memory share it again on the
other side: each piece of memory is sent once, as bytes, with one entry per tensor (dtype, shape, strides, offset).
Anything else raises :class:`CannotSendError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import CannotSendError

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_ALIGNMENT = 64
_TORCH_ENUMS = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}

Special = Callable[[Any], dict[str, Any] | None]
"""Packs a kind of value that only the caller knows (a node of a graph); None for any other value."""


@dataclass
class Packer:
    """Packs values into JSON and collects their tensors. ``what`` names the values in an error."""

    what: str = "a value"
    special: Special | None = None
    tensors: list[torch.Tensor] = field(default_factory=list)
    _entries: list[dict[str, Any]] = field(default_factory=list)

    def pack(self, value: Any) -> Any:
        """One value as JSON; its tensors are kept for :meth:`memory`.

        Raises:
            CannotSendError: the value is of another kind.
        """
        if self.special is not None and (written := self.special(value)) is not None:
            return written
        if value is None or isinstance(value, bool | str) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, torch.Tensor):
            return {"tensor": self._tensor(value)}
        if isinstance(value, list):
            return self._all(value)
        if (parts := _parts(value)) is not None:
            return {parts[0]: self._all(parts[1])}
        if isinstance(value, Mapping):
            return {"dict": [self._all(item) for item in value.items()]}
        if (tagged := _constant(value)) is not None:
            return tagged
        raise CannotSendError(
            f"{self.what}: a {type(value).__module__}.{type(value).__qualname__} cannot go to another process; "
            "allowed: tensors, numbers, strings, dtypes and containers of these"
        )

    def _all(self, values: Iterable[Any]) -> list[Any]:
        return [self.pack(each) for each in values]

    def _tensor(self, tensor: torch.Tensor) -> int:
        if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
            raise CannotSendError(
                f"{self.what}: a {type(tensor).__name__} of layout {tensor.layout} on {tensor.device} cannot go to "
                "another process; allowed: plain dense tensors"
            )
        plain = tensor.detach().resolve_conj().resolve_neg()
        self.tensors.append(plain)
        self._entries.append(
            {
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "stride": list(plain.stride()),
                "device": str(tensor.device),
                "grad": tensor.requires_grad,
                "parameter": isinstance(tensor, torch.nn.Parameter),
            }
        )
        return len(self._entries) - 1

    def memory(self) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
        """An entry for each tensor, and the pieces of memory that they are views of."""
        pieces: dict[tuple[str, int], list[int]] = {}
        for index, tensor in enumerate(self.tensors):
            pieces.setdefault((str(tensor.device), tensor.untyped_storage().data_ptr() or -index - 1), []).append(index)
        blobs: dict[str, torch.Tensor] = {}
        for number, indices in enumerate(pieces.values()):
            spans = [_span(self.tensors[index]) for index in indices]
            start = min(first for first, _ in spans) // _ALIGNMENT * _ALIGNMENT
            end = max(last for _, last in spans)
            blobs[str(number)] = _bytes_of(self.tensors[indices[0]], start, end)
            for index, (first, _) in zip(indices, spans, strict=True):
                self._entries[index] |= {"piece": str(number), "offset": first - start}
        return self._entries, blobs


def _parts(value: Any) -> tuple[str, Iterable[Any]] | None:
    """Tag and parts of a value that is made of others; None for any other value."""
    if isinstance(value, torch.Size):
        return "size", value
    if type(value) is tuple:
        return "tuple", value
    if isinstance(value, set | frozenset):
        return type(value).__name__, sorted(value, key=str)
    if isinstance(value, slice):
        return "slice", (value.start, value.stop, value.step)
    return ("complex", (value.real, value.imag)) if isinstance(value, complex) else None


def _constant(value: Any) -> dict[str, Any] | None:
    """A dtype, layout, memory format, device or ``...`` as tagged JSON; None for any other value."""
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for tag, kind in _TORCH_ENUMS.items():
        if isinstance(value, kind):
            return {tag: str(value).removeprefix("torch.")}
    return None


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor's storage that it reaches, and the byte after its last."""
    first = int(tensor.storage_offset()) * tensor.element_size()
    if not tensor.numel():
        return first, first
    reach = 1 + sum((size - 1) * int(step) for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + reach * tensor.element_size()


def _bytes_of(tensor: torch.Tensor, start: int, end: int) -> torch.Tensor:
    if end == start:
        return torch.empty(0, dtype=torch.uint8)
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return whole.set_(tensor.untyped_storage(), start, (end - start,), (1,)).cpu()


class Unpacker:
    """Unpacks what a :class:`Packer` made; ``special`` unpacks the caller's own kinds, from tag and content."""

    def __init__(
        self,
        entries: list[dict[str, Any]],
        blobs: Mapping[str, torch.Tensor],
        special: Callable[[str, Any], Any] | None = None,
    ) -> None:
        self._special = special
        # A copy begins at an aligned address; the message need not.
        pieces = {name: blob.clone() for name, blob in blobs.items()}
        self.tensors = [_view(entry, pieces[entry["piece"]]) for entry in entries]

    def unpack(self, written: Any) -> Any:
        """The value that :meth:`Packer.pack` wrote."""
        if isinstance(written, list):
            return [self.unpack(each) for each in written]
        if not isinstance(written, dict):
            return written
        ((tag, content),) = written.items()
        if tag == "tensor":
            return self.tensors[content]
        if tag in _CONTAINERS:
            return _CONTAINERS[tag](self.unpack(content))
        if tag in _TORCH_ENUMS:
            return getattr(torch, content)
        if tag in _SINGLE:
            return _SINGLE[tag](content)
        if self._special is None:
            raise CannotSendError(f"what was sent has a {tag!r}, which is not known here")
        return self._special(tag, content)


_CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "size": torch.Size,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "slice": lambda parts: slice(*parts),
    "complex": lambda parts: complex(*parts),
}
_SINGLE: dict[str, Callable[[Any], Any]] = {"float": float, "device": torch.device, "ellipsis": lambda _: Ellipsis}


def _view(entry: Mapping[str, Any], piece: torch.Tensor) -> torch.Tensor:
    dtype = getattr(torch, entry["dtype"])
    tensor = torch.empty(0, dtype=dtype)
    if piece.numel():
        size = tensor.element_size()
        tensor.set_(piece.untyped_storage(), entry["offset"] // size, entry["shape"], entry["stride"])
    else:
        tensor = tensor.new_empty_strided(entry["shape"], entry["stride"])
    if entry["device"] != "cpu":
        tensor = tensor.to(entry["device"])
    if entry["parameter"]:
        return torch.nn.Parameter(tensor, requires_grad=entry["grad"])
    return tensor.requires_grad_(entry["grad"])
