"""Things that are connected, step by step (union-find)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Groups(Generic[Thing]):
    """At first each thing is a group of its own."""

    def __init__(self, things: Iterable[Thing]) -> None:
        self._parent = {thing: thing for thing in things}

    def _root(self, thing: Thing) -> Thing:
        while (parent := self._parent[thing]) != thing:
            self._parent[thing] = self._parent[parent]
            thing = parent
        return thing

    def join(self, one: Thing, other: Thing) -> None:
        """Make one group of the groups of two things."""
        self._parent[self._root(one)] = self._root(other)

    def all(self) -> list[list[Thing]]:
        """Every group, its things in the order in which they were given."""
        found: dict[Thing, list[Thing]] = defaultdict(list)
        for thing in self._parent:
            found[self._root(thing)].append(thing)
        return list(found.values())
