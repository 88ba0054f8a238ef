"""The same call with another batch, another length of its sequence, or in another dtype.

Which dimension is the batch is told from the inputs: the leading one, of those that share its size. The sequence is the
next dimension of whole-number inputs (tokens), or of inputs of three dimensions. Where that cannot be told, the user
has to say it. New rows are the kept ones over and over, so that an index among them stays a valid index.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.diff import flatten_outputs
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors, of_kind
from inductor_debug_jupyter.pipeline.what_if.asked import SIZES, Asked, Dims, Sizes

_DEFAULT_DIM = {"batch": 0, "sequence": 1}
_IMAGE = 4
"""Inputs of so many dimensions and more are no sequences."""


@dataclass(frozen=True)
class Resize:
    """One dimension of one input that gets another size."""

    kind: str
    name: str
    dim: int
    old: int
    new: int


@dataclass(frozen=True)
class ChangedCall:
    """A call to run: the user's own model, and inputs of ours; ``dtype`` is what a copy of the model is cast to."""

    call: ModelCall
    resizes: tuple[Resize, ...] = ()
    dtype: str | None = None

    def inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, changed. Tensors that did not change are the kept ones: whoever runs it copies them."""
        named = inputs_of(self.call)
        made: dict[int, torch.Tensor] = {}
        for resize in self.resizes:
            tensor = named[resize.name]
            made[id(tensor)] = repeated(made.get(id(tensor), tensor), resize.dim, resize.new)

        def change(tensor: torch.Tensor) -> torch.Tensor:
            return _cast(made.get(id(tensor), tensor), self.dtype)

        args, kwargs = map_tensors(change, (self.call.args, self.call.kwargs))
        return tuple(args), dict(kwargs)


def changed_call(call: ModelCall, asked: Asked) -> ChangedCall:
    """The call as it is asked for.

    Raises:
        OptionError: an input that is not there, or a dimension that cannot be told.
    """
    resizes: list[Resize] = []
    for kind in SIZES:
        size: Sizes | None = getattr(asked, kind)
        if size is not None:
            resizes += resizes_of(kind, size, inputs_of(call), (asked.dims or {}).get(kind))
    taken: dict[tuple[str, int], str] = {}
    for resize in resizes:
        other = taken.setdefault((resize.name, resize.dim), resize.kind)
        if other != resize.kind:
            raise OptionError(f"dimension {resize.dim} of {resize.name} is both {other} and {resize.kind}; say dims=")
    return ChangedCall(call, tuple(resizes), asked.dtype)


def inputs_of(call: ModelCall) -> dict[str, torch.Tensor]:
    """Every tensor among the arguments, by the name that the model gives it; one that is passed twice, once."""
    function = call.model.forward if isinstance(call.model, torch.nn.Module) else call.model
    try:
        bound: Mapping[str, Any] = inspect.signature(function).bind(*call.args, **call.kwargs).arguments
    except (TypeError, ValueError):
        bound = {**{f"input_{at}": value for at, value in enumerate(call.args)}, **call.kwargs}
    reachable = {id(tensor) for tensor in of_kind(torch.Tensor, (call.args, call.kwargs))}
    found: dict[str, torch.Tensor] = {}
    for name, value in flatten_outputs(dict(bound)).items():
        if isinstance(value, torch.Tensor) and id(value) in reachable:
            reachable.discard(id(value))
            found[name] = value
    return found


def resizes_of(
    kind: str, size: Sizes, inputs: Mapping[str, torch.Tensor], dims: Dims | None = None
) -> tuple[Resize, ...]:
    """Which dimensions of which inputs change.

    Raises:
        OptionError: it cannot be told, or what was said does not fit the inputs.
    """
    if isinstance(size, Mapping):
        chosen = {name: _dim_said(kind, name, dims) for name in size}
    elif isinstance(dims, Mapping):
        chosen = dict(dims)
    elif dims is not None:
        chosen = _sharing(kind, inputs, dims)
    else:
        chosen = axis_of(kind, inputs)
    resizes = []
    for name, dim in chosen.items():
        tensor = _named(kind, name, inputs)
        if dim >= tensor.ndim:
            raise OptionError(f"{kind}: {name} is {_text(tensor)} and has no dimension {dim}")
        if not tensor.shape[dim]:
            raise OptionError(f"{kind}: {name} is {_text(tensor)}: there is no row that could be repeated")
        new = size[name] if isinstance(size, Mapping) else size
        resizes.append(Resize(kind, name, dim, int(tensor.shape[dim]), new))
    return tuple(resizes)


def axis_of(kind: str, inputs: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Input → which of its dimensions is the batch, or the sequence.

    Raises:
        OptionError: it cannot be told.
    """
    if kind == "batch":
        return dict.fromkeys(_batch(inputs), 0)
    return dict.fromkeys(_sequence(inputs), 1)


