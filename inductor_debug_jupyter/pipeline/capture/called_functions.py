"""Which compiled functions the user calls, and how often: a recompile is shown with the number of its call.

The inputs of a function's first call are kept as text that a user can edit, and inputs are built from that text, for
"would this recompile?". Of a tensor only shape, dtype, strides and ``requires_grad`` are kept, since guards check only
these; an edited tensor is built uninitialised. Anything that is neither tensor, number, string nor a container of them
is held weakly, and cannot be edited.
"""

from __future__ import annotations

import ast
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat.guard_checks import CalledFunction
from inductor_debug_jupyter.pipeline.torch_compat.guard_failures import described, described_tensor

_TENSOR = re.compile(
    r"^(?:torch\.)?(?P<dtype>\w+)\s*\[(?P<shape>[\d,\s]*)\](?:\s+stride=\((?P<stride>[\d,\s]*)\))?"
    r"(?P<grad>\s+requires_grad)?$"
)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_EXAMPLE = "float32[8, 4], float32[8, 4] stride=(1, 8) requires_grad"
_ALLOWED = f"a tensor such as {_EXAMPLE}, or a number, True, False, None or a quoted word"


class CallInputs:
    """The inputs of one call, without their values. ``texts``: name of each editable input → its text."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str] = ()) -> None:
        self.texts: dict[str, str] = {}
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
        first, kind = self._first.setdefault(id(value), name), type(value)
        marks = {key: mark for key, mark in vars(value).items() if key.startswith(("_dynamo", "_has_dynamo"))}
        self.texts[name] = described_tensor(value)

        def make(texts: Mapping[str, str], made: dict[str, Any]) -> Any:
            if first != name and texts[first] == texts[name] and first in made:
                return made[first]  # one tensor, passed twice
            tensor = tensor_of(texts[name])
            if kind is torch.nn.Parameter:
                tensor = torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
            for key, mark in marks.items():
                setattr(tensor, key, mark)
            made[name] = tensor
            return tensor

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


class _RunningCall(threading.local):
    """The call that runs on a thread, or ran there last, and its number, from 1."""

    number = 0
    current: CalledFunction | None = None
    outer: CalledFunction | None = None
    depth = 0


class CalledFunctions:
    """Counts the calls of each function; ``now`` is the call that runs on the calling thread."""

    def __init__(self) -> None:
        self.now = _RunningCall()
        self.inputs: dict[CalledFunction, CallInputs] = {}
        """The inputs of each function's first call, without their values."""
        self._counts: dict[tuple[int, int], int] = {}
        self._functions: dict[tuple[int, int], CalledFunction] = {}

    @property
    def functions(self) -> tuple[CalledFunction, ...]:
        """Every function that was called, in the order of their first calls."""
        return tuple(self._functions.values())

    @property
    def outermost(self) -> CalledFunction | None:
        """The function that the user called; ``now.current`` may be a call inside it."""
        return self.now.outer or self.now.current

    @uncut
    def running(self) -> Iterator[None]:
        """Around a call: calls inside belong to it, and at its end the call around it is current again."""
        now = self.now
        before = now.number, now.current, now.outer
        now.depth += 1
        try:
            yield
        finally:
            now.depth -= 1
            now.number, now.current, now.outer = before

    def add(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        region: int = -1,
        backend: Any = None,
    ) -> None:
        """Count a call; ``backend`` is None where the compile is not the user's own."""
        owner = getattr(function, "__self__", None)
        key = (id(getattr(function, "__func__", function)), id(owner))
        if key not in self._functions or not self._functions[key].is_alive():
            called = self._functions[key] = CalledFunction(function, region, backend)
            self._counts[key] = 0
            self.inputs[called] = CallInputs(args, kwargs, called.parameters())
        self.now.number = self._counts[key] = self._counts[key] + 1
        self.now.current = self._functions[key]
        if self.now.depth and self.now.outer is None:
            self.now.outer = self.now.current
