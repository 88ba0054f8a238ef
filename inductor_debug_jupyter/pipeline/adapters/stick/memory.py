"""Device memory: the layout of a tensor in sticks, the number formats, and buffers that are poisoned until written.

The innermost dimension is cut into sticks of 128 bytes, and the rest of the last stick is padding. A float16 tensor of
65 elements takes 2 sticks of 64 cells: its device layout is ``[2, 64]``. Outer dimensions stay as they are
(``[3, 65]`` → ``[3, 2, 64]``), and a scalar takes one stick.

``float16`` is the device's own format. Every float is held as float16, and a finite number beyond its range becomes the
largest float16, as on accelerators that saturate. A kernel reads float16, computes in the tensor's own dtype, and
rounds its result to float16. ``float32`` holds every dtype unchanged (complex, too), so an error in this mode comes
from the layout, the transfers or a kernel, and never from rounding. Both hold 64-bit integers in 32 bits. A number that
does not fit is refused, because it would silently give a wrong result.

Kernels pass :class:`DeviceTensor` objects to each other. A kernel loads the range that its spec states into registers,
and stores its result in a buffer of its own. Memory that no kernel has written is poison: a kernel that reads padding,
or a stick that was never written, gets NaN (for integers: a sentinel).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import OptionError, RefusedError

STICK_BYTES = 128


@dataclass(frozen=True, slots=True)
class StickLayout:
    """The place of one tensor in device memory.

    Args:
        shape: as the host sees it.
        dtype: as the host sees it.
        device_dtype: the dtype in device memory.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    device_dtype: torch.dtype

    @property
    def stick(self) -> int:
        """Elements in one stick."""
        return STICK_BYTES // self.device_dtype.itemsize

    @property
    def inner(self) -> int:
        """Elements along the dimension that is cut into sticks."""
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        """How many rows of sticks there are."""
        return math.prod(self.shape[:-1])

    @property
    def sticks(self) -> int:
        """Sticks in one row."""
        return -(-self.inner // self.stick)

    @property
    def device_size(self) -> tuple[int, ...]:
        """Sizes in device memory."""
        return (*self.shape[:-1], self.sticks, self.stick)

    @property
    def nbytes(self) -> int:
        """Bytes in device memory, padding included."""
        return self.rows * self.sticks * STICK_BYTES

    def described(self, name: str, extent: Sequence[int] | None = None) -> dict[str, Any]:
        """An operand as a kernel spec states it; ``extent`` is the range that the kernel covers, by default all."""
        return {
            "name": name,
            "shape": list(self.shape),
            "dtype": dtype_text(self.dtype),
            "device_layout": list(self.device_size),
            "device_dtype": dtype_text(self.device_dtype),
            "range": list(self.device_size if extent is None else extent),
            "last_stick": self.inner - (self.sticks - 1) * self.stick if self.sticks else 0,
        }


def dtype_text(dtype: torch.dtype) -> str:
    """``float16``."""
    return str(dtype).removeprefix("torch.")


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

    def check_holds(self, tensor: torch.Tensor) -> None:
        """Check that the device can hold such a tensor.

        Raises:
            RefusedError: it cannot; the message says why.
        """
        if tensor.layout is not torch.strided or tensor.is_quantized:
            kind = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
            raise RefusedError(f"a {kind} tensor has no stick layout")
        self.held_as(tensor.dtype)

    def layout(self, shape: tuple[int, ...], dtype: torch.dtype) -> StickLayout:
        """The layout of a tensor of that shape and dtype."""
        return StickLayout(tuple(shape), dtype, self.held_as(dtype))


def to_held(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The values as device memory holds them.

    Raises:
        RefusedError: a whole number does not fit.
    """
    if values.dtype == dtype:
        return values
    if values.dtype is torch.int64 and values.numel():
        limits = torch.iinfo(dtype)
        for value in map(int, values.aminmax()):
            if not limits.min <= value <= limits.max:
                raise RefusedError(f"the int64 value {value} does not fit the device's {dtype_text(dtype)}")
    if dtype is torch.float16 and values.dtype.is_floating_point:
        largest = torch.finfo(dtype).max
        return torch.where(values.isinf(), values, values.clamp(-largest, largest)).to(dtype)
    return values.to(dtype)


def from_held(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The values as the host's dtype."""
    return values != 0 if dtype is torch.bool else values.to(dtype)


@dataclass(frozen=True, eq=False)
class DeviceTensor:
    """One tensor in device memory.

    Args:
        layout: where its elements lie in ``buffer``.
        buffer: the sticks, as ``[rows, sticks, elements]``.
        stride: the strides that the host's tensor has, or would have; ops like ``as_strided`` need them.
        offset: the storage offset that the host's tensor has, or would have.
        host: the host's own tensor, if the value came from the host.
    """

    layout: StickLayout
    buffer: torch.Tensor
    stride: tuple[int, ...]
    offset: int = 0
    host: torch.Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The host's shape."""
        return self.layout.shape

    def load(self, *, whole_sticks: bool = False) -> torch.Tensor:
        """The elements, in registers: the host's dtype, shape and strides.

        Args:
            whole_sticks: read padding as if it were data, as only a faulty kernel does.
        """
        layout = self.layout
        rows = self.buffer.view(layout.rows, layout.sticks * layout.stick)
        if whole_sticks and layout.shape:
            return from_held(rows, layout.dtype).reshape(*layout.shape[:-1], layout.sticks * layout.stick)
        values = from_held(rows[:, : layout.inner], layout.dtype).reshape(layout.shape)
        return restrided(values, self.stride)

    def to_host(self) -> torch.Tensor:
        """The host's tensor, at the storage offset of a host view, from which AOTAutograd makes views of inputs."""
        if self.host is not None:
            return self.host
        values = self.load()
        if not self.offset:
            return values
        room = values.new_empty(self.offset + values.untyped_storage().nbytes() // values.itemsize)
        room[self.offset :] = values.as_strided((len(room) - self.offset,), (1,))
        return room.as_strided(values.shape, values.stride(), self.offset)


def store(values: torch.Tensor, layout: StickLayout, *, extent: Sequence[int], offset: int = 0) -> DeviceTensor:
    """Write registers into a buffer of their own; nothing outside ``extent`` is written."""
    dtype = layout.device_dtype
    poison = float("nan") if dtype.is_floating_point or dtype.is_complex else _INT_POISON[dtype.itemsize]
    buffer = torch.full((layout.rows, layout.sticks, layout.stick), poison, dtype=dtype)
    if extent[-2]:
        held = to_held(values.detach(), dtype).reshape(layout.rows, layout.inner)
        written = min(layout.inner, extent[-2] * layout.stick)
        buffer.view(layout.rows, layout.sticks * layout.stick)[:, :written] = held[:, :written]
    return DeviceTensor(layout, buffer, tuple(values.stride()), offset)


def to_device(tensor: torch.Tensor, form: DeviceFormat) -> DeviceTensor:
    """A host tensor in device memory.

    Raises:
        RefusedError: the device cannot hold such a tensor.
    """
    form.check_holds(tensor)
    if type(tensor) not in {torch.Tensor, torch.nn.Parameter, torch.nn.Buffer}:
        raise RefusedError(f"a {type(tensor).__name__} is not a plain tensor")
    plain = tensor.detach().resolve_conj().resolve_neg()
    layout = form.layout(tuple(tensor.shape), tensor.dtype)
    held = store(plain, layout, extent=layout.device_size)
    return DeviceTensor(layout, held.buffer, tuple(tensor.stride()), int(tensor.storage_offset()), tensor)


def restrided(values: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """A copy of the values with these strides, also where several elements share an address."""
    if values.numel() == 0:
        return torch.empty_strided(values.shape, tuple(stride), dtype=values.dtype)
    extent = 1 + sum((size - 1) * step for size, step in zip(values.shape, stride, strict=True))
    if extent >= values.numel() and _is_dense(values.shape, stride):
        return torch.empty_strided(values.shape, tuple(stride), dtype=values.dtype).copy_(values)
    storage = torch.zeros(extent, dtype=values.dtype)
    places = torch.arange(extent).as_strided(values.shape, tuple(stride))
    storage[places.reshape(-1)] = values.reshape(-1)
    return storage.as_strided(values.shape, tuple(stride))


def _is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether no two elements share an address, as far as sorted strides can tell."""
    reach = 0
    for step, size in sorted((step, size) for size, step in zip(shape, stride, strict=True) if size > 1):
        if step <= reach:
            return False
        reach += (size - 1) * step
    return True
