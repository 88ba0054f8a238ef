"""What one call of a model did: its outputs, the gradients of everything that it reached, and what it wrote to.

Paths: an output goes by its own path, a gradient by ``grad:`` and the name of the input or tensor, an input that was
written to by ``input:`` and its name, and a tensor of the model by what it is there: ``parameter:``, ``buffer:``,
``attribute:`` (a plain tensor, also in a list or dict), ``global:``, ``closure:`` or ``bound:`` (a default argument).
So do numbers, truth values and texts that it keeps there. A gradient that the model made itself, or left, goes by the
tensor's path: ``grad:parameter:layer.weight (as left)``. Other objects are put back after a run, but not compared.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

from inductor_debug_jupyter.pipeline.diff.contract import Facts, facts_of, is_dense
from inductor_debug_jupyter.pipeline.diff.elements import same_values
from inductor_debug_jupyter.pipeline.diff.outputs import GRADIENT, INPUT, flatten_outputs
from inductor_debug_jupyter.pipeline.rerun.copies import gradient_of
from inductor_debug_jupyter.pipeline.rerun.reachable import Reached
from inductor_debug_jupyter.pipeline.rerun.running import go_backward


@dataclass(slots=True)
class Effects:
    """What one call did.

    Attributes:
        values: outputs and gradients by path.
        after: every input and every tensor, number and text of the model, as the call left it.
        changed: the paths in ``after`` that are not as they were at the start, or were not there, or are no more.
        facts: what the tensors are beside their values.
        incomplete: what could not be done.
    """

    values: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    facts: dict[str, Facts] = field(default_factory=dict)
    incomplete: list[str] = field(default_factory=list)

    def note_forward(self, outputs: Mapping[str, Any], state: Mapping[str, torch.Tensor]) -> None:
        """Take in what the forward gave, before anything else can write to it."""
        self.values.update(outputs)
        self.facts = facts_of({**state, **outputs})

    def note_state(self, before: Mapping[str, Any], after: dict[str, Any]) -> None:
        """Take in what inputs and model are like at the end."""
        self.after = after
        self.changed = {path for path, value in after.items() if is_changed(before.get(path), value)}
        self.changed |= before.keys() - after.keys()

    def freeze(self, before: Mapping[str, Any]) -> None:
        """Copy what a later call could write to; what did not change is still what it was before the run."""
        self.values = {path: _copied(value) for path, value in self.values.items()}
        self.after = {
            path: _copied(value) if path in self.changed else before[path] for path, value in self.after.items()
        }


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return value.copy() if isinstance(value, numpy.ndarray) else value


def state_of(model: Any, reached: Reached, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Every input, and every tensor that the model reaches, by path: what it may write to."""
    found = {INPUT + name: value for name, value in flatten_outputs(bound(model, args, kwargs)).items()}
    found |= reached.tensors()
    return {path: value for path, value in found.items() if isinstance(value, torch.Tensor) and is_dense(value)}


def everything_of(model: Any, reached: Reached, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """That, the gradients that those tensors have, and the numbers and texts that the model keeps."""
    state = state_of(model, reached, args, kwargs)
    gradients = {f"{GRADIENT}{path} (as left)": gradient_of(tensor) for path, tensor in state.items()}
    held = {path: value for path, value in gradients.items() if value is not None and is_dense(value)}
    return {**reached.plain, **state, **held}


def differentiate(
    effects: Effects,
    outputs: Mapping[str, Any],
    state: Mapping[str, torch.Tensor],
    given: Sequence[torch.Tensor] | None,
    noise: AbstractContextManager[Any],
) -> None:
    """Go backward from every output with the same weights on both sides, and collect the gradients.

    What the model itself has left as gradients is not counted in, and is there again afterwards.
    """
    starts = {path: each for path, each in outputs.items() if isinstance(each, torch.Tensor) and each.requires_grad}
    if not starts:
        effects.incomplete.append("no output requires a gradient: there were no gradients to compare")
        return
    tensors = [(path, tensor, tensor.grad) for path, tensor in _differentiable(state)]
    for _, tensor, _ in tensors:
        tensor.grad = None
    with noise:
        go_backward(starts, given)
    for path, tensor, left in tensors:
        name = GRADIENT + path.partition(":")[2]
        effects.values[name if name not in effects.values else GRADIENT + path] = tensor.grad
        tensor.grad = left


def _differentiable(state: Mapping[str, torch.Tensor]) -> Iterable[tuple[str, torch.Tensor]]:
    """Tensors that can have a gradient, each once, by the first of its names."""
    once: dict[int, tuple[str, torch.Tensor]] = {}
    for path, tensor in state.items():
        if tensor.is_leaf and tensor.requires_grad:
            once.setdefault(id(tensor), (path, tensor))
    return once.values()


def is_changed(before: Any, after: Any) -> bool:
    """Whether a run wrote to it; NaN that was there before is no change."""
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return type(before) is not type(after) or (before != after and before is not after)
    if before.device != after.device or before.dtype != after.dtype:
        return True
    old, new = before.detach(), after.detach()
    return not torch.equal(old, new) and not same_values(old, new)


def bound(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names that the model gives them, or by position when it has no readable signature."""
    try:
        signature = inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
        return dict(signature.bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {f"input_{index}": value for index, value in enumerate(args)} | kwargs
