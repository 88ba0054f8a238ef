"""Twelve models, and random calls of them: sizes, dtypes, strides, grad mode, training, autocast, changed weights.

A *draw* is one signature of a call (what must be traced anew when it changes); a model gets a few of them, and many
calls in an order of their own, so that what was traced first is used again after what was traced last.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Draw:
    """What is the same in all calls of one signature."""

    sizes: tuple[int, ...]
    dtype: torch.dtype
    layout: str
    mode: str
    train: bool
    input_grad: bool
    autocast: bool
    extra: int


@dataclass(frozen=True)
class Subject:
    """A model, how it is fixed, and which calls of it there are."""

    name: str
    build: Callable[[], nn.Module]
    options: dict[str, Any]
    shape: Callable[[tuple[int, ...]], tuple[int, ...]]
    sizes: tuple[Sequence[int], ...]
    arguments: Callable[[Tensor, Draw], tuple[tuple[Any, ...], dict[str, Any]]] = lambda x, _: ((x,), {})
    autocast: bool = True
    tolerance: float | None = None
    """The relative tolerance, where it is not that of the dtype: what is cast has that of the dtype it is cast to."""

    def draw(self, rng: random.Random) -> Draw:
        """One signature."""
        dtype = rng.choice([torch.float32, torch.float32, torch.float64, torch.bfloat16])
        return Draw(
            tuple(rng.choice(each) for each in self.sizes),
            dtype,
            rng.choice(["plain", "plain", "turned", "sliced", "expanded", "channels_last"]),
            rng.choice(["grad", "grad", "no_grad", "inference"]),
            rng.random() < 0.5,
            rng.random() < 0.5,
            self.autocast and dtype is torch.float32 and rng.random() < 0.2,
            rng.randrange(3),
        )

    def inputs(self, draw: Draw, seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Fresh values for a signature: the same for the same seed."""
        torch.manual_seed(seed)
        x = laid_out(self.shape(draw.sizes), draw)
        return self.arguments(x, draw)


def laid_out(shape: tuple[int, ...], draw: Draw) -> Tensor:
    """Random numbers in one of several layouts."""
    if draw.layout == "turned":
        x = torch.randn(shape[::-1]).permute(*reversed(range(len(shape))))
    elif draw.layout == "sliced":
        x = torch.randn(*shape[:-1], shape[-1] * 2 + 1)[..., 1::2]
    elif draw.layout == "expanded":
        x = torch.randn(1, *shape[1:]).expand(shape)
    elif draw.layout == "channels_last" and len(shape) == 4:
        x = torch.randn(shape).contiguous(memory_format=torch.channels_last)
    else:
        x = torch.randn(shape)
    x = x.to(draw.dtype)
    return x.requires_grad_() if draw.input_grad and draw.mode == "grad" else x


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(6, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.down = nn.Conv2d(6, 12, 1, stride=2)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = F.max_pool2d(x, 3, stride=1, padding=1)
        y += self.act(self.one(x))
        y = self.act(self.two(y) + x)
        return self.down(y).mean((2, 3))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> tuple[Tensor, Tensor]:
        rows, steps, width = x.shape
        q, k, v = self.qkv(x).view(rows, steps, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // 2) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        plain = scores.softmax(-1) @ v
        fused = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out((plain + fused).transpose(1, 2).reshape(rows, steps, width)), scores.detach().amax(-1)


class Loop(nn.Module):
    """A GRU, written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.new, self.head = nn.Linear(5 + 9, 18), nn.Linear(5 + 9, 9), nn.Linear(9, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = x.new_zeros(x.shape[0], 9)
        for step in x.unbind(1):
            reset, update = self.gates(torch.cat([step, h], -1)).sigmoid().chunk(2, -1)
            new = torch.tanh(self.new(torch.cat([step, reset * h], -1)))
            h = update * h + (1 - update) * new
        return self.head(h), h


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.places, self.head = nn.Embedding(11, 6), nn.Embedding(20, 6), nn.Linear(6, 11)

    def forward(self, tokens: Tensor, scale: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        h = F.gelu(self.table(tokens) + self.places(places)) * scale
        return self.head(h).log_softmax(-1)


class Several(nn.Module):
    """Results of many kinds: views of each other and of the input, integers, a dict in a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(10, 14), nn.Linear(14, 6)

    def forward(self, x: Tensor) -> tuple[dict[str, Any], list[Tensor], int]:
        h = self.one(x)
        y = self.two(F.silu(h))
        left, right = y.chunk(2, -1)
        named = {"h": h, "first": h[:1], "best": y.argmax(-1), "turned": y.transpose(0, 1), "x": x[..., :4]}
        return named, [left, right, y.sum(), y > 0, (h.exp() / (1 + h * h)).mean(-1)], x.shape[0] * 2


class InPlace(nn.Module):
    """Writes into what it computed, through views, into buffers, and into its input."""

    count: Tensor
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(7, 10), nn.Linear(10, 7)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(10))

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        h = self.one(x)
        view = h.view(-1)
        h.div_(2.0).add_(0.5)
        view.mul_(1.5)
        h[..., 0] = 1.0
        y = F.relu(self.two(h), inplace=True)
        z = y + 1
        z.clamp_(max=2.0)
        with torch.no_grad():
            self.count += 1
            self.seen.mul_(0.9).add_(h.detach().reshape(-1, 10).sum(0).to(self.seen.dtype), alpha=0.1)
        memory[:, 1:] += y.detach().reshape(-1, 7).sum(0)[1:].to(memory.dtype)
        memory.mul_(2)
        return z * y, memory


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.drop = nn.Linear(9, 13), nn.Linear(13, 9), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(F.relu(self.one(x)))
        h = F.dropout(h.transpose(0, 1), 0.2, self.training, inplace=True).transpose(0, 1)
        return self.two(h) + torch.rand_like(x) * 0.1


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(30, 50), nn.ReLU(), nn.Linear(50, 7))


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(10, 12), nn.LayerNorm(12), nn.GELU(), nn.Linear(12, 10), nn.Softmax(-1))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 10, 3, padding=1),
        nn.BatchNorm2d(10),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(10, 6, 3),
        nn.BatchNorm2d(6),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 5),
    )


