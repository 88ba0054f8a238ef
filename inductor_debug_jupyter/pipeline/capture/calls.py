"""What the user called, with which inputs: so that it can be run again for a comparison.

Inputs are copied before the call, since the call may change them. Only the first call of each model is kept, and only
when somebody is going to ask: copies cost memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors


@dataclass(frozen=True)
class ModelCall:
    """One call of a model or function."""

    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        """What a person calls it."""
        if isinstance(self.model, torch.nn.Module):
            return type(self.model).__name__
        return getattr(self.model, "__qualname__", type(self.model).__name__).replace("<locals>.", "")

    @property
    def inputs(self) -> tuple[Any, ...] | dict[str, Any]:
        """The inputs in one of the two forms that a harness takes: positional, or by name."""
        if not self.kwargs:
            return self.args
        if not self.args:
            return self.kwargs
        function = self.model.forward if isinstance(self.model, torch.nn.Module) else self.model
        return dict(inspect.signature(function).bind(*self.args, **self.kwargs).arguments)


class CallLog:
    """Keeps the first call of each model."""

    def __init__(self) -> None:
        self.calls: list[ModelCall] = []
        self._seen: set[int] = set()

    def add(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Remember a call unless its model was called before."""
        owner = getattr(function, "__self__", None)
        model: Callable[..., Any] = owner if isinstance(owner, torch.nn.Module) else function
        if id(model) not in self._seen:
            self._seen.add(id(model))
            self.calls.append(ModelCall(model, *_copied((args, kwargs))))


def _copied(values: Any) -> Any:
    """The same structure with every tensor copied: strides and ``requires_grad`` kept, the graph behind it cut."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().clone(memory_format=torch.preserve_format).requires_grad_(tensor.requires_grad)

    return map_tensors(copy, values)
