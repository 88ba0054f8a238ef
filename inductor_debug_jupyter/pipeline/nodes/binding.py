"""Put a node's inputs, its output and a callable of it into a namespace, under names that are free there.

A name that the user uses is never overwritten: all three values get another stem (``addmm_3_v2``), which :class:`Bound`
shows. A name that still has the value bound here before is replaced: pressing a button twice leaves one set of names.
"""

from __future__ import annotations

import builtins
import itertools
import keyword
import re
import weakref
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.harmless import Harmless

_SUFFIXES = {"inputs": "_inputs", "output": "_output", "function": ""}


@dataclass(frozen=True)
class Bound(Harmless):
    """The names that were bound.

    Attributes:
        names: ``inputs``, ``output`` and ``function``, as far as they exist → the name in the namespace.
        instead_of: the name that was taken already, when others had to be chosen.
        lines: Python that uses the names, to copy.
    """

    names: dict[str, str]
    instead_of: str = ""
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        bound = f"bound {', '.join(self.names.values())}"
        return f"{bound} ({self.instead_of} was taken)" if self.instead_of else bound

    def __repr__(self) -> str:
        return "\n".join([str(self), *self.lines])


Marks = tuple[weakref.ref[Any], ...]
"""The objects of a value that can be referenced weakly: itself, or the items of a container."""

_bound: dict[int, dict[str, Marks]] = {}
"""Id of a namespace → name → what was bound; a new namespace with the id of a freed one has none of its objects."""


def _marks(value: Any) -> Marks:
    items = tuple(value.values()) if isinstance(value, dict) else value
    parts = items if isinstance(items, tuple | list) else (items,)
    return tuple(weakref.ref(each) for each in parts if type(each).__weakrefoffset__)


def bind(namespace: MutableMapping[str, Any], name: str, values: dict[str, Any], prefix: str = "") -> Bound:
    """Put values (``inputs``, ``output``, ``function``) into a namespace, all under one stem.

    Raises:
        OptionError: the prefix does not begin a name.
    """
    if prefix and not prefix.isidentifier():
        raise OptionError(f"prefix={prefix!r}; allowed: the beginning of a Python name")
    stem = re.sub(r"\W", "_", prefix + name)
    stem = stem if stem.isidentifier() else f"node_{stem}"
    known = _bound.setdefault(id(namespace), {})
    taken = ""
    for number in itertools.count(1):
        names = {kind: (stem if number == 1 else f"{stem}_v{number}") + _SUFFIXES[kind] for kind in values}
        in_the_way = [each for each in names.values() if _is_taken(namespace, each, known)]
        if not in_the_way:
            break
        taken = taken or in_the_way[0]
    for kind, value in values.items():
        namespace[names[kind]] = value
        known[names[kind]] = _marks(value)
    return Bound(names, taken)


def _is_taken(namespace: MutableMapping[str, Any], name: str, known: Mapping[str, Marks]) -> bool:
    if name in namespace:
        marks = _marks(namespace[name])
        return not marks or [id(mark()) for mark in known.get(name, ())] != [id(mark()) for mark in marks]
    return hasattr(builtins, name) or keyword.iskeyword(name) or keyword.issoftkeyword(name)
