"""The small models of the zoo, each with ops that are found on one line only.

``# site: gelu (erf) <exp>`` behind a line says which ops a graph has for that line: ``gelu`` itself, ``erf`` behind
Inductor's decompositions, ``exp`` only in its backward. A fault in one of them must be blamed on that line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
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


# Attention, GPT-2, Llama and ViT in miniature: as in the transformers library, but every line is known ----------------


_HEADS = 2


def _heads(x: Tensor, heads: int = _HEADS) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


class Attention(nn.Module):
    """Scores plus a mask."""

    mask: Tensor

    def __init__(self, masked: float) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, WIDTH)
        blocked = torch.zeros(6, 6, dtype=torch.bool)
        blocked[:, 4:] = True
        self.register_buffer("mask", torch.zeros(6, 6).masked_fill(blocked, masked))

    def forward(self, x: Tensor) -> Tensor:
        """(2, 6, 16) → (2, 6, 24)."""
        q, k, v = (_heads(each) for each in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2)
        scores = scores * (2.0 / math.sqrt(q.shape[-1]))  # site: mul
        scores = scores + self.mask  # site: add
        weights = torch.softmax(scores, -1)  # site: softmax (exp)
        h = (weights @ v).transpose(1, 2).reshape(x.shape)
        h = self.out(h)
        return torch.tanh(h)  # site: tanh


class Gpt2(nn.Module):
    """Two blocks: LayerNorm, causal attention, GELU by tanh."""

    causal: Tensor

    def __init__(self, masked: float) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, WIDTH), nn.Embedding(8, WIDTH)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(5)])
        self.qkv = nn.ModuleList([nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2)])
        self.out = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(2)])
        self.up = nn.ModuleList([nn.Linear(WIDTH, 2 * WIDTH) for _ in range(2)])
        self.down = nn.ModuleList([nn.Linear(2 * WIDTH, WIDTH) for _ in range(2)])
        self.masked = masked
        self.register_buffer("causal", torch.ones(8, 8, dtype=torch.bool).triu(1))

    def forward(self, ids: Tensor) -> Any:
        """(2, 8) whole numbers → (2, 8, 24)."""
        h = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in range(2):
            h = h + self.out[layer](self._attend(self.norms[2 * layer](h), layer))
            h = h + self.down[layer](self._gelu(self.up[layer](self.norms[2 * layer + 1](h))))
        return self.norms[4](h)

    def _attend(self, x: Tensor, layer: int) -> Tensor:
        q, k, v = (_heads(each) for each in self.qkv[layer](x).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])  # site: div
        scores = scores.masked_fill(self.causal, self.masked)  # site: masked_fill
        weights = torch.softmax(scores, -1)  # site: softmax (exp)
        return (weights @ v).transpose(1, 2).reshape(x.shape)

    def _gelu(self, x: Tensor) -> Tensor:
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))  # site: tanh


class Llama(nn.Module):
    """One block: RMSNorm, rotary positions, grouped heads, SwiGLU; the keys are a result too."""

    def __init__(self, masked: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, WIDTH)
        self.q, self.kv, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.gate, self.up, self.down = (
            nn.Linear(WIDTH, 48, bias=False),
            nn.Linear(WIDTH, 48, bias=False),
            nn.Linear(48, WIDTH, bias=False),
        )
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.masked = masked

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """(2, 8) whole numbers → (2, 8, 24), and the keys."""
        h = self.tokens(ids)
        attended, keys = self._attend(self._norm(h))
        h = h + attended
        x = self._norm(h)
        gate = F.silu(self.gate(x))  # site: silu (exp) <sigmoid>
        return h + self.down(gate * self.up(x)), keys

    def _norm(self, x: Tensor) -> Tensor:
        variance = x.float().pow(2).mean(-1, keepdim=True)
        scale = torch.rsqrt(variance + 1e-6)  # site: rsqrt
        return self.weight * (x.float() * scale).to(x.dtype)

    def _attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q = self._turned(_heads(self.q(x)))
        k, v = (_heads(each, 1) for each in self.kv(x).chunk(2, -1))
        k = self._turned(k)
        length = x.shape[1]
        mask = torch.full((length, length), self.masked, dtype=x.dtype).triu(1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(12) + mask  # site: add
        weights = torch.softmax(scores.float(), -1).to(x.dtype)  # site: softmax (exp)
        return self.out((weights @ v).transpose(1, 2).reshape(x.shape)), k

    def _turned(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[2])[:, None] / torch.pow(100.0, torch.arange(0, 12, 2) / 12)
        angles = torch.cat([angles, angles], -1).to(x.dtype)
        other = torch.cat([-x[..., 6:], x[..., :6]], -1)
        even = x * torch.cos(angles)  # site: cos
        return even + other * torch.sin(angles)  # site: sin


class Vit(nn.Module):
    """One block on patches and a class token; Inductor makes one kernel of its attention, without an ``exp``."""

    def __init__(self, masked: float) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor) -> Any:
        """(2, 3, 8, 8) → (2, 5, 24)."""
        h = self.patches(x).flatten(2).transpose(1, 2)
        h = torch.cat([self.first.expand(h.shape[0], -1, -1), h], 1)
        q, k, v = (_heads(each) for each in self.qkv(self.before(h)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2)
        scores = scores * 0.3
        weights = torch.softmax(scores, -1)  # site: softmax
        h = h + self.out((weights @ v).transpose(1, 2).reshape(h.shape))
        inner = F.gelu(self.up(self.after(h)))  # site: gelu (erf) <exp>
        return h + self.down(inner)
