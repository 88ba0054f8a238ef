"""The inputs of one call as text that a user can edit, and inputs built from that text, without values.

Of a tensor only shape, dtype, strides and ``requires_grad`` are kept, since guards check only these; an edited tensor
is built uninitialised. Anything that is neither tensor, number, string nor a container of them is held weakly, and
cannot be edited.
"""

from __future__ import annotations

import ast
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.torch_compat.guard_failures import described, described_tensor

_TENSOR = re.compile(
    r"^(?:torch\.)?(?P<dtype>\w+)\s*\[(?P<shape>[\d,\s]*)\](?:\s+stride=\((?P<stride>[\d,\s]*)\))?"
    r"(?P<grad>\s+requires_grad)?$"
)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_EXAMPLE = "float32[8, 4], float32[8, 4] stride=(1, 8) requires_grad"
_ALLOWED = f"a tensor such as {_EXAMPLE}, or a number, True, False, None or a quoted word"


@dataclass(frozen=True)
class _TensorLike:
    """The properties of a tensor that guards check."""

    text: str
    kind: type
    marks: dict[str, Any] = field(default_factory=dict)

    def build(self, text: str) -> torch.Tensor:
        tensor = tensor_of(text)
        if self.kind is torch.nn.Parameter:
            tensor = torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
        for name, value in self.marks.items():
            setattr(tensor, name, value)
        return tensor


class CallInputs:
    """The inputs of one call, without their values. ``texts``: name of each editable input → its text."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str] = ()) -> None:
        self.texts: dict[str, str] = {}
        self._tensors: dict[str, _TensorLike] = {}
        self._first: dict[int, str] = {}
        parameters = [names[at] if at < len(names) else f"input {at + 1}" for at in range(len(args))]
        self._args = [self._keep(name, value) for name, value in zip(parameters, args, strict=True)]
        self._kwargs = {name: self._keep(name, value) for name, value in kwargs.items()}

    def build(self, changes: Mapping[str, str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of the call, with some inputs changed.

        Raises:
            UsageError: there is no such input, or its new value cannot be read.
        """
        for name in changes:
            if name not in self.texts:
                raise UsageError(f"{name!r} is no input that can be changed; inputs: {', '.join(self.texts) or 'none'}")
        made: dict[str, Any] = {}
        texts = {**self.texts, **changes}
        args = tuple(each(texts, made) for each in self._args)
        return args, {name: each(texts, made) for name, each in self._kwargs.items()}

    def _keep(self, name: str, value: Any) -> Callable[[Mapping[str, str], dict[str, Any]], Any]:
        """The function that builds this input from the texts and the inputs built so far."""
        if isinstance(value, torch.Tensor):
            return self._keep_tensor(name, value)
        if type(value) in _PLAIN:
            self.texts[name] = repr(value)
            return lambda texts, made: plain_of(name, texts[name])
        if type(value) is dict and all(isinstance(key, str) for key in value):
            parts = {key: self._keep(f"{name}[{key!r}]", item) for key, item in value.items()}
            return lambda texts, made: {key: part(texts, made) for key, part in parts.items()}
        if type(value) in (list, tuple):
            items = [self._keep(f"{name}[{at}]", item) for at, item in enumerate(value)]
            return lambda texts, made: type(value)(item(texts, made) for item in items)
        return _held_weakly(name, value)

    def _keep_tensor(self, name: str, value: torch.Tensor) -> Callable[[Mapping[str, str], dict[str, Any]], Any]:
        first = self._first.setdefault(id(value), name)
        marks = {key: mark for key, mark in vars(value).items() if key.startswith(("_dynamo", "_has_dynamo"))}
        like = self._tensors[name] = _TensorLike(described_tensor(value), type(value), marks)
        self.texts[name] = like.text

        def make(texts: Mapping[str, str], made: dict[str, Any]) -> Any:
            if first != name and texts[first] == texts[name] and first in made:
                return made[first]  # one tensor, passed twice
            made[name] = like.build(texts[name])
            return made[name]

        return make


def tensor_of(text: str) -> torch.Tensor:
    """A tensor without values: ``float32[8, 4] stride=(1, 8) requires_grad``.

    Raises:
        UsageError: it cannot be read, or there is no such dtype.
    """
    match = _TENSOR.match(text.strip())
    dtype = getattr(torch, match["dtype"], None) if match else None
    if match is None or not isinstance(dtype, torch.dtype):
        raise UsageError(f"{text!r} is no tensor; allowed: {_EXAMPLE}")
    shape = _whole(match["shape"])
    try:
        if match["stride"] is None:
            tensor = torch.empty(shape, dtype=dtype, device="cpu")
        else:
            tensor = torch.empty_strided(shape, _whole(match["stride"]), dtype=dtype, device="cpu")
        return tensor.requires_grad_(match["grad"] is not None)
    except RuntimeError as error:
        raise UsageError(f"{text!r}: {str(error).splitlines()[0]}") from None


def plain_of(name: str, text: str) -> Any:
    """A number, bool, string, None, or a tensor in place of one.

    Raises:
        UsageError: it is none of these.
    """
    if _TENSOR.match(text.strip()):
        return tensor_of(text)
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        raise UsageError(f"{name} = {text!r} is not allowed; allowed: {_ALLOWED}") from None
    return value


def _whole(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def _held_weakly(name: str, value: Any) -> Callable[[Mapping[str, str], dict[str, Any]], Any]:
    text = described(value)
    try:
        find: Callable[[], Any] = weakref.ref(value)
    except TypeError:
        return lambda texts, made: value

    def make(texts: Mapping[str, str], made: dict[str, Any]) -> Any:
        if (found := find()) is None:
            raise UsageError(f"{name} ({text}) is gone, so the call cannot be checked again")
        return found

    return make
