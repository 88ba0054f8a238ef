"""What a callable reaches: the tensors that a run of it can read and write, and the objects that hold them.

A walk over Python objects, breadth first, from a module, a function, a bound method, a partial or any other callable
object. It goes through parameters, buffers, submodules and attributes; through dicts, lists, deques, sets and tuples;
through closure variables, default arguments, ``__wrapped__`` and the globals that a function's code names, that of
functions inside it included; and through those methods and class attributes that some code on the way names.

A tensor goes by the expression that gets there, without the functions in between: ``lin.weight`` for
``def f(x): return lin(x)``. What is in a set with others has no name that would hold, and is not listed.

What is not reached: globals of torch, numpy and the standard library, objects of their classes (optimizers and
schedulers are), iterators, weak references, what a C extension holds, and names that are looked up by ``eval`` or
``globals()``. Attributes are read where they are kept, never through properties or ``__getattr__``: nobody's code runs.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final

import numpy
import torch

from inductor_debug_jupyter.pipeline.rerun.holders import (
    CellHolder,
    DefaultsHolder,
    DictHolder,
    Holder,
    ListHolder,
    NamesHolder,
    PartialHolder,
    SetHolder,
    SlotsHolder,
    generator_holder,
)

PARAMETER: Final = "parameter"
BUFFER: Final = "buffer"
ATTRIBUTE: Final = "attribute"
GLOBAL: Final = "global"
CLOSURE: Final = "closure"
BOUND: Final = "bound"
"""An argument that a default or a partial holds."""

MOST_OBJECTS: Final = 100_000
LARGEST_CONTAINER: Final = 20_000
DEEPEST: Final = 40
_LONGEST_KEY: Final = 40
_FOREIGN: Final = frozenset((*sys.stdlib_module_names, "torch", "functorch", "torchgen", "numpy", "triton", "sympy"))
_STATEFUL: Final = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, SimpleNamespace)
_CALLED: Final = frozenset(("forward", "__call__"))
_PLAIN: Final = (str, bytes, bytearray, int, float, complex, bool, type(None), torch.dtype, torch.device, torch.Size)
_TABLES: Final = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One tensor: what kind of thing it is to the model, its name, and itself. A numpy array is seen as a tensor."""

    kind: str
    name: str
    tensor: torch.Tensor

    @property
    def path(self) -> str:
        """Kind and name, as a comparison calls it."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Reached:
    """All that was found.

    Attributes:
        leaves: every tensor; one that is held twice is here twice, by different names.
        plain: every number, truth value and text by its path, but for those in sets.
        holders: the objects that hold them, and all others that a run may change.
        notes: what was not looked into.
    """

    leaves: tuple[Leaf, ...]
    holders: tuple[Holder, ...]
    notes: tuple[str, ...] = ()
    plain: Mapping[str, bool | float | str] = field(default_factory=dict)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor by the path that it was found by first: an optimizer holds a module's parameters too."""
        once: dict[int, Leaf] = {}
        for leaf in self.leaves:
            once.setdefault(id(leaf.tensor), leaf)
        return {leaf.path: leaf.tensor for leaf in once.values()}


def reach(model: Any) -> Reached:
    """Everything that ``model`` reaches, as it is now."""
    walk = _Walk()
    walk.run(model)
    return Reached(tuple(walk.leaves), tuple(walk.holders), tuple(dict.fromkeys(walk.notes)), walk.plain)


@dataclass(frozen=True, slots=True)
class _Item:
    """Something still to be looked at. ``kind`` is None until it is known what a tensor there would be."""

    value: Any
    name: str = ""
    kind: str | None = None
    depth: int = 0
    in_a_set: bool = False

    def child(self, value: Any, name: str, kind: str | None = None) -> _Item:
        return _Item(value, name, kind or self.kind, self.depth + 1, self.in_a_set)

    def attribute(self, value: Any, name: str, kind: str = ATTRIBUTE) -> _Item:
        return self.child(value, f"{self.name}.{name}" if self.name else name, kind)