def _tokens(x: Tensor, draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    kind = torch.int32 if draw.extra == 1 else torch.int64
    return ((x.detach()[..., 0].float().abs() * 5).to(kind).clamp(max=10), x[..., :1].detach()), {}


def _masked(x: Tensor, draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    steps = x.shape[1]
    mask = torch.ones(steps, steps, dtype=torch.bool).triu(1) if draw.extra != 1 else None
    return (x,), {"mask": mask, "causal": draw.extra == 2}


def _with_memory(x: Tensor, draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    memory = torch.randn(2, 7, dtype=draw.dtype)
    return (x, memory.T.contiguous().T if draw.extra == 1 else memory), {}


BATCHES = (1, 3, 5, 8)
SUBJECTS = (
    Subject("mlp", mlp, {"pad": {30: 64, 50: 64}}, lambda s: (s[0], 30), ((0, 1, 3, 8, 30, 50),)),
    Subject("normed", normed, {"pad": {12: 16, 10: 16}}, lambda s: (*s, 10), (BATCHES, (1, 10, 12))),
    Subject(
        "conv1d",
        lambda: nn.Conv1d(3, 10, 3, padding=1),
        {"pad": {3: 64, 10: 64}},
        lambda s: (s[0], 3, s[1]),
        ((0, 1, 3, 10), (3, 10, 16, 20)),
    ),
    Subject(
        "images",
        images,
        {"pad": {10: 16, 6: 8}, "channels_last": True},
        lambda s: (s[0], 3, s[1], s[2]),
        ((1, 2, 6, 10), (6, 10, 12), (6, 9)),
    ),
    Subject(
        "encoder",
        lambda: nn.TransformerEncoderLayer(12, 2, 20, dropout=0.1, batch_first=True),
        {"pad": {12: 16, 20: 32, 6: 8}},
        lambda s: (*s, 12),
        ((1, 2, 6), (1, 5, 12)),
    ),
    Subject("attention", Attention, {"pad": {6: 8, 36: 64}}, lambda s: (*s, 12), ((1, 3, 6), (1, 6, 12)), _masked),
    Subject("loop", Loop, {"pad_products": {9: 16, 14: 16}, "pad": {18: 32}}, lambda s: (*s, 5), (BATCHES, (1, 2, 3))),
    Subject("words", Words, {"pad": {6: 8, 11: 16}}, lambda s: (*s, 2), ((1, 6, 11), (1, 4, 6)), _tokens),
    Subject(
        "residual",
        Residual,
        {"pad": {6: 8}, "channels_last": True},
        lambda s: (s[0], 6, s[1], 6),
        ((1, 3, 6), (4, 6, 7)),
    ),
    Subject("several", Several, {"pad": {10: 16, 14: 16, 6: 8}}, lambda s: (*s, 10), ((1, 2, 10), (1, 3, 6))),
    Subject("in_place", InPlace, {"pad": {7: 8, 10: 16}}, lambda s: (*s, 7), ((1, 2, 7), (2, 3)), _with_memory),
    Subject(
        "dropping",
        Dropping,
        {"pad": {9: 16, 13: 16}, "cast": {"float64": "float32"}},
        lambda s: (*s, 9),
        ((1, 4, 9), (2, 13)),
        tolerance=1e-4,
    ),
)
