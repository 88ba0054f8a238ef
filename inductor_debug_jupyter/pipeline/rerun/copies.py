"""Two executions that start alike, and leave the user's things as they were.

Each side gets its own copy of the module and of the inputs, and starts from the same state of every random number
generator; afterwards the generators are where the user left them. What cannot be copied as a whole (a function and what
it closes over, a module that refuses to be copied, globals that a module's code names) is used itself: while it runs,
the tensors that it reaches are replaced by copies, and afterwards everything is put back. So no run ever writes to a
tensor of the user's, and a graph that the user has not gone backward through yet stays whole.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy
import torch

from inductor_debug_jupyter.pipeline.capture.calls import RandomState
from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.rerun.holders import Holder
from inductor_debug_jupyter.pipeline.rerun.reachable import Reached, reach
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors

log = logging.getLogger("inductor_debug_jupyter")

Memo = dict[Any, Any]
"""As ``copy.deepcopy`` keeps it: id → copy. Tensors that share memory do so in their copies too."""


@uncut
def random_state_kept() -> Iterator[None]:
    """Python's, numpy's and torch's generators, put back at the end."""
    before = RandomState.now()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        before.restore()


def clone_inputs(inputs: Any, memo: Memo | None = None, *, leaves: bool = True, gradients: bool = False) -> Any:
    """A deep copy that keeps strides, ``requires_grad`` and which inputs share memory; with ``gradients`` these, too.

    Tensors that require a gradient become leaves, so that it can be read; without ``leaves`` they count as computed, so
    that a model may write into them. With the ``memo`` of a model's copy, an input that is a tensor of the model is
    that of the copy.
    """
    memo = {} if memo is None else memo
    originals: list[torch.Tensor] = []
    map_tensors(originals.append, inputs)
    for tensor in originals:
        if id(tensor) not in memo:
            gradient = gradient_of(tensor) if gradients else None
            leaf = leaves or gradient is not None  # only a leaf has one
            memo[id(tensor)] = copied = _like(tensor, copy.deepcopy(tensor.detach(), memo), leaf=leaf)
            if gradient is not None:
                copied.grad = gradient.detach().clone()
    return copy.deepcopy(inputs, memo)


def memo_copy(memo: Mapping[Any, Any]) -> Memo:
    """A copy of a memo, so that two copies can start from it; torch keeps copied storages in a dict of its own."""
    copied: Memo = {}
    _add_to_memo(copied, memo)
    return copied


def _add_to_memo(memo: Memo, other: Mapping[Any, Any]) -> None:
    """Let one memo know what another one knows.

    ``deepcopy`` keeps the originals alive in a list under the memo's own id. That id must not come along: once the
    other memo is gone, a new object may have it, and the list would pass for the copy of that object.
    """
    for key, value in other.items():
        if key == id(other):
            memo.setdefault(id(memo), []).extend(value)
        else:
            memo[key] = dict(value) if key == "torch" else value


@contextmanager
def own_module(
    model: Any,
    memo: Memo | None = None,
    *,
    leaves: bool = True,
    gradients: bool = False,
    reached: Reached | None = None,
) -> Iterator[Any]:
    """The model to run: a deep copy of a module, or a callable that holds copies meanwhile.

    Args:
        model: a module or any other callable.
        memo: what else is copied with it.
        leaves: whether tensors that were computed become leaves, as in :func:`clone_inputs`.
        gradients: whether the copies have gradients as the model's own tensors do, and not none: an optimizer that
            the model calls does nothing without them.
        reached: what the model reaches, where the caller has just looked.
    """
    memo = {} if memo is None else memo
    reached = reached or reach(model)
    own, held = _copied_module(model, reached.holders, memo)
    with _replaced(held, lambda tensor: _copied_tensor(tensor, memo, leaves=leaves)):
        if isinstance(own, torch.nn.Module):
            own.zero_grad(set_to_none=True)
        if gradients:
            _copy_gradients(reached.tensors().values(), memo)
        yield own


