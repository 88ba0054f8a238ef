"""The small functions on which an adapter is tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Make = Callable[[int, torch.dtype], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Sample:
    """A function and how to make its inputs, for a size (a multiple of the alignment) and a dtype."""

    name: str
    function: Callable[..., Any]
    inputs: Make


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Reproducible numbers of any dtype, small enough for every dtype."""
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    if dtype is torch.bool:
        return drawn > 0
    return (drawn if dtype.is_floating_point or dtype.is_complex else (drawn * 3 + 3)).to(dtype)


def _one(n: int, dtype: torch.dtype) -> tuple[Any, ...]:
    return (numbers(n, n, dtype=dtype),)


def _two(n: int, dtype: torch.dtype) -> tuple[Any, ...]:
    return numbers(n, n, dtype=dtype), numbers(n, n, dtype=dtype, seed=1)


GRAPHS: tuple[Sample, ...] = (
    Sample("pointwise", lambda x, y: torch.relu(x) * y + 1.5, _two),
    Sample("matmul", lambda x, y: x @ y, _two),
    Sample("reduction", lambda x: x.sum(-1), _one),
    Sample("softmax", lambda x: torch.softmax(x, -1), _one),
    Sample("views", lambda x: x.t().reshape(-1)[: x.shape[0]] * 2, _one),
    Sample("several_outputs", lambda x, y: (x + y, x - y, x * 2), _two),
    Sample("no_inputs", lambda: torch.ones(8) * 3, lambda n, dtype: ()),
    Sample("scalar", lambda x: x.sum() * 2, _one),
)
"""The graphs on which every adapter is tested."""

OPS: dict[str, Sample] = {
    sample.name: sample
    for sample in (
        Sample("add", lambda x, y: x + y, _two),
        Sample("sub", lambda x, y: x - y, _two),
        Sample("mul", lambda x, y: x * y, _two),
        Sample("div", lambda x, y: x / (y + 3), _two),
        Sample("relu", torch.relu, _one),
        Sample("gelu", torch.nn.functional.gelu, _one),
        Sample("tanh", torch.tanh, _one),
        Sample("sigmoid", torch.sigmoid, _one),
        Sample("exp", torch.exp, _one),
        Sample("sqrt", lambda x: torch.sqrt(x + 2), _one),
        Sample("softmax", lambda x: torch.softmax(x, -1), _one),
        Sample("layer_norm", lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), _one),
        Sample("mm", torch.mm, _two),
        Sample("matmul", torch.matmul, _two),
        Sample("linear", torch.nn.functional.linear, _two),
        Sample("sum", lambda x: x.sum(-1), _one),
        Sample("mean", lambda x: x.mean(-1), _one),
        Sample("clone", lambda x: x.clone(), _one),
        Sample("neg", torch.neg, _one),
        Sample("abs", torch.abs, _one),
        Sample("maximum", torch.maximum, _two),
        Sample("transpose", lambda x: x.transpose(0, 1) + 0, _one),
    )
}
"""Op → a function that calls it. An adapter's op that is missing here is reported as not tried."""
