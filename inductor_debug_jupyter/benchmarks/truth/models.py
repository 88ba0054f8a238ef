"""The small models of the zoo, each with ops that are found on one line only.

``# site: gelu (erf) <exp>`` behind a line says which ops a graph has for that line: ``gelu`` itself, ``erf`` behind
Inductor's decompositions, ``exp`` only in its backward. A fault in one of them must be blamed on that line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - what users write
from torch import Tensor, nn

WIDTH = 24
"""The last dimension of every model's result."""


class Mlp(nn.Module):
    """Three linears."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, WIDTH)
        self.center = nn.Parameter(torch.randn(32) * 0.1)

    def forward(self, x: Tensor) -> Any:
        """(8, 16) → (8, 24)."""
        h = self.first(x)
        h = torch.tanh(h)  # site: tanh
        h = self.second(h)
        h = F.gelu(h)  # site: gelu (erf) <exp>
        h = h - self.center  # site: sub
        h = self.third(h)
        gate = torch.sigmoid(h)  # site: sigmoid
        return h * gate  # site: mul


class ConvBn(nn.Module):
    """Convolutions and BatchNorm, in training."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm, self.deep = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3)
        self.head = nn.Linear(8, WIDTH)

    def forward(self, x: Tensor) -> Any:
        """(4, 3, 10, 10) → (4, 24)."""
        h = self.norm(self.stem(x))
        h = torch.relu(h)  # site: relu
        h = self.deep(h)
        h = F.silu(h)  # site: silu (exp) <sigmoid>
        h = h.mean((2, 3))  # site: mean
        return self.head(h)


class Gru(nn.Module):
    """A loop over time, one cell."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.new = nn.Linear(16 + WIDTH, WIDTH), nn.Linear(16 + WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """(8, 3, 16) → (8, 24)."""
        h = x.new_zeros(x.shape[0], WIDTH)
        for step in range(x.shape[1]):
            both = torch.cat([x[:, step], h], -1)
            z = torch.sigmoid(self.gate(both))  # site: sigmoid
            n = torch.tanh(self.new(both))  # site: tanh
            h = n + z * (h - n)
        return h


class GraphBreak(nn.Module):
    """Two graphs with plain Python in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """(8, 16) → (8, 24)."""
        h = torch.tanh(self.first(x))  # site: tanh
        h = _not_compiled(h)
        h = self.second(h)
        return torch.sigmoid(h)  # site: sigmoid


def _as_it_is(h: Tensor) -> Tensor:
    return h


_not_compiled: Callable[[Tensor], Tensor] = torch.compiler.disable(_as_it_is)  # type: ignore[no-untyped-call]


class Dynamic(nn.Module):
    """Sizes that Dynamo leaves open."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """(7, 16) → (7, 24)."""
        h = self.first(x) / x.shape[0]
        h = F.gelu(h)  # site: gelu (erf) <exp>
        h = self.second(h)
        return torch.softmax(h, -1)  # site: softmax (exp)


class InPlace(nn.Module):
    """Writes into its input, a buffer and a slice; gives a view and a copy of its input."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, WIDTH)
        self.register_buffer("calls", torch.zeros(16))
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """(8, 16) → (8, 24), a view of the input, a copy of it."""
        before = torch.clone(x)  # site: clone
        x.mul_(0.5)
        self.calls += x.mean(0)
        with torch.no_grad():
            self.scale.add_(0.25)
        h = self.first(x * self.scale)
        h[:, ::2] = 0.25
        h = torch.tanh(h)  # site: tanh
        return torch.exp(self.second(h)), x[:, :4], before  # site: exp


class Autocast(nn.Module):
    """Products in bfloat16, the rest as autocast chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """(8, 16) → (8, 24), float32."""
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.first(x)
            h = torch.tanh(h)  # site: tanh
            h = self.second(h).float()
        return torch.sigmoid(h)  # site: sigmoid


class Twin(nn.Module):
    """Numbers as far apart as coordinates and probabilities, in one result."""

    def __init__(self) -> None:
        super().__init__()
        self.place, self.score = nn.Linear(16, WIDTH // 2), nn.Linear(16, WIDTH // 2)

    def forward(self, x: Tensor) -> Tensor:
        """(8, 16) → (8, 24)."""
        score = torch.sigmoid(self.score(x))  # site: sigmoid
        place = torch.exp(self.place(x).clamp(-2, 2))  # site: exp
        return torch.cat([place * 1e6, score], -1)


def closure() -> tuple[Callable[[Tensor], Tensor], list[nn.Module]]:
    """A function that closes over modules, and those."""
    linear, norm = nn.Linear(16, WIDTH), nn.BatchNorm1d(WIDTH)

    def layer(x: Tensor) -> Tensor:
        h = norm(linear(x))
        return torch.tanh(h)  # site: tanh

    return layer, [linear, norm]