def _copied_module(model: Any, held: tuple[Holder, ...], memo: Memo) -> tuple[Any, tuple[Holder, ...]]:
    """What to run, and the user's own objects that it still reaches."""
    if not isinstance(model, torch.nn.Module):
        return model, held
    own_memo = memo_copy(memo)
    try:
        module = copy.deepcopy(model, own_memo)
    except Exception as error:  # deepcopy calls into user code
        log.debug("%s cannot be copied (%s): it is put back instead", type(model).__name__, error)
        return model, held
    _add_to_memo(memo, own_memo)
    theirs = {id(holder.target) for holder in held}
    return module, tuple(holder for holder in reach(module).holders if id(holder.target) in theirs)


@uncut
def _replaced(holders: Iterable[Holder], replacement: Callable[[Any], Any]) -> Iterator[None]:
    """Every tensor and array in these replaced; at the end they hold what they held before."""
    before = [(holder, holder.read()) for holder in holders]
    try:
        for holder, contents in before:
            holder.write({_mapped(key, replacement): _mapped(value, replacement) for key, value in contents.items()})
        yield
    finally:
        for holder, contents in reversed(before):
            holder.write(contents)


def _mapped(value: Any, replacement: Callable[[Any], Any]) -> Any:
    """The value with tensors replaced, also in tuples: these cannot be changed, and have no holder."""
    if isinstance(value, torch.Tensor | numpy.ndarray):
        return replacement(value)
    if not isinstance(value, tuple) or isinstance(value, torch.Size):
        return value
    items = [_mapped(item, replacement) for item in value]
    if all(one is other for one, other in zip(items, value, strict=True)):
        return value
    make: Any = getattr(type(value), "_make", type(value))
    return make(items)


def _copied_tensor(value: Any, memo: Memo, *, leaves: bool) -> Any:
    """A copy without a gradient and without a history."""
    if id(value) not in memo:
        computed = isinstance(value, torch.Tensor) and not value.is_leaf
        made = copy.deepcopy(value.detach() if computed else value, memo)
        if isinstance(made, torch.Tensor):
            made = _like(value, made, leaf=leaves or not computed)
            made.grad = None
        memo[id(value)] = made
        memo.setdefault(id(memo), []).append(value)  # as deepcopy does: its id must not be given to another
    return memo[id(value)]


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The gradient that a tensor has; torch warns when one that was computed is asked."""
    return tensor.grad if tensor.is_leaf else None


def _copy_gradients(tensors: Iterable[torch.Tensor], memo: Memo) -> None:
    """Give the copies in the memo gradients like those of the originals."""
    for tensor in tensors:
        copied, gradient = memo.get(id(tensor)), gradient_of(tensor)
        if gradient is not None and isinstance(copied, torch.Tensor) and copied is not tensor:
            copied.grad = gradient.detach().clone()


def _like(tensor: torch.Tensor, copied: torch.Tensor, *, leaf: bool) -> torch.Tensor:
    """The copy, requiring a gradient as the tensor does: as a leaf, or as if it had been computed."""
    if leaf or not tensor.requires_grad or not torch.is_grad_enabled():
        return copied.requires_grad_(tensor.requires_grad)
    return as_computed(copied)


def as_computed(tensor: torch.Tensor, refusal: Exception | None = None) -> torch.Tensor:
    """The tensor with a history; going backward through it ends there, or raises ``refusal``."""
    apply: Any = _Computed.apply  # typed in some versions of torch only
    computed: torch.Tensor = apply(tensor, torch.ones((), requires_grad=True), refusal)
    return computed


class _Computed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, source: torch.Tensor, refusal: Exception | None) -> torch.Tensor:
        ctx.mark_dirty(tensor)
        ctx.refusal = refusal
        return tensor

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if ctx.refusal is not None:
            raise ctx.refusal
        return None, None, None