@dataclass
class _Walk:
    leaves: list[Leaf] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    plain: dict[str, bool | float | str] = field(default_factory=dict)
    _waiting: deque[_Item] = field(default_factory=deque)
    _seen: dict[int, Any] = field(default_factory=dict)
    _paths: set[str] = field(default_factory=set)
    _named: set[str] = field(default_factory=lambda: set(_CALLED))
    _namespaces: dict[int, tuple[NamesHolder, str]] = field(default_factory=dict)

    def run(self, model: Any) -> None:
        """Look at everything, from ``model`` on."""
        self._waiting.append(_Item(model))
        while self._waiting:
            item = self._waiting.popleft()
            if len(self._seen) > MOST_OBJECTS:
                self.notes.append(f"more than {MOST_OBJECTS:,} objects are within reach: not all were looked into")
                return
            if item.depth <= DEEPEST:
                self._look(item)

    def _look(self, item: _Item) -> None:
        value = item.value
        if isinstance(value, torch.Tensor):
            self._leaf(item, value)
            return
        if isinstance(value, numpy.ndarray):
            self._array(item, value)
            return
        if isinstance(value, _PLAIN):
            self._plain(item, value)
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value  # kept, so that its id is not given to another
        self._waiting.extend(self._inside(item))

    def _leaf(self, item: _Item, tensor: torch.Tensor) -> None:
        if item.in_a_set:
            self.notes.append("tensors in a set have no order, and were not compared")
            return
        self.leaves.append(Leaf(item.kind or ATTRIBUTE, self._own_name(item), tensor))

    def _plain(self, item: _Item, value: Any) -> None:
        if isinstance(value, bool | int | float | str) and not item.in_a_set:
            self.plain[f"{item.kind or ATTRIBUTE}:{self._own_name(item)}"] = value

    def _own_name(self, item: _Item) -> str:
        """The item's name, numbered where something else of its kind goes by it already."""
        kind, name, number = item.kind or ATTRIBUTE, item.name, 1
        while f"{kind}:{name}" in self._paths:
            number += 1
            name = f"{item.name}#{number}"
        self._paths.add(f"{kind}:{name}")
        return name

    def _array(self, item: _Item, array: numpy.ndarray[Any, Any]) -> None:
        if array.flags.writeable and array.dtype.kind in "biufc":
            try:
                self._leaf(item, torch.from_numpy(array))
            except (TypeError, ValueError):  # negative strides, or a width that torch does not have
                self.notes.append(f"{item.name}: a numpy array that torch cannot read was not compared")

    def _inside(self, item: _Item) -> Iterable[_Item]:
        """What one object holds. Its holder is noted."""
        value = item.value
        if isinstance(value, torch.nn.Module):
            return self._module(item, value)
        if isinstance(value, dict | list | tuple | deque | set) and not _reads_plainly(value):
            self._leave_alone(item, value)
            return []
        if isinstance(value, dict):
            return self._mapping(item, value)
        if isinstance(value, list | tuple | deque | set):
            return self._sequence(item, value)
        if isinstance(value, FunctionType):
            return self._function(item, value)
        if isinstance(value, MethodType | staticmethod | classmethod | property):
            return [item.child(each, item.name) for each in _wrapped_by(value)]
        if isinstance(value, functools.partial):
            return self._partial(item, value)
        if isinstance(value, type | ModuleType):
            return self._namespace(item, value)
        if (generator := generator_holder(value)) is not None:
            self.holders.append(generator)
            return []
        return self._object(item, value)

    def _leave_alone(self, item: _Item, container: Any) -> None:
        """A container whose class has its own ``__getitem__``: reading it, or putting it back, could run any code."""
        if any(isinstance(each, torch.Tensor) for each in _raw_items(container)):
            name = item.name or "a container"
            self.notes.append(f"{name}: tensors in a {type(container).__name__} were not compared")

    def _module(self, item: _Item, module: torch.nn.Module) -> Iterator[_Item]:
        own = vars(module)
        self._hold(DictHolder(own))
        tables = {name: own.get(name) for name in _TABLES}
        for table, kind in (("_parameters", PARAMETER), ("_buffers", BUFFER), ("_modules", None)):
            entries = tables[table]
            if not isinstance(entries, dict):  # a scripted module keeps them elsewhere
                read = {"_parameters": module.named_parameters, "_buffers": module.named_buffers}.get(table)
                entries = dict(read(recurse=False)) if read is not None else dict(module.named_children())
            elif id(entries) not in self._seen:
                self._hold(DictHolder(entries))
            for name, value in entries.items():
                yield item.attribute(value, name, kind or ATTRIBUTE)
        for name, value in own.items():
            if name not in _TABLES:
                yield item.attribute(value, name)
        yield from self._classes(item, type(module))

    def _mapping(self, item: _Item, values: dict[Any, Any]) -> Iterable[_Item]:
        if self._too_large(item, values):
            return []
        self._hold(DictHolder(values))
        return [
            item.child(value, f"{item.name}[{_key_text(key, position)}]")
            for position, (key, value) in enumerate(list(values.items()))
        ]

    def _sequence(self, item: _Item, values: list[Any] | tuple[Any, ...] | deque[Any] | set[Any]) -> Iterable[_Item]:
        if self._too_large(item, values):
            return []
        if not isinstance(values, tuple):
            self._hold(SetHolder(values) if isinstance(values, set) else ListHolder(values))
        inside = replace(item, in_a_set=item.in_a_set or (isinstance(values, set) and len(values) > 1))
        return [inside.child(value, f"{item.name}[{index}]") for index, value in enumerate(values)]

    def _too_large(self, item: _Item, values: Any) -> bool:
        if len(values) <= LARGEST_CONTAINER:
            return False
        first = next(iter(values.values() if isinstance(values, dict) else values))
        if not isinstance(first, _PLAIN):
            self.notes.append(f"{item.name or 'a container'} has {len(values):,} entries and was not looked into")
        return True

    def _function(self, item: _Item, function: FunctionType) -> Iterator[_Item]:
        """Variables go by their own names: the function that they were found through is left out."""
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            holder = CellHolder(cell)
            self._hold(holder)
            for value in holder.read().values():
                yield item.child(value, name, CLOSURE)
        if function.__defaults__:
            self._hold(DefaultsHolder(function))
            names = function.__code__.co_varnames[: function.__code__.co_argcount][-len(function.__defaults__) :]
            for name, value in zip(names, function.__defaults__, strict=True):
                yield item.child(value, name, BOUND)
        if function.__kwdefaults__:
            self._hold(DictHolder(function.__kwdefaults__))
            for name, value in function.__kwdefaults__.items():
                yield item.child(value, name, BOUND)
        if attributes := vars(function):
            self._hold(DictHolder(attributes))
            for name, value in attributes.items():
                yield item.child(value, function.__name__ if name == "__wrapped__" else f"{function.__name__}.{name}")
        if not _is_foreign(function.__globals__.get("__name__")):
            yield from self._globals(item, function)

    def _globals(self, item: _Item, function: FunctionType) -> Iterator[_Item]:
        everything = function.__globals__
        if id(everything) not in self._namespaces:
            self._namespaces[id(everything)] = (NamesHolder(everything), "")
            self._hold(self._namespaces[id(everything)][0])
        holder, _ = self._namespaces[id(everything)]
        for code in _codes(function.__code__):
            holder.codes.append(code)
            for name in code.co_names:
                if name not in holder.names:
                    holder.names.add(name)
                    if name in everything:
                        yield item.child(everything[name], name, GLOBAL)
            if names := {name for name in code.co_names if name not in self._named}:
                yield from self._newly_named(item, names)

    def _newly_named(self, item: _Item, names: set[str]) -> Iterator[_Item]:
        """Attributes of classes and Python modules that were seen before, and are named only now."""
        self._named |= names
        for holder, prefix in list(self._namespaces.values()):
            if not isinstance(holder.target, dict):
                yield from self._named_in(item, holder, prefix, names)

    def _named_in(self, item: _Item, holder: NamesHolder, prefix: str, names: Iterable[str]) -> Iterator[_Item]:
        everything = vars(holder.target)
        for name in names:
            if name in everything:
                holder.names.add(name)
                yield item.child(everything[name], f"{prefix}.{name}", GLOBAL)

    def _classes(self, item: _Item, cls: type) -> Iterator[_Item]:
        for each in cls.__mro__:
            if not _is_foreign(each.__module__):
                yield item.child(each, each.__name__)

    def _namespace(self, item: _Item, namespace: type | ModuleType) -> Iterator[_Item]:
        """A class or a Python module: only what some code names."""
        home = namespace.__module__ if isinstance(namespace, type) else namespace.__name__
        if _is_foreign(home):
            return
        holder = NamesHolder(namespace)
        prefix = namespace.__name__.rpartition(".")[2]
        self._namespaces[id(namespace)] = (holder, prefix)
        self._hold(holder)
        yield from self._named_in(item, holder, prefix, set(self._named))
        if isinstance(namespace, type):
            yield from self._classes(item, namespace)

    def _partial(self, item: _Item, partial: functools.partial[Any]) -> Iterator[_Item]:
        self._hold(PartialHolder(partial))
        self._hold(DictHolder(partial.keywords))
        yield item.child(partial.func, item.name)
        for index, value in enumerate(partial.args):
            yield item.child(value, f"args[{index}]", BOUND)
        for name, value in partial.keywords.items():
            yield item.child(value, name, BOUND)

    def _object(self, item: _Item, value: Any) -> Iterator[_Item]:
        """An object of some class: its attributes where they are kept, and the methods that are named."""
        attributes = _attributes_of(value)
        if _is_foreign(type(value).__module__) and not isinstance(value, _STATEFUL):
            if (wrapped := (attributes or {}).get("__wrapped__")) is not None:
                yield item.child(wrapped, item.name)  # functools.lru_cache, say
            return
        if attributes is not None:
            self._hold(DictHolder(attributes))
            for name, each in attributes.items():
                yield item.attribute(each, name)
        if slots := _slots_of(type(value)):
            holder = SlotsHolder(value, slots)
            self._hold(holder)
            for name, each in holder.read().items():
                yield item.attribute(each, name)
        yield from self._classes(item, type(value))

    def _hold(self, holder: Holder) -> None:
        self._seen[id(holder.target)] = holder.target
        self.holders.append(holder)


