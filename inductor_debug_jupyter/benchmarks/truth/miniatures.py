"""Attention, GPT-2, Llama and ViT in miniature, written out so that the zoo knows every line.

They follow the models of the ``transformers`` library (masks, norms, activations, rotary positions, grouped heads) and
need nothing but torch; the library's own are drawn in a full run only.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - what users write
from torch import Tensor, nn

from inductor_debug_jupyter.benchmarks.truth.models import WIDTH

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