def _batch(inputs: Mapping[str, torch.Tensor]) -> list[str]:
    """Inputs whose leading dimension is the batch."""
    larger = {name: tensor for name, tensor in inputs.items() if tensor.ndim > 1}
    if not larger:
        raise _cannot_tell("batch", inputs, "no input has more than one dimension")
    size = _shared("batch", larger, 0)
    return [
        name
        for name, tensor in inputs.items()
        if tensor.ndim and tensor.shape[0] == size and (tensor.ndim > 1 or size > 1 or _is_whole(tensor))
    ]


def _sequence(inputs: Mapping[str, torch.Tensor]) -> list[str]:
    """Inputs whose second dimension is the sequence."""
    tokens = {name: tensor for name, tensor in inputs.items() if tensor.ndim > 1 and _is_whole(tensor)}
    states = {name: tensor for name, tensor in inputs.items() if tensor.ndim == 3 and not _is_whole(tensor)}
    if not tokens and not states:
        raise _cannot_tell("sequence", inputs, "no input holds tokens, and none has three dimensions")
    size = _shared("sequence", tokens or states, 1)
    return [
        name
        for name, tensor in inputs.items()
        if 1 < tensor.ndim < _IMAGE and tensor.shape[1] == size and (tokens or tensor.ndim == 3)
    ]


def _shared(kind: str, inputs: Mapping[str, torch.Tensor], dim: int) -> int:
    """The size that the inputs have in common; of several, the one that most have."""
    sizes = Counter(int(tensor.shape[dim]) for tensor in inputs.values()).most_common()
    if len(sizes) > 1 and sizes[0][1] == sizes[1][1]:
        raise _cannot_tell(kind, inputs, f"the sizes of dimension {dim} differ")
    return sizes[0][0]


def _cannot_tell(kind: str, inputs: Mapping[str, torch.Tensor], why: str) -> OptionError:
    listed = ", ".join(f"{name} {_text(tensor)}" for name, tensor in inputs.items()) or "no tensor at all"
    name = next(iter(inputs), "x")
    return OptionError(
        f"{kind}: which dimension that is cannot be told from {listed}: {why}; "
        f'say it, such as {kind}={{"{name}": 64}} or dims={{"{kind}": {{"{name}": {_DEFAULT_DIM[kind]}}}}}'
    )


def _sharing(kind: str, inputs: Mapping[str, torch.Tensor], dim: int) -> dict[str, int]:
    """The inputs that have that dimension, and the size of it that most have."""
    fitting = {name: tensor for name, tensor in inputs.items() if tensor.ndim > dim}
    if not fitting:
        raise OptionError(f"dims: no input has a dimension {dim}, which is to be the {kind}")
    size = _shared(kind, fitting, dim)
    return {name: dim for name, tensor in fitting.items() if tensor.shape[dim] == size}


def _dim_said(kind: str, name: str, dims: Dims | None) -> int:
    if isinstance(dims, Mapping):
        return dims.get(name, _DEFAULT_DIM[kind])
    return _DEFAULT_DIM[kind] if dims is None else dims


def _named(kind: str, name: str, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    if name not in inputs:
        raise OptionError(f"{kind}: there is no input {name!r}; inputs: {', '.join(inputs) or 'none'}")
    return inputs[name]


def _is_whole(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex()


def _text(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def repeated(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """The tensor with its rows along ``dim`` over and over, or only the first ones; it lies in memory as before."""
    rows = torch.arange(size, device=tensor.device) % tensor.shape[dim]
    made = tensor.detach().index_select(dim, rows)
    if not tensor.is_contiguous():
        strides = tensor.stride()
        order = sorted(range(tensor.ndim), key=lambda at: -strides[at])
        back = sorted(range(tensor.ndim), key=order.__getitem__)
        made = made.permute(order).contiguous().permute(back)
    return made.requires_grad_(tensor.requires_grad)


def _cast(tensor: torch.Tensor, dtype: str | None) -> torch.Tensor:
    if dtype is None or not tensor.is_floating_point():
        return tensor
    return tensor.detach().to(getattr(torch, dtype)).requires_grad_(tensor.requires_grad)


def resize_texts(changed: Sequence[ChangedCall]) -> tuple[str, ...]:
    """``batch 1 → 64 (dimension 0 of x and mask)``, for all calls together."""
    told: dict[tuple[str, int, int, int], list[str]] = {}
    for each in changed:
        for resize in each.resizes:
            key = (resize.kind, resize.old, resize.new, resize.dim)
            names = told.setdefault(key, [])
            if resize.name not in names:
                names.append(resize.name)
    return tuple(
        f"{kind} {old} → {new} (dimension {dim} of {' and '.join(names)})"
        for (kind, old, new, dim), names in told.items()
    )
