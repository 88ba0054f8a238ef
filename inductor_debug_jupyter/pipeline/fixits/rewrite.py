"""What a fix-it changes in a graph: data, which :mod:`~.backend` carries out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import torch


@dataclass(frozen=True)
class Rewrite:
    """What to change.

    Attributes:
        pads: size → the size to pad it to, wherever it is.
        around: likewise, but only what products and convolutions read: what they make is cut at once.
        casts: dtype → the dtype to use instead, by name.
        channels_last: lay images and the weights that convolve them out with channels innermost.
        contiguous: copy what these ops read, row by row, before they do: module path and lowered name of each, with
            ``*`` in the place of a number (``layers.*.attention:bmm``).
        decompose: take these ops apart, by lowered name.
    """

    pads: Mapping[int, int] = field(default_factory=dict)
    around: Mapping[int, int] = field(default_factory=dict)
    casts: Mapping[str, str] = field(default_factory=dict)
    channels_last: bool = False
    contiguous: frozenset[str] = frozenset()
    decompose: frozenset[str] = frozenset()

    def __or__(self, other: Rewrite) -> Rewrite:
        """Both."""
        return Rewrite(
            _larger(self.pads, other.pads),
            _larger(self.around, other.around),
            {**self.casts, **other.casts},
            self.channels_last or other.channels_last,
            self.contiguous | other.contiguous,
            self.decompose | other.decompose,
        )

    def copies(self, path: str, names: Iterable[str]) -> bool:
        """Whether what an op in a module reads is copied; ``names`` are those that it may be lowered to."""
        return any(_pattern(each).fullmatch(f"{path}:{name}") is not None for each in self.contiguous for name in names)

    def dtype(self, dtype: torch.dtype) -> torch.dtype:
        """What a dtype becomes."""
        to = self.casts.get(str(dtype).removeprefix("torch."))
        return getattr(torch, to) if to else dtype


def place_of(path: str, op: str) -> str:
    """How a rewrite names an op in a module: alike for the layers of a model."""
    return re.sub(r"\b[0-9]+\b", "*", path) + f":{op}"


@lru_cache(maxsize=1024)
def _pattern(place: str) -> re.Pattern[str]:
    return re.compile(re.escape(place).replace(r"\*", "[0-9]+"))


def _larger(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {size: max(one.get(size, 0), other.get(size, 0)) for size in (*one, *other)}
