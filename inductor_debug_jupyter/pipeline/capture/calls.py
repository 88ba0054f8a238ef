"""What the user called, with which inputs: so that it can be run again.

Inputs are copied before the call, since the call may change them. Only the first call of each model is kept: copies
cost memory. In a kernel the copies are within a budget that all sessions share. Where no comparison was requested
(the magic keeps calls just in case) models are not kept alive: a model that the user lets go of is gone.

One :class:`InputBudget` is for a whole kernel. A call that does not fit makes room: the copies that were not used for
the longest time are freed first, whichever session they belong to; that session raises an error when it is to run the
call again. Inputs of a requested comparison may be over the limit until it is over. A what-if shares the tensors
that it does not change with the call that it came from: they count once. The budget holds nothing alive: copies are
freed with their session.

A model that runs again under other modes, or other random numbers, is another model: :class:`CallModes` and
:class:`RandomState` are the circumstances of a call.
"""

from __future__ import annotations

import inspect
import logging
import random
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy
import torch

from inductor_debug_jupyter.pipeline.capture.sources import CallSite, running_call
from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat.regions import name_of_backend
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors

_DEVICES = ("cpu", "cuda", "xpu", "mps")


@dataclass(frozen=True)
class CallModes:
    """Autocast and grad mode.

    Attributes:
        autocast: the dtype for each kind of device on which ``torch.autocast`` was on.
        grad: whether grad mode was on; off in inference mode. Layers of torch take other paths without it
            (``nn.TransformerEncoderLayer`` is then a single op).
    """

    autocast: tuple[tuple[str, torch.dtype], ...] = ()
    grad: bool = True

    @classmethod
    def now(cls) -> CallModes:
        """Autocast, grad mode and inference mode of this thread, now."""
        on = (device for device in _DEVICES if torch.is_autocast_enabled(device))
        return cls(tuple((device, torch.get_autocast_dtype(device)) for device in on), torch.is_grad_enabled())

    @uncut
    def again(self) -> Iterator[None]:
        """Set these modes inside the block, whatever modes are on around it."""
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.grad))
            before = CallModes.now()
            for device in {device for device, _ in before.autocast} - {device for device, _ in self.autocast}:
                stack.enter_context(torch.autocast(device, enabled=False))
            for device, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype=dtype))
            yield


@dataclass(frozen=True, eq=False)
class RandomState:
    """The states of Python's, numpy's and torch's CPU generator."""

    python: Any
    arrays: Any
    tensors: torch.Tensor

    @classmethod
    def now(cls) -> RandomState:
        """The states at this moment."""
        return cls(random.getstate(), numpy.random.get_state(), torch.get_rng_state())

    def restore(self) -> None:
        """Let the generators go on from here."""
        random.setstate(self.python)
        numpy.random.set_state(self.arrays)
        torch.set_rng_state(self.tensors)


log = logging.getLogger("inductor_debug_jupyter")


class KeptInputs:
    """The copied inputs of one call, for as long as the budget has room for them."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], budget: InputBudget | None = None) -> None:
        self._values: tuple[tuple[Any, ...], dict[str, Any]] | None = (args, kwargs)
        self._budget = budget
        self.storages = _storages((args, kwargs))
        """Address of each tensor's memory → its bytes."""

    @property
    def nbytes(self) -> int:
        """The bytes that the copies have, or had."""
        return sum(self.storages.values())

    @property
    def are_there(self) -> bool:
        """Whether they were not freed."""
        return self._values is not None

    def values(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional arguments and those by name; the copies count as used just now."""
        assert self._values is not None, "check .are_there first"
        if self._budget is not None:
            self._budget.used(self)
        return self._values

    def let_go(self) -> None:
        """Free the copies."""
        self._values = None


class InputBudget:
    """``limit``: the most bytes that the kept inputs of all sessions together may have."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept: dict[int, weakref.ref[KeptInputs]] = {}
        """By identity, least recently used first."""
        self._has_warned = False

    @property
    def nbytes(self) -> int:
        """The bytes kept just now."""
        return _bytes_together(self._alive())

    def add(self, kept: KeptInputs) -> None:
        """Count copies, see :meth:`make_room`."""
        self._kept[id(kept)] = weakref.ref(kept)

    def used(self, kept: KeptInputs) -> None:
        """Move copies to the end of the order in which they are freed."""
        if id(kept) in self._kept:
            self._kept[id(kept)] = self._kept.pop(id(kept))

    def make_room(self, nbytes: int = 0, spared: Collection[KeptInputs] = ()) -> bool:
        """Free copies until ``nbytes`` more fit; False, and nothing is freed, when they are over the limit.

        Copies that are over the limit by themselves are freed first, and ``spared`` ones not at all.
        """
        if nbytes > self.limit:
            return False
        there = self._alive()
        for kept in sorted(there, key=lambda each: each.nbytes <= self.limit):
            if _bytes_together(there) + nbytes <= self.limit:
                break
            if kept.nbytes and not any(kept is each for each in spared):
                kept.let_go()
                there = [each for each in there if each is not kept]
                self._warn_once()
        self._alive()
        return True

    def _alive(self) -> list[KeptInputs]:
        there = [each for ref in self._kept.values() if (each := ref()) is not None and each.are_there]
        self._kept = {id(each): weakref.ref(each) for each in there}
        return there

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "kept inputs have more than %.4g MiB in all: those that were not used for the longest time are let go "
                "from now on. A session whose inputs went cannot run its call again, and says so: run its cell again",
                self.limit / (1 << 20),
            )


