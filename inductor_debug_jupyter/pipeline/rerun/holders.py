"""The mutable objects that a callable reaches, each as something whose contents can be read, and written back.

A :class:`Holder` is a dict, a list, a set, a closure cell, some names of a namespace, the default arguments of a
function, the arguments of a ``functools.partial``, or the state of a random number generator. Reading one is a shallow
copy. Writing changes only what is another object than before, so that putting things back touches nothing that nobody
changed.
"""

from __future__ import annotations

import dis
import functools
import operator
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Protocol

import numpy
import torch

Contents = dict[Any, Any]


class Holder(Protocol):
    """One mutable object; two holders with the same ``target`` hold the same one."""

    @property
    def target(self) -> Any:
        """The object itself."""

    def read(self) -> Contents:
        """The contents: key, index or name → value."""

    def write(self, contents: Contents) -> None:
        """Let it hold this and nothing else."""


@dataclass(frozen=True, eq=False, slots=True)
class DictHolder:
    """A dict, also the ``__dict__`` of an object."""

    target: dict[Any, Any]

    def read(self) -> Contents:
        """Every item of the object, by key."""
        return dict(self.target)

    def write(self, contents: Contents) -> None:
        """Replace the items, in the order of ``contents``."""
        now = self.target
        if len(now) == len(contents) and all(
            one is other and now[one] is contents[other] for one, other in zip(now, contents, strict=True)
        ):
            return
        now.clear()
        now.update(contents)


@dataclass(frozen=True, eq=False, slots=True)
class ListHolder:
    """A list or a deque, by position."""

    target: list[Any] | deque[Any]

    def read(self) -> Contents:
        """Position → item."""
        return dict(enumerate(self.target))

    def write(self, contents: Contents) -> None:
        """Replace the items; the list gets the length of ``contents``."""
        items = list(contents.values())
        if len(items) != len(self.target) or any(map(operator.is_not, self.target, items)):
            self.target.clear()
            self.target.extend(items)


@dataclass(frozen=True, eq=False, slots=True)
class SetHolder:
    """A set; it has no order, and its items go by a number."""

    target: set[Any]

    def read(self) -> Contents:
        """Number → item."""
        return dict(enumerate(self.target))

    def write(self, contents: Contents) -> None:
        """Only when the items are other objects."""
        items = list(contents.values())
        if {id(each) for each in self.target} != {id(each) for each in items}:
            self.target.clear()
            self.target.update(items)


@dataclass(frozen=True, eq=False, slots=True)
class CellHolder:
    """A variable that a function shares with the one around it."""

    target: CellType

    def read(self) -> Contents:
        """Nothing, when the variable is not set."""
        try:
            return {"": self.target.cell_contents}
        except ValueError:
            return {}

    def write(self, contents: Contents) -> None:
        """Set the cell, or empty it where ``contents`` has nothing."""
        if contents:
            self.target.cell_contents = contents[""]
        elif self.read():
            del self.target.cell_contents


@dataclass(frozen=True, eq=False, slots=True)
class NamesHolder:
    """Some names of a namespace: the globals that functions name, or the attributes of a class or a Python module.

    A global that a run made (``global cache; cache = …``) is taken out again if one of ``codes`` stores it.
    """

    target: dict[str, Any] | type | ModuleType
    names: set[str] = field(default_factory=set)
    codes: list[CodeType] = field(default_factory=list)

    def _all(self) -> Any:
        return self.target if isinstance(self.target, dict) else vars(self.target)

    def read(self) -> Contents:
        """The value of each name that the namespace has."""
        everything = self._all()
        return {name: everything[name] for name in self.names if name in everything}

    def write(self, contents: Contents) -> None:
        """Leave all other names as they are."""
        everything = self._all()
        for name, value in contents.items():
            if name not in everything or everything[name] is not value:
                self._set(name, value)
        for name in self.names - contents.keys():
            if name in everything and any(name in stored_globals(code) for code in self.codes):
                del everything[name]

    def _set(self, name: str, value: Any) -> None:
        if isinstance(self.target, dict):
            self.target[name] = value
        else:
            setattr(self.target, name, value)


@functools.lru_cache(maxsize=1024)
def stored_globals(code: CodeType) -> frozenset[str]:
    """The globals that a function assigns."""
    return frozenset(each.argval for each in dis.get_instructions(code) if each.opname == "STORE_GLOBAL")


@dataclass(frozen=True, eq=False, slots=True)
class DefaultsHolder:
    """The default arguments of a function, by position."""

    target: FunctionType

    def read(self) -> Contents:
        """Position → default."""
        return dict(enumerate(self.target.__defaults__ or ()))

    def write(self, contents: Contents) -> None:
        """Only when one of them is another object: torch guards on the tuple."""
        wanted = tuple(contents.values())
        if any(one is not other for one, other in zip(self.target.__defaults__ or (), wanted, strict=True)):
            self.target.__defaults__ = wanted


@dataclass(frozen=True, eq=False, slots=True)
class PartialHolder:
    """The positional arguments that a partial keeps; those with names are in a dict of their own."""

    target: functools.partial[Any]

    def read(self) -> Contents:
        """Position → argument."""
        return dict(enumerate(self.target.args))

    def write(self, contents: Contents) -> None:
        """A partial is changed as unpickling changes it."""
        wanted = tuple(contents.values())
        if any(one is not other for one, other in zip(self.target.args, wanted, strict=True)):
            partial: Any = self.target
            partial.__setstate__((partial.func, wanted, partial.keywords, vars(partial)))


@dataclass(frozen=True, eq=False, slots=True)
class SlotsHolder:
    """The attributes of an object without a ``__dict__``."""

    target: Any
    names: tuple[str, ...]

    def read(self) -> Contents:
        """The value of each slot that is set."""
        found: Contents = {}
        for name in self.names:
            with suppress(AttributeError):
                found[name] = object.__getattribute__(self.target, name)
        return found

    def write(self, contents: Contents) -> None:
        """Past the object's own ``__setattr__``: it may be frozen."""
        now = self.read()
        for name, value in contents.items():
            if name not in now or now[name] is not value:
                object.__setattr__(self.target, name, value)
        for name in now.keys() - contents.keys():
            object.__delattr__(self.target, name)


@dataclass(frozen=True, eq=False, slots=True)
class GeneratorHolder:
    """A random number generator of the model's own; its contents are its state."""

    target: Any
    get: Callable[[], Any]
    set: Callable[[Any], Any]

    def read(self) -> Contents:
        """A copy of the state."""
        return {"state": self.get()}

    def write(self, contents: Contents) -> None:
        """Go on from there."""
        self.set(contents["state"])


def generator_holder(value: Any) -> GeneratorHolder | None:
    """The holder of a generator; None for anything else."""
    if isinstance(value, torch.Generator):
        return GeneratorHolder(value, value.get_state, value.set_state)
    if isinstance(value, random.Random):
        return GeneratorHolder(value, value.getstate, value.setstate)
    if isinstance(value, numpy.random.RandomState):
        return GeneratorHolder(value, value.get_state, value.set_state)
    if isinstance(value, numpy.random.Generator):
        bits = value.bit_generator
        return GeneratorHolder(value, lambda: bits.state, functools.partial(setattr, bits, "state"))
    return None
