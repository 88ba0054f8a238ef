"""The changes of a graph as data; :mod:`~.backend` carries them out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import torch


@dataclass(frozen=True)
class Rewrite:
    """The changes of one or more fix-its.

    Attributes:
        pads: size → the size to pad it to, wherever it occurs.
        around: likewise, but only for operands of products and convolutions, whose results are cut at once.
        casts: dtype → the dtype to use instead, by name.
        channels_last: lay images and the weights that convolve them out with channels innermost.
        contiguous: ops whose operands are first copied row by row: module path and lowered name of each, with ``*`` for
            any number (``layers.*.attention:bmm``).
        decompose: take these ops apart, by lowered name.
        precise: ops to compute in float32 although the graph is in a 16-bit format, as
            :mod:`~inductor_debug_jupyter.pipeline.formats.places` calls them.
    """

    pads: Mapping[int, int] = field(default_factory=dict)
    around: Mapping[int, int] = field(default_factory=dict)
    casts: Mapping[str, str] = field(default_factory=dict)
    channels_last: bool = False
    contiguous: frozenset[str] = frozenset()
    decompose: frozenset[str] = frozenset()
    precise: frozenset[str] = frozenset()

    def __or__(self, other: Rewrite) -> Rewrite:
        """The changes of both rewrites; of two paddings of a size, the larger one."""
        return Rewrite(
            _larger(self.pads, other.pads),
            _larger(self.around, other.around),
            {**self.casts, **other.casts},
            self.channels_last or other.channels_last,
            self.contiguous | other.contiguous,
            self.decompose | other.decompose,
            self.precise | other.precise,
        )

    def copies(self, path: str, names: Iterable[str]) -> bool:
        """Whether the operands of an op in a module are copied; ``names`` are those that it may be lowered to."""
        return any(_pattern(each).fullmatch(f"{path}:{name}") is not None for each in self.contiguous for name in names)

    def dtype(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype to use instead of this one."""
        to = self.casts.get(str(dtype).removeprefix("torch."))
        return getattr(torch, to) if to else dtype


def place_of(path: str, op: str) -> str:
    """How a rewrite names an op in a module; the layers of a model have one name."""
    return re.sub(r"\b[0-9]+\b", "*", path) + f":{op}"


@lru_cache(maxsize=1024)
def _pattern(place: str) -> re.Pattern[str]:
    return re.compile(re.escape(place).replace(r"\*", "[0-9]+"))


def _larger(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {size: max(one.get(size, 0), other.get(size, 0)) for size in (*one, *other)}
