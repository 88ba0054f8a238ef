"""The request of a what-if; every value is checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.options import OPTIONS

RUN_DTYPES = ("float32", "float16", "bfloat16", "float64")
"""The dtypes that a model can be cast to."""
SETTINGS = ("target", "alignment", "max_memory", "dtypes", "deny")
"""The changes that are options of the magic, too."""
SIZES = ("batch", "sequence")

Sizes = int | Mapping[str, int]
"""A new size, for all inputs or by the names of some."""
Dims = int | Mapping[str, int]
"""The dimension that gets the new size, in all inputs or by their names."""


@dataclass(frozen=True)
class WhatIfRequest:
    """The changes of one what-if; what is None does not change.

    Args:
        target: a device profile's name or file.
        alignment: sizes must be multiples of it.
        max_memory: limit for each tensor and for the peak.
        dtypes: the only dtypes that the target takes.
        deny: ops that the target does not have, beside those that it lacks anyway.
        decompose: op → whether the target runs it in parts, or the parts; with ``node``, True or False for its op.
        fallback: ops that are meant for the CPU; with ``node``, True for that node alone.
        node: a node of a captured graph that ``fallback`` or ``decompose`` is about.
        graph: compile id and stage of the node's graph; by default the first graph with such a node.
        dtype: the dtype of the model's weights and of all floating-point inputs.
        batch: a new batch size.
        sequence: a new length of the sequence.
        numerics: another arithmetic: a name such as ``bfloat16``, a device's profile, or ``eager`` for Inductor with
            every switch on that makes it round as eager mode does.
        dims: the dimension of batch or sequence: ``{"batch": 1}`` or ``{"sequence": {"x": 2}}``.

    Raises:
        OptionError: a value that is not allowed, or nothing to try.
    """

    target: Any = None
    alignment: Any = None
    max_memory: Any = None
    dtypes: Any = None
    deny: Any = None
    decompose: Mapping[str, Any] | bool | None = None
    fallback: Sequence[str] | str | bool | None = None
    node: str = ""
    graph: tuple[str, str] | None = None
    dtype: Any = None
    batch: Sizes | None = None
    sequence: Sizes | None = None
    dims: Mapping[str, Dims] | None = None
    numerics: str | None = None

    def __post_init__(self) -> None:
        if not self._is_something:
            names = [each.name for each in fields(self) if each.name not in {"node", "graph", "dims"}]
            alone = f"node={self.node!r}: " if self.node else ""
            raise OptionError(f"{alone}nothing to try; allowed: {', '.join(f'{name}=' for name in names)}")
        self._check_ops()
        _check_name(self.numerics)
        if self.dtype is not None:
            object.__setattr__(self, "dtype", _run_dtype(self.dtype))
        for name in SIZES:
            _check_whole(name, getattr(self, name), least=1)
        for name, dims in (self.dims or {}).items():
            if name not in SIZES:
                raise OptionError(f"dims has {name!r}; allowed: {', '.join(SIZES)}")
            if getattr(self, name) is None:
                raise OptionError(f"dims says which dimension is the {name}: give {name}= as well")
            _check_whole(f"dims[{name!r}]", dims, least=0)

    @property
    def _is_something(self) -> bool:
        others = (self.decompose, self.fallback, self.numerics)
        return bool(self.settings) or self.reruns or any(each is not None for each in others)

    @property
    def reruns(self) -> bool:
        """Whether the model has to run again; otherwise the same captures are judged again."""
        return self.dtype is not None or self.batch is not None or self.sequence is not None

    @property
    def settings(self) -> dict[str, Any]:
        """The changed options → their new values.

        Raises:
            OptionError: a value that is not allowed.
        """
        given = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        return {name: OPTIONS[name].accept(value, name) for name, value in given.items()}

    def _check_ops(self) -> None:
        if self.node and not isinstance(self.fallback, bool) and not isinstance(self.decompose, bool):
            raise OptionError(f"node={self.node!r} needs fallback=True, or decompose=True or False")
        if isinstance(self.fallback, bool):
            if not self.fallback or not self.node:
                raise OptionError(
                    f'fallback={self.fallback!r}; allowed: names of ops, such as ["cumsum"], or True with node='
                )
        elif self.fallback is not None:
            object.__setattr__(self, "fallback", OPTIONS["deny"].accept(self.fallback, "fallback"))
        if isinstance(self.decompose, bool):
            if not self.node:
                raise OptionError(f'decompose={self.decompose!r}; allowed: {{"gelu": True}}, or a bool with node=')
        elif self.decompose is not None:
            _check_parts(self.decompose)


def _check_name(numerics: Any) -> None:
    if numerics is not None and (not isinstance(numerics, str) or not numerics):
        raise OptionError(f"numerics={numerics!r}; allowed: the name of an arithmetic, or a profile's file")


def _check_parts(decompose: Any) -> None:
    if not isinstance(decompose, Mapping) or not decompose:
        raise OptionError(
            f'decompose={decompose!r}; allowed: {{"gelu": True}}, or the parts: {{"gelu": ["erf", "mul"]}}'
        )
    for op, parts in decompose.items():
        named = isinstance(parts, list | tuple) and parts and all(isinstance(part, str) for part in parts)
        if not isinstance(op, str) or not (isinstance(parts, bool) or named):
            raise OptionError(f"decompose[{op!r}]={parts!r}; allowed: True, False or the names of its parts")


def _run_dtype(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in RUN_DTYPES:
        raise OptionError(f"dtype={str(dtype)!r}; allowed: {', '.join(RUN_DTYPES)}")
    return name


def _check_whole(name: str, value: Any, *, least: int) -> None:
    """Check a whole number, or one for each of some inputs."""
    for at, each in value.items() if isinstance(value, Mapping) else [("", value)] if value is not None else []:
        if isinstance(each, bool) or not isinstance(each, int) or each < least:
            where = f"{name}[{at!r}]" if at else name
            raise OptionError(f"{where}={each!r}; allowed: a whole number from {least} up")
    if isinstance(value, Mapping) and not value:
        raise OptionError(f'{name}={{}}; allowed: a whole number, or one for each input: {{"x": {max(least, 1)}}}')
