"""The key of a call, equal for calls that get the same guards, and a short description of its inputs.

A tensor counts with everything but its values; numbers, strings and flags count with their value, containers with their
elements, any other object by identity. A module's parameters count, too: after ``model.half()`` it is another model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.words import clip

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_SHOWN = 60


class _Identity:
    """A key that is equal only for the same object; it keeps the object alive, so that its id is not reused."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def call_key(target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
    """Equal for two calls that the compiler cannot tell apart."""
    state = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))
    return state, _module_key(target), _key(args), _key(kwargs)


def describe_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """``float32[2, 4], n=3``."""
    return ", ".join([*map(_describe, args), *(f"{name}={_describe(value)}" for name, value in kwargs.items())])


def _module_key(target: Callable[..., Any]) -> Hashable:
    owner = target if isinstance(target, torch.nn.Module) else getattr(target, "__self__", None)
    if not isinstance(owner, torch.nn.Module):
        return None
    tensors = (*owner.named_parameters(), *owner.named_buffers())
    modes = tuple(module.training for module in owner.modules())
    return modes, tuple((name, _tensor_key(tensor)) for name, tensor in tensors)


def _tensor_key(tensor: torch.Tensor) -> Hashable:
    layout = tuple(tensor.stride()) if tensor.layout == torch.strided else str(tensor.layout)
    return type(tensor), tuple(tensor.shape), layout, tensor.dtype, tensor.device, tensor.requires_grad


def _key(value: Any) -> Hashable:
    if isinstance(value, torch.Tensor):
        return _tensor_key(value)
    if isinstance(value, _PLAIN):
        return type(value), repr(value)
    if isinstance(value, Mapping):
        return type(value), tuple((_key(name), _key(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_key, value))
    return _Identity(value)


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        grad = " requires_grad" if value.requires_grad else ""
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{grad}"
    if isinstance(value, _PLAIN):
        return clip(repr(value), _SHOWN)
    if isinstance(value, (Mapping, list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__
