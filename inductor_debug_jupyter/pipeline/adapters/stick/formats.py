"""The device's number formats: how each dtype of the host is held in device memory.

``float16`` is the device's own format. Every float is held as float16, and a finite number beyond its range becomes the
largest float16, as on accelerators that saturate. A kernel reads float16, computes in the tensor's own dtype, and
rounds its result to float16. ``float32`` holds every dtype unchanged (complex, too), so an error in this mode comes
from the layout, the transfers or a kernel, and never from rounding.

Both hold 64-bit integers in 32 bits. A number that does not fit is refused, because it would silently give a wrong
result.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from inductor_debug_jupyter.pipeline.adapters.stick.layout import StickLayout, dtype_text
from inductor_debug_jupyter.pipeline.errors import OptionError, RefusedError

FORMATS = ("float16", "float32")
ACCUMULATIONS = {"float32": torch.float32, "float16": torch.float16}

_NARROWED = {torch.int64: torch.int32, torch.bool: torch.uint8}
_HALVED = {torch.float32: torch.float16}
_OF_THE_DEVICE = frozenset(
    {torch.float16, torch.float32, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
)
_EXACT = frozenset(
    {*_OF_THE_DEVICE, torch.float64, torch.bfloat16, torch.complex64, torch.complex128, torch.uint16, torch.uint32}
)
_INT_POISON = {1: 0x55, 2: 0x5555, 4: 0x55555555}


@dataclass(frozen=True, slots=True)
class DeviceFormat:
    """One format, by its name.

    Raises:
        OptionError: there is no such format.
    """

    name: str = "float16"

    def __post_init__(self) -> None:
        if self.name not in FORMATS:
            raise OptionError(f"format={self.name!r}; allowed: {', '.join(FORMATS)}")

    @property
    def dtypes(self) -> frozenset[torch.dtype]:
        """Every dtype that the device can hold."""
        return _OF_THE_DEVICE if self.name == "float16" else _EXACT

    def held_as(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype in device memory.

        Raises:
            RefusedError: the device cannot hold it.
        """
        if dtype not in self.dtypes:
            known = ", ".join(sorted(map(dtype_text, self.dtypes)))
            raise RefusedError(f"the device cannot hold {dtype_text(dtype)}; it holds {known}")
        if dtype in _NARROWED:
            return _NARROWED[dtype]
        return _HALVED.get(dtype, dtype) if self.name == "float16" else dtype

    def layout(self, shape: tuple[int, ...], dtype: torch.dtype) -> StickLayout:
        """The layout of a tensor of that shape and dtype."""
        return StickLayout(tuple(shape), dtype, self.held_as(dtype))


def poison(dtype: torch.dtype) -> float | int | complex:
    """The content of unwritten device memory: NaN, or an integer that is unlikely to be computed."""
    if dtype.is_complex:
        return complex("nan+nanj")
    return float("nan") if dtype.is_floating_point else _INT_POISON[dtype.itemsize]


def to_held(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The values as device memory holds them.

    Raises:
        RefusedError: a whole number does not fit.
    """
    if values.dtype == dtype:
        return values
    if values.dtype is torch.int64:
        _check_fits(values, dtype)
    if dtype is torch.float16 and values.dtype.is_floating_point:
        largest = torch.finfo(dtype).max
        return torch.where(values.isinf(), values, values.clamp(-largest, largest)).to(dtype)
    return values.to(dtype)


def from_held(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The values as the host's dtype."""
    return values != 0 if dtype is torch.bool else values.to(dtype)


def _check_fits(values: torch.Tensor, dtype: torch.dtype) -> None:
    if not values.numel():
        return
    low, high = (int(each) for each in values.aminmax())
    limits = torch.iinfo(dtype)
    for value in (low, high):
        if not limits.min <= value <= limits.max:
            raise RefusedError(f"the int64 value {value} does not fit the device's {dtype_text(dtype)}")
