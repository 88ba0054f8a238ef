"""A kept call with another batch, another length of its sequence, or another dtype.

The batch is the leading dimension of the inputs that share its size. The sequence is the second dimension of inputs of
whole numbers (tokens), else of inputs of three dimensions. If that is ambiguous, the user has to name the dimension.
New rows repeat the kept ones, so that every index among them stays valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.diff import flatten_outputs
from inductor_debug_jupyter.pipeline.diff.effects import bound
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.formats.arithmetic import Arithmetic
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors, of_kind
from inductor_debug_jupyter.pipeline.what_if.request import SIZES, Dims, Sizes, WhatIfRequest

_DEFAULT_DIM = {"batch": 0, "sequence": 1}
_IMAGE = 4
"""Inputs of so many dimensions or more are no sequences."""


@dataclass(frozen=True)
class Resize:
    """A new size for one dimension of one input."""

    kind: str
    name: str
    dim: int
    old: int
    new: int


@dataclass(frozen=True)
class ChangedCall:
    """A kept call with the changes of its inputs.

    ``dtype`` is the one that a copy of the model is cast to, ``arithmetic`` how each of its ops is computed.
    """

    call: ModelCall
    resizes: tuple[Resize, ...] = ()
    dtype: str | None = None
    arithmetic: Arithmetic | None = None

    def inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The changed arguments. Unchanged tensors are the kept ones: copy them before running the call."""
        named = inputs_of(self.call)
        made: dict[int, torch.Tensor] = {}
        for resize in self.resizes:
            tensor = named[resize.name]
            made[id(tensor)] = repeated(made.get(id(tensor), tensor), resize.dim, resize.new)

        def change(tensor: torch.Tensor) -> torch.Tensor:
            tensor = made.get(id(tensor), tensor)
            if self.dtype is None or not tensor.is_floating_point():
                return tensor
            return tensor.detach().to(getattr(torch, self.dtype)).requires_grad_(tensor.requires_grad)

        args, kwargs = map_tensors(change, (self.call.args, self.call.kwargs))
        return tuple(args), dict(kwargs)


def changed_call(call: ModelCall, request: WhatIfRequest) -> ChangedCall:
    """The call with the changes of the request.

    Raises:
        OptionError: an unknown input, or an ambiguous dimension.
    """
    resizes: list[Resize] = []
    for kind in SIZES:
        size: Sizes | None = getattr(request, kind)
        if size is not None:
            resizes += resizes_of(kind, size, inputs_of(call), (request.dims or {}).get(kind))
    taken: dict[tuple[str, int], str] = {}
    for resize in resizes:
        other = taken.setdefault((resize.name, resize.dim), resize.kind)
        if other != resize.kind:
            raise OptionError(f"dimension {resize.dim} of {resize.name} is both {other} and {resize.kind}; say dims=")
    return ChangedCall(call, tuple(resizes), request.dtype)


def inputs_of(call: ModelCall) -> dict[str, torch.Tensor]:
    """Every tensor among the arguments, once, by the model's name for it."""
    reachable = {id(tensor) for tensor in of_kind(torch.Tensor, (call.args, call.kwargs))}
    found: dict[str, torch.Tensor] = {}
    for name, value in flatten_outputs(bound(call.model, call.args, call.kwargs)).items():
        if isinstance(value, torch.Tensor) and id(value) in reachable:
            reachable.discard(id(value))
            found[name] = value
    return found


def resizes_of(
    kind: str, size: Sizes, inputs: Mapping[str, torch.Tensor], dims: Dims | None = None
) -> tuple[Resize, ...]:
    """The changes of batch or sequence (``kind``) to this size.

    Raises:
        OptionError: the dimension is ambiguous, or ``size`` or ``dims`` do not fit the inputs.
    """
    if isinstance(size, Mapping):
        chosen = {name: _dim_of(kind, name, dims) for name in size}
    elif isinstance(dims, Mapping):
        chosen = dict(dims)
    elif dims is not None:
        chosen = _sharing(kind, inputs, dims)
    else:
        chosen = axis_of(kind, inputs)
    resizes = []
    for name, dim in chosen.items():
        if name not in inputs:
            raise OptionError(f"{kind}: there is no input {name!r}; inputs: {', '.join(inputs) or 'none'}")
        tensor = inputs[name]
        if dim >= tensor.ndim:
            raise OptionError(f"{kind}: {name} is {_text(tensor)} and has no dimension {dim}")
        if not tensor.shape[dim]:
            raise OptionError(f"{kind}: {name} is {_text(tensor)}: there is no row that could be repeated")
        new = size[name] if isinstance(size, Mapping) else size
        resizes.append(Resize(kind, name, dim, int(tensor.shape[dim]), new))
    return tuple(resizes)


