"""Device memory: padded buffers, poisoned before they are written.

Kernels pass :class:`DeviceTensor` objects to each other. A kernel loads the range that its spec states into registers,
and stores its result in a buffer of its own. Memory that no kernel has written is poison: a kernel that reads padding,
or a stick that was never written, gets NaN (for integers: a sentinel).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from inductor_debug_jupyter.pipeline.adapters.stick.formats import DeviceFormat, from_held, poison, to_held
from inductor_debug_jupyter.pipeline.adapters.stick.layout import StickLayout, divided, divides
from inductor_debug_jupyter.pipeline.errors import RefusedError


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


def allocate(layout: StickLayout) -> torch.Tensor:
    """A poisoned buffer."""
    return torch.full(
        (layout.rows, layout.sticks, layout.stick), poison(layout.device_dtype), dtype=layout.device_dtype
    )


def store(
    values: torch.Tensor,
    layout: StickLayout,
    *,
    extent: Sequence[int],
    cores: int,
    offset: int = 0,
) -> DeviceTensor:
    """Write registers into a buffer of their own, each core its part; nothing outside ``extent`` is written."""
    buffer = allocate(layout)
    if extent[-2] == 0:
        return DeviceTensor(layout, buffer, tuple(values.stride()), offset)
    held = to_held(values.detach(), layout.device_dtype).reshape(layout.rows, layout.inner)
    cells = buffer.view(layout.rows, layout.sticks * layout.stick)
    written = min(layout.inner, extent[-2] * layout.stick)
    for start, stop in divided(layout, cores, extent):
        if divides(layout) == "rows":
            cells[start:stop, :written] = held[start:stop, :written]
        else:
            first, last = start * layout.stick, min(stop * layout.stick, written)
            cells[:, first:last] = held[:, first:last]
    return DeviceTensor(layout, buffer, tuple(values.stride()), offset)


def to_device(tensor: torch.Tensor, form: DeviceFormat, cores: int) -> DeviceTensor:
    """A host tensor in device memory.

    Raises:
        RefusedError: the device cannot hold such a tensor.
    """
    if tensor.layout is not torch.strided:
        raise RefusedError(f"a {str(tensor.layout).removeprefix('torch.')} tensor has no stick layout")
    if tensor.is_quantized:
        raise RefusedError("a quantized tensor has no stick layout")
    if type(tensor) not in {torch.Tensor, torch.nn.Parameter, torch.nn.Buffer}:
        raise RefusedError(f"a {type(tensor).__name__} is not a plain tensor")
    plain = tensor.detach().resolve_conj().resolve_neg()
    layout = form.layout(tuple(tensor.shape), tensor.dtype)
    held = store(plain, layout, extent=layout.device_size, cores=cores)
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
