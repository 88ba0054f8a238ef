"""What the user called, with which inputs: so that it can be run again.

Inputs are copied before the call, since the call may change them. Only the first call of each model is kept: copies
cost memory. In a kernel the copies are within a budget that all sessions share. Where nobody asked for a comparison
(the magic keeps calls just in case) models are not kept alive: a model that the user lets go of is gone.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from inductor_debug_jupyter.pipeline.capture.kept_inputs import InputBudget, KeptInputs, bytes_of
from inductor_debug_jupyter.pipeline.capture.modes import CallModes, RandomState
from inductor_debug_jupyter.pipeline.capture.sources import CallSite, running_call
from inductor_debug_jupyter.pipeline.torch_compat.regions import name_of_backend
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors


@dataclass(frozen=True)
class ModelCall:
    """One call of a model or function.

    Attributes:
        held: answers with the model, or with None when it is gone.
        name: what a person calls it.
        kept: positional arguments and those by name, tensors copied.
        random_state: of the generators just before the call.
    """

    held: Callable[[], Callable[..., Any] | None]
    name: str
    kept: KeptInputs
    random_state: RandomState | None = None
    site: CallSite | None = None
    """Where the user wrote the call; None when that is not known."""
    backend: str = ""
    """The name of the user's own ``torch.compile`` backend that it went through; empty for a plain call."""
    modes: CallModes = field(default_factory=CallModes)
    """What was switched on around it."""

    @classmethod
    def of(cls, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModelCall:
        """A call of a model that is kept alive by it."""
        return cls(_held(model, weakly=False), _name(model), KeptInputs(args, kwargs))

    def with_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any], budget: InputBudget | None) -> ModelCall:
        """The same call with other inputs, which ``budget`` counts."""
        kept = KeptInputs(args, kwargs, budget)
        if budget is not None:
            budget.add(kept)
            budget.make_room()
        return replace(self, kept=kept, site=None, backend="")

    @property
    def model(self) -> Callable[..., Any]:
        """The model or function."""
        model = self.held()
        assert model is not None, "ask .is_there first"
        return model

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments."""
        return self.kept.values()[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        """Arguments by name."""
        return self.kept.values()[1]

    @property
    def is_there(self) -> bool:
        """Whether the model still exists, and its inputs were not let go."""
        return self.held() is not None and self.kept.are_there

    @property
    def inputs(self) -> tuple[Any, ...] | dict[str, Any]:
        """The inputs in one of the two forms that a harness takes: positional, or by name."""
        if not self.kwargs:
            return self.args
        if not self.args:
            return self.kwargs
        function = self.model.forward if isinstance(self.model, torch.nn.Module) else self.model
        return dict(inspect.signature(function).bind(*self.args, **self.kwargs).arguments)


LossReason = Literal["model is gone", "inputs were let go", "too large"]


@dataclass(frozen=True)
class LostCall:
    """A call that was seen and cannot be run again; ``nbytes`` are those of its inputs."""

    name: str
    reason: LossReason
    nbytes: int = 0


class CallLog:
    """Keeps the first call of each model.

    Args:
        budget: what all copies together may have, those of other sessions included; models are then not kept alive.
            None: no limit, and they are.
        asked: the calls are going to be compared: models are kept alive in any case, no copy is refused, and none is
            freed for another one of this log. After the comparison :meth:`InputBudget.make_room` frees what is over.
    """

    def __init__(self, budget: InputBudget | None = None, *, asked: bool = False) -> None:
        self.budget = budget
        self._asked = asked
        self.calls: list[ModelCall] = []
        self.lost: dict[str, LostCall] = {}
        """Models whose call was seen and cannot be run again → why."""
        self._seen: list[Callable[[], Callable[..., Any] | None]] = []

    def add(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], backend: Any = None
    ) -> None:
        """Remember a call unless its model was called before."""
        model = _model_of(function)
        if any(held() is model for held in self._seen):
            return
        self._forget_what_is_gone()
        held = _held(model, weakly=self.budget is not None and not self._asked)
        self._seen.append(held)
        nbytes = bytes_of((args, kwargs))
        own = [call.kept for call in self.calls] if self._asked else []
        if self.budget is not None and not self.budget.make_room(nbytes, spared=own) and not self._asked:
            self.lost[_name(model)] = LostCall(_name(model), "too large", nbytes)
            return
        copied, named = _copied((args, kwargs))
        kept = KeptInputs(copied, named, self.budget)
        if self.budget is not None:
            self.budget.add(kept)
        name = name_of_backend(backend) if backend is not None else ""
        state, site, modes = RandomState.now(), running_call(), CallModes.now()
        self.calls.append(ModelCall(held, _name(model), kept, state, site, name, modes))

    def there(self) -> list[ModelCall]:
        """The calls that can be run again."""
        self._forget_what_is_gone()
        return self.calls

    def _forget_what_is_gone(self) -> None:
        for call in self.calls:
            if call.held() is None:
                self.lost[call.name] = LostCall(call.name, "model is gone")
            elif not call.kept.are_there:
                too_large = self.budget is not None and call.kept.nbytes > self.budget.limit
                reason: LossReason = "too large" if too_large else "inputs were let go"
                self.lost[call.name] = LostCall(call.name, reason, call.kept.nbytes)
        self.calls = [call for call in self.calls if call.is_there]
        self._seen = [held for held in self._seen if held() is not None]


def _model_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The module whose call it is, also where torch put a function around it (``nn.Sequential`` by itself)."""
    for inner in (getattr(function, "__self__", None), getattr(function, "__wrapped__", None)):
        if isinstance(inner, torch.nn.Module):
            return inner
    return function


def _name(model: Callable[..., Any]) -> str:
    if isinstance(model, torch.nn.Module):
        return type(model).__name__
    return str(getattr(model, "__qualname__", type(model).__name__)).replace("<locals>.", "")


def _held(model: Callable[..., Any], *, weakly: bool) -> Callable[[], Callable[..., Any] | None]:
    if not weakly:
        return lambda: model
    if inspect.ismethod(model):  # made anew by each look at it: what counts is its object
        return weakref.WeakMethod(model)
    try:
        return weakref.ref(model)
    except TypeError:  # a built-in, which is there for good
        return lambda: model


def _copied(values: Any) -> Any:
    """The same structure with every tensor copied: strides and ``requires_grad`` kept, the graph behind it cut."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().clone(memory_format=torch.preserve_format).requires_grad_(tensor.requires_grad)

    return map_tensors(copy, values)
