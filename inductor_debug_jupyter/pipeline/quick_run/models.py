"""Small models to start with, and inputs for models that came without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.torch_compat.regions import uncompiled

_LENGTH = 16
"""Tokens of a made-up sequence."""
_SIDE = 32
"""Pixels along each side of a made-up picture."""

Round = Callable[[int], int]
"""A size → the size to use: rounded up to the next multiple of the padding."""


BUILT_IN: dict[str, Callable[[Round], nn.Module]] = {
    "mlp": lambda padded: nn.Sequential(
        nn.Linear(padded(784), padded(500)), nn.GELU(), nn.Linear(padded(500), padded(10))
    ),
    "attention": lambda padded: nn.TransformerEncoderLayer(
        padded(96), nhead=2, dim_feedforward=padded(200), dropout=0.0, batch_first=True
    ),
    "convolution": lambda padded: nn.Sequential(
        nn.Conv2d(3, padded(12), 3, padding=1), nn.BatchNorm2d(padded(12)), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
    ),
}
"""Name → how to make it. Their sizes are no multiples of 64, so that there is something to find."""


def rounding(padding: int) -> Round:
    """Rounds up to multiples of ``padding``."""
    return lambda size: -(-size // padding) * padding


def chosen_model(model: Any, padded: Round) -> tuple[Callable[..., Any], str]:
    """The model to run, and its name: a built-in one, or the user's own.

    Raises:
        OptionError: there is no such model.
    """
    if isinstance(model, str) and model in BUILT_IN:
        return BUILT_IN[model](padded), model
    if not callable(model):
        given = repr(model) if isinstance(model, str) else type(model).__name__
        raise OptionError(f"model={given}; allowed: {', '.join(BUILT_IN)}, a module or a function")
    plain = uncompiled(model)
    named = type(plain) if isinstance(plain, nn.Module) else plain
    return plain, getattr(named, "__name__", type(plain).__name__)


def given_inputs(inputs: Any, dtype: torch.dtype) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The user's own inputs, positional and by name; what has a fraction comes in that dtype."""

    def cast(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    if isinstance(inputs, dict):
        return (), {str(name): cast(value) for name, value in inputs.items()}
    return tuple(map(cast, inputs if isinstance(inputs, tuple | list) else (inputs,))), {}


def made_inputs(model: nn.Module, name: str, batch: int, padded: Round, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """An input that fits the first layer that says what it takes.

    Raises:
        UsageError: no layer says.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Embedding):
            return (torch.randint(layer.num_embeddings, (batch, padded(_LENGTH))),)
        if (shape := _shape_for(layer, batch, padded)) is not None:
            return (torch.randn(shape).to(dtype),)
    raise UsageError(f"{name}: no layer says what it takes, so no input can be made up; give inputs=")


def _shape_for(layer: nn.Module, batch: int, padded: Round) -> tuple[int, ...] | None:
    if isinstance(layer, nn.TransformerEncoderLayer):
        return batch, padded(_LENGTH), layer.self_attn.embed_dim
    if isinstance(layer, nn.RNNBase):
        length = padded(_LENGTH)
        return (batch, length, layer.input_size) if layer.batch_first else (length, batch, layer.input_size)
    if isinstance(layer, nn.Linear):
        return batch, layer.in_features
    if isinstance(layer, nn.LayerNorm):
        return batch, *layer.normalized_shape
    for sides, kind in enumerate((nn.Conv1d, nn.Conv2d, nn.Conv3d), start=1):
        if isinstance(layer, kind):
            return (batch, layer.in_channels, *[padded(_SIDE)] * sides)
    return None