def axis_of(kind: str, inputs: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Input → the dimension that is its batch or sequence.

    Raises:
        OptionError: it is ambiguous.
    """
    if kind == "batch":
        return dict.fromkeys(_batch(inputs), 0)
    return dict.fromkeys(_sequence(inputs), 1)


def _batch(inputs: Mapping[str, torch.Tensor]) -> list[str]:
    """Inputs whose leading dimension is the batch."""
    larger = {name: tensor for name, tensor in inputs.items() if tensor.ndim > 1}
    if not larger:
        raise _ambiguous("batch", inputs, "no input has more than one dimension")
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
        raise _ambiguous("sequence", inputs, "no input holds tokens, and none has three dimensions")
    size = _shared("sequence", tokens or states, 1)
    return [
        name
        for name, tensor in inputs.items()
        if 1 < tensor.ndim < _IMAGE and tensor.shape[1] == size and (tokens or tensor.ndim == 3)
    ]


def _shared(kind: str, inputs: Mapping[str, torch.Tensor], dim: int) -> int:
    """The size of a dimension that most inputs have."""
    sizes = Counter(int(tensor.shape[dim]) for tensor in inputs.values()).most_common()
    if len(sizes) > 1 and sizes[0][1] == sizes[1][1]:
        raise _ambiguous(kind, inputs, f"the sizes of dimension {dim} differ")
    return sizes[0][0]


def _ambiguous(kind: str, inputs: Mapping[str, torch.Tensor], why: str) -> OptionError:
    listed = ", ".join(f"{name} {_text(tensor)}" for name, tensor in inputs.items()) or "no tensor at all"
    name = next(iter(inputs), "x")
    return OptionError(
        f"{kind}: which dimension that is cannot be told from {listed}: {why}; "
        f'say it, such as {kind}={{"{name}": 64}} or dims={{"{kind}": {{"{name}": {_DEFAULT_DIM[kind]}}}}}'
    )


def _sharing(kind: str, inputs: Mapping[str, torch.Tensor], dim: int) -> dict[str, int]:
    """The inputs with that dimension, and the size in it that most have."""
    fitting = {name: tensor for name, tensor in inputs.items() if tensor.ndim > dim}
    if not fitting:
        raise OptionError(f"dims: no input has a dimension {dim}, which is to be the {kind}")
    size = _shared(kind, fitting, dim)
    return {name: dim for name, tensor in fitting.items() if tensor.shape[dim] == size}


def _dim_of(kind: str, name: str, dims: Dims | None) -> int:
    if isinstance(dims, Mapping):
        return dims.get(name, _DEFAULT_DIM[kind])
    return _DEFAULT_DIM[kind] if dims is None else dims


def _is_whole(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex()


def _text(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def repeated(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """A tensor of this size along ``dim``: its rows repeated, or only the first; the order of strides stays."""
    rows = torch.arange(size, device=tensor.device) % tensor.shape[dim]
    made = tensor.detach().index_select(dim, rows)
    if not tensor.is_contiguous():
        strides = tensor.stride()
        order = sorted(range(tensor.ndim), key=lambda at: -strides[at])
        back = sorted(range(tensor.ndim), key=order.__getitem__)
        made = made.permute(order).contiguous().permute(back)
    return made.requires_grad_(tensor.requires_grad)


def resize_texts(changed: Sequence[ChangedCall]) -> tuple[str, ...]:
    """``batch 1 → 64 (dimension 0 of x and mask)``, for all calls together."""
    inputs: dict[tuple[str, int, int, int], dict[str, None]] = {}
    for resize in (resize for each in changed for resize in each.resizes):
        inputs.setdefault((resize.kind, resize.old, resize.new, resize.dim), {})[resize.name] = None
    return tuple(
        f"{kind} {old} → {new} (dimension {dim} of {' and '.join(names)})"
        for (kind, old, new, dim), names in inputs.items()
    )
