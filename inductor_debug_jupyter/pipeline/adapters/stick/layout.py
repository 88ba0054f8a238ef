"""The layout of a tensor in device memory: sticks of 128 bytes.

The innermost dimension is cut into sticks, and the rest of the last stick is padding. A float16 tensor of 65
elements takes 2 sticks of 64 cells: its device layout is ``[2, 64]``. Outer dimensions stay as they are
(``[3, 65]`` → ``[3, 2, 64]``), and a scalar takes one stick.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

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


def divided(layout: StickLayout, cores: int, extent: Sequence[int]) -> list[tuple[int, int]]:
    """The part that each core writes, as start and stop; cores without a part are left out.

    The parts are along the dimension that :func:`divides` names, and together they cover ``extent``.
    """
    size = layout.rows if divides(layout) == "rows" else extent[-2]
    share = -(-size // cores) if size else 0
    return [(start, min(start + share, size)) for start in range(0, size, share)] if share else []


def divides(layout: StickLayout) -> str:
    """The dimension that is divided among the cores: ``rows``, or ``sticks`` where there are more of them."""
    return "rows" if layout.rows >= layout.sticks else "sticks"
