"""The value regimes of the zoo: what the numbers of a model are like where a fault has to be seen.

A regime chooses the inputs, the value that masked places get, and the tail: what becomes of the model's result before
it is returned. ``# site: log`` behind a line says which ops a graph has for it; that is how the zoo knows the right
line (:mod:`~tests.proofs.zoo.subjects`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_LOWEST = torch.finfo(torch.float32).min


@dataclass(frozen=True)
class Regime:
    """One regime.

    Args:
        name: as in a case's id.
        masked: what masked places are filled with, inside attention and in the tail.
        offset: added to every input.
        spread: every input is multiplied by it first.
        ops: ops that only this regime's tail has, as the aot level calls them.
    """

    name: str
    masked: float = -1e4
    offset: float = 0.0
    spread: float = 1.0
    ops: tuple[str, ...] = ()


REGIMES = {
    regime.name: regime
    for regime in (
        Regime("plain"),
        Regime("mask-inf", masked=float("-inf")),
        Regime("mask-1e9", masked=-1e9),
        Regime("mask-min", masked=_LOWEST),
        Regime("huge-beside-tiny"),
        Regime("small"),
        Regime("near-constant", offset=20.0, spread=1e-2),
        Regime("denormal"),
        Regime("integers", ops=("bitwise_xor", "cumsum")),
        Regime("bools", ops=("logical_xor",)),
        Regime("complex", ops=("polar",)),
        Regime("nan", ops=("log",)),
        Regime("device", ops=("clone", "eq", "sum", "mm")),
    )
}
"""Every regime by name; ``device`` ends with what the stick simulator's faults are about."""


def float_input(regime: Regime, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """An input of the regime."""
    values = torch.randn(shape, generator=generator) * regime.spread + regime.offset
    if regime.name == "nan":
        values.view(-1)[3] = float("nan")
    return values


class Tail(nn.Module):
    """What becomes of a model's result, by regime."""

    def __init__(self, regime: Regime) -> None:
        super().__init__()
        self.kind = regime.name
        self.masked = regime.masked

    def forward(self, h: Tensor, mask: Tensor, tokens: Tensor) -> Any:
        """``h`` ends with as many elements as ``mask``; ``tokens`` are whole numbers."""
        if self.kind in {"mask-inf", "mask-1e9"}:
            return h.masked_fill(mask, self.masked)
        if self.kind == "mask-min":
            return h + torch.where(mask, self.masked, 0.0)
        if self.kind == "huge-beside-tiny":
            return torch.cat([h, mask.to(h.dtype).expand_as(h) * 3e6], -1)
        if self.kind == "small":
            return h * 1e-7
        if self.kind == "denormal":
            return h * 1e-39
        if self.kind in {"integers", "bools"}:
            return (h, *self._whole(mask, tokens))
        if self.kind == "complex":
            turned = torch.polar(h.abs() + 0.5, h)  # site: polar
            return turned * turned
        if self.kind == "nan":
            centred = h - h.mean(-1, keepdim=True)
            logs = torch.log(centred)  # site: log
            return torch.where(mask, logs, h)
        return self._device(h) if self.kind == "device" else h

    def _whole(self, mask: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        if self.kind == "integers":
            crossed = torch.bitwise_xor(tokens, 5)  # site: bitwise_xor
            summed = torch.cumsum(tokens, -1)  # site: cumsum
            return crossed, summed
        odd = tokens % 2 == 1
        flags = torch.logical_xor(odd, mask[0])  # site: logical_xor
        return (flags,)

    def _device(self, h: Tensor) -> tuple[Tensor, ...]:
        row = h.reshape(-1).repeat(3)[:130]
        copied = torch.clone(row[:65])  # site: clone
        zeros = torch.eq(row * 0.0, 0.0)  # site: eq
        padded = row[:100].sum()  # site: sum
        tall = row.abs()[:4].expand(4096, 4) + 1
        long = torch.ones(1, 4096, dtype=h.dtype) @ tall  # site: mm
        return h, copied, zeros, padded, long