def bytes_of(values: Any) -> int:
    """The bytes of all tensors in a structure."""
    sizes: list[int] = []
    map_tensors(lambda tensor: sizes.append(tensor.numel() * tensor.element_size()), values)
    return sum(sizes)


def _storages(values: Any) -> dict[int, int]:
    found: dict[int, int] = {}

    def measure(tensor: torch.Tensor) -> None:
        try:
            storage = tensor.untyped_storage()
            found[storage.data_ptr() or id(tensor)] = storage.nbytes()
        except (NotImplementedError, RuntimeError):  # sparse, nested: its values lie in several places
            found[id(tensor)] = tensor.numel() * tensor.element_size()

    map_tensors(measure, values)
    return found


def _bytes_together(several: Iterable[KeptInputs]) -> int:
    together: dict[int, int] = {}
    for kept in several:
        together.update(kept.storages)
    return sum(together.values())


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
        """The copied positional arguments."""
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


FIRST, ALL, LAST = "first", "all", "last"
"""Which calls of a model are kept; a number stands for so many."""
LossReason = Literal["model is gone", "inputs were let go", "too large"]


@dataclass(frozen=True)
class LostCall:
    """A call that was seen and cannot be run again; ``nbytes`` are those of its inputs."""

    name: str
    reason: LossReason
    nbytes: int = 0


class CallLog:
    """Keeps the first call of each model, and later ones as ``keep`` says.

    Args:
        budget: what all copies together may have, those of other sessions included; models are then not kept alive.
            None: no limit, and they are.
        compares: the calls are going to be compared: models are kept alive in any case, no copy is refused, and none is
            freed for another one of this log. After the comparison :meth:`InputBudget.make_room` frees what is over.
    """

    def __init__(self, budget: InputBudget | None = None, *, compares: bool = False, keep: str = FIRST) -> None:
        self.budget = budget
        self._compares = compares
        self._keep = keep
        self.calls: list[ModelCall] = []
        self.later: list[ModelCall] = []
        """Calls behind the first of each model, in order."""
        self.lost: dict[str, LostCall] = {}
        """Models whose call was seen and cannot be run again → why."""
        self._seen: list[Callable[[], Callable[..., Any] | None]] = []

    def add(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], backend: Any = None
    ) -> None:
        """Remember a call unless its model was called before."""
        model = _model_of(function)
        if any(held() is model for held in self._seen):
            self._add_later(model, args, kwargs, backend)
            return
        self._forget_what_is_gone()
        held = _held(model, weakly=self.budget is not None and not self._compares)
        self._seen.append(held)
        nbytes = bytes_of((args, kwargs))
        own = [call.kept for call in self.calls] if self._compares else []
        if self.budget is not None and not self.budget.make_room(nbytes, spared=own) and not self._compares:
            self.lost[_name(model)] = LostCall(_name(model), "too large", nbytes)
            return
        self.calls.append(self._copy(held, model, args, kwargs, backend))

    def _copy(self, held: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], backend: Any) -> ModelCall:
        copied, named = _copied((args, kwargs))
        kept = KeptInputs(copied, named, self.budget)
        if self.budget is not None:
            self.budget.add(kept)
        name = name_of_backend(backend) if backend is not None else ""
        return ModelCall(held, _name(model), kept, RandomState.now(), running_call(), name, CallModes.now())

    def _add_later(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], backend: Any) -> None:
        """Keep a later call of a model, if ``keep`` says so."""
        if self._keep == FIRST:
            return
        first = next((call for call in self.calls if call.held() is model), None)
        others = [call for call in self.later if call.held() is model]
        if first is None or (self._keep.isdecimal() and len(others) + 1 >= int(self._keep)):
            return
        if self._keep == LAST:
            self.later = [call for call in self.later if call.held() is not model]
        self.later.append(self._copy(first.held, model, args, kwargs, backend))

    def compared(self) -> list[ModelCall]:
        """The calls that a comparison is of: the first of each model, all, or the last, as ``keep`` says."""
        first, later = self.there(), [call for call in self.later if call.is_there]
        if self._keep == LAST:
            return [next((each for each in later if each.held() is call.held()), call) for call in first]
        return [each for call in first for each in (call, *(one for one in later if one.held() is call.held()))]

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