def _is_foreign(module: Any) -> bool:
    return not isinstance(module, str) or _is_foreign_name(module)


@functools.lru_cache(maxsize=4096)
def _is_foreign_name(module: str) -> bool:
    return module.partition(".")[0] in _FOREIGN


def _wrapped_by(value: MethodType | staticmethod[..., Any] | classmethod[Any, ..., Any] | property) -> list[Any]:
    """The functions behind a method or a property, and what a method is bound to."""
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, property):
        return [each for each in (value.fget, value.fset) if each is not None]
    return [value.__func__]


def _reads_plainly(container: Any) -> bool:
    """Whether reading and writing a container runs no code but Python's own."""
    if type(container) in (dict, list, tuple, deque, set):
        return True
    kind = next(each for each in type(container).__mro__ if each.__module__ in {"builtins", "collections"})
    names = ("__getitem__", "__setitem__", "__iter__", "__contains__", "items", "values", "clear", "update", "extend")
    return all(getattr(type(container), name, None) is getattr(kind, name, None) for name in names)


def _raw_items(container: Any) -> Iterable[Any]:
    """What a container holds, past any method of its class."""
    if isinstance(container, dict):
        return dict.values(container)
    kind = next(each for each in (list, tuple, deque, set) if isinstance(container, each))
    return kind.__iter__(container)


def _attributes_of(value: Any) -> dict[str, Any] | None:
    """An object's ``__dict__``, past any ``__getattribute__`` of its class."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def _slots_of(cls: type) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for each in cls.__mro__:
        slots = vars(each).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            hidden = name.startswith("__") and not name.endswith("__")
            names[f"_{each.__name__.lstrip('_')}{name}" if hidden else name] = None
    return tuple(name for name in names if name not in {"__dict__", "__weakref__"})


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _key_text(key: Any, position: int) -> str:
    """How a key reads in a path; one without a short text of its own (a tensor) goes by its position."""
    if isinstance(key, str | int | float | bool | bytes):
        text = repr(key)
        return text if len(text) <= _LONGEST_KEY else f"{text[: _LONGEST_KEY - 1]}…"
    return str(position)
