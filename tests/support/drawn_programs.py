"""Programs drawn at random for peak memory: in-place ops, views, residuals, attention, recurrent cells, convolutions.

A program is a chain of blocks over a tensor of [batch, tokens, width]. :func:`eager_peak` runs what Dynamo captured of
it with eager ops and real autograd under a mode that counts storages.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.proofs.inside_torch.peak import MeasuredPeak

WIDTH = 32


class Plain(nn.Module):
    """A block that is a function."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return self.function(h)


class Residual(nn.Module):
    """A linear beside the residual, added in place or not."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.linear, self.in_place = nn.Linear(WIDTH, WIDTH), in_place

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        made = self.linear(h)
        if self.in_place:
            made += h
            return made
        return made + h


class Attention(nn.Module):
    """Attention in four heads: torch's own, or written out with a mask that is filled in place."""

    def __init__(self, own: bool, in_place: bool) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.own, self.in_place = own, in_place

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h + self.out(self.mixed(h).transpose(1, 2).reshape(h.shape))

    def mixed(self, h: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm(h)).chunk(3, -1)
        q, k, v = (part.view(*part.shape[:2], 4, WIDTH // 4).transpose(1, 2) for part in parts)
        return F.scaled_dot_product_attention(q, k, v) if self.own else torch.softmax(self.scores(q, k), -1) @ v

    def scores(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return (q @ k.transpose(-1, -2)).mul_(0.3) if self.in_place else q @ k.transpose(-1, -2) * 0.3


class Image(nn.Module):
    """A convolution with BatchNorm and ReLU over the tensor as an image."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(in_place)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        image = h.reshape(-1, 4, 8, WIDTH // 4)
        return self.relu(self.norm(self.conv(image))).reshape(h.shape)


class State(nn.Module):
    """A buffer that the forward writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(16, 8, WIDTH))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        self.seen[: h.shape[0]].add_(h.detach())
        return h * 2


class Heads(nn.Module):
    """``nn.MultiheadAttention``, with or without weights, a mask and the batch first; drawn from the random numbers."""

    def __init__(self, with_mask: bool) -> None:
        super().__init__()
        weights, first, other, extra = (torch.rand(4) < 0.5).tolist()
        kinds = {"add_bias_kv": extra, "add_zero_attn": extra, "kdim": WIDTH // 2 if other else None}
        self.heads = nn.MultiheadAttention(WIDTH, 4, batch_first=first, **kinds)  # type: ignore[arg-type]
        self.weights, self.other, self.with_mask = weights, other, with_mask

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        keys = h[..., : WIDTH // 2] if self.other else h
        tokens = h.shape[1] if self.heads.batch_first else h.shape[0]
        mask = torch.ones(tokens, tokens, dtype=torch.bool).triu(1) if self.with_mask else None
        made: torch.Tensor = self.heads(h, keys, h, need_weights=self.weights, attn_mask=mask)[0]
        return made


class Checkpointed(nn.Module):
    """A block whose forward is computed again in the backward."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = checkpoint(self.block, h, use_reentrant=False)
        return made


class Steps(nn.Module):
    """A recurrent cell over the tokens."""

    def __init__(self, kind: type[nn.GRUCell | nn.LSTMCell]) -> None:
        super().__init__()
        self.cell = kind(WIDTH, WIDTH)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        state, made = None, []
        for token in h.unbind(1):
            state = self.cell(token, state)
            made.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(made, 1)


class Upscaled(nn.Module):
    """An image made twice as large, by a convolution or by interpolation, normalized, and made small again."""

    def __init__(self, learned: bool) -> None:
        super().__init__()
        self.grow = nn.ConvTranspose2d(4, 4, 2, 2) if learned else nn.Upsample(scale_factor=2, mode="bilinear")
        self.norm = nn.GroupNorm(2, 4) if learned else nn.InstanceNorm2d(4)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        image = h.reshape(-1, 4, 8, WIDTH // 4)
        return F.avg_pool2d(self.norm(self.grow(image)), 2).reshape(h.shape)


class Decoded(nn.Module):
    """A layer of ``nn.TransformerDecoder`` that looks at its own input."""

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(WIDTH, 4, 64, batch_first=True, norm_first=norm_first)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layer(h, h)
        return made


def _first_row(h: torch.Tensor) -> torch.Tensor:
    h = h * 2
    h[:, 0] = 0
    return h


def _most_rows(h: torch.Tensor) -> torch.Tensor:
    h = h * 2
    h[:, 1:] += 1
    return h


def _masked(h: torch.Tensor) -> torch.Tensor:
    h = h * 2
    h[h > 1] = 0.5
    return h


def _many(h: torch.Tensor) -> torch.Tensor:
    h = h + 1
    for _ in range(4):
        h.mul_(0.5).add_(1).neg_()
    return h


def _given_out(h: torch.Tensor) -> torch.Tensor:
    made = torch.empty_like(h)
    torch.add(h.detach(), 1, out=made)
    return h * made


def _transposed(h: torch.Tensor) -> torch.Tensor:
    return (h.transpose(1, 2) * 2).transpose(1, 2).contiguous()


BLOCKS: dict[str, Callable[[bool], nn.Module]] = {
    "linear": lambda _: nn.Linear(WIDTH, WIDTH),
    "wide": lambda on: nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(on), nn.Linear(4 * WIDTH, WIDTH)),
    "relu": nn.ReLU,
    "gelu": lambda _: nn.GELU(),
    "sigmoid": lambda on: Plain(torch.sigmoid_ if on else torch.sigmoid),
    "residual": Residual,
    "norm": lambda _: nn.LayerNorm(WIDTH),
    "sdpa": lambda on: Attention(True, on),
    "attention": lambda on: Attention(False, on),
    "image": Image,
    "state": lambda _: State(),
    "first row": lambda _: Plain(_first_row),
    "most rows": lambda _: Plain(_most_rows),
    "masked": lambda _: Plain(_masked),
    "fill": lambda _: Plain(lambda h: (h * 2).masked_fill_(h > 0, 0.0)),
    "many": lambda _: Plain(_many),
    "out": lambda _: Plain(_given_out),
    "transposed": lambda _: Plain(_transposed),
    "heads": Heads,
    "encoder": lambda on: nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True, norm_first=on),
    "decoder": Decoded,
    "gru": lambda _: Steps(nn.GRUCell),
    "lstm": lambda _: Steps(nn.LSTMCell),
    "upscaled": Upscaled,
    "rms": lambda _: nn.RMSNorm(WIDTH),
    "kept inputs": lambda _: Checkpointed(),
    "dropout": lambda on: nn.Dropout(0.3, inplace=on),
}


class Program(nn.Module):
    """A chain of blocks; with ``loss`` it ends in a number."""

    def __init__(self, blocks: list[nn.Module], loss: bool) -> None:
        super().__init__()
        self.blocks, self.loss = nn.ModuleList(blocks), loss

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            h = block(h)
        return h.mean() if self.loss else h


def drawn(seed: int, training: bool) -> tuple[Program, torch.Tensor, str]:
    """A program, its input, and the names of its blocks."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    chosen = [draw.choice([*BLOCKS]) for _ in range(draw.randint(2, 5))]
    in_place = [draw.random() < 0.7 for _ in chosen]
    blocks: list[nn.Module] = [nn.Linear(WIDTH, WIDTH)]
    blocks += [BLOCKS[name](on) for name, on in zip(chosen, in_place, strict=True)]
    text = ", ".join(name + " in place" * on for name, on in zip(chosen, in_place, strict=True))
    x = torch.randn(draw.choice([4, 16]), 8, WIDTH)
    return Program(blocks, training).train(training), x, text


def eager_peak(program: nn.Module, x: torch.Tensor, training: bool) -> int | None:
    """What is alive at most while the program runs eagerly; None where autograd refuses what it writes in place."""
    kept: list[Any] = []

    def keep(graph_module: torch.fx.GraphModule, _: Any) -> Any:
        def run(*args: Any) -> Any:
            kept[:] = [graph_module, args]
            return graph_module(*args)

        return run

    with torch.set_grad_enabled(training):
        torch.compile(program, backend=keep, fullgraph=True)(x)
        graph_module, args = kept
        with MeasuredPeak([*program.parameters(), *program.buffers(), x]) as measured:
            (result, *_) = graph_module(*args)
            if training:
                try:
                    result.backward()
                except RuntimeError as error:
                    if "modified by an inplace operation" not in str(error):
                        raise
                    return None
                finally:
                    program.zero_grad(set_to_none=True)
    return measured.peak
