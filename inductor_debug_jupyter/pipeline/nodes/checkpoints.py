"""Checkpoints: values of a graph's run that are kept, so that the next node does not need a run from the beginning.

Every √n nodes of a run, the values that are still needed later are kept. To reach another node, only the nodes between
kept values and that node run. Before a node that draws random numbers the generator's state is kept too; without it,
the draws before that node run again, in their order.

All checkpoints of a session stay within a budget of bytes. The least recently used go first; a value larger than the
budget is not kept. A missing value is computed again, so checkpoints only save time.

Values that share memory with an argument of the graph are not kept: that memory is the user's, and must not be held.
Nor is any value kept after a node has written somewhere: see :func:`stepping.resumable`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.torch_compat.graphs import storage_of, tensors_of

BUDGET: Final = 256 << 20
"""The most bytes of all checkpoints of a session."""

Place = int | str
"""The number of a checkpoint in a graph, or the name of something else that is kept of its run."""


def storages(values: Any) -> dict[int, int]:
    """The storages of values → their bytes."""
    return {key: size or 0 for key, size in map(storage_of, tensors_of(values))}


class Checkpoints:
    """The checkpoints of one session, within a budget of bytes."""

    def __init__(self) -> None:
        self.budget = BUDGET
        self.nbytes = 0
        """Bytes that are kept now."""
        self.sizes: OrderedDict[tuple[GraphRun, Place], int] = OrderedDict()
        """Bytes at each place, those that were used last at the end."""

    def limit(self, budget: int) -> None:
        """Set another budget."""
        self.budget = budget
        self._make_room(0)

    def add(self, run: GraphRun, place: Place, values: Mapping[str, Any]) -> bool:
        """Keep values at a place if they fit into the budget; returns whether they did."""
        size = sum(storages(list(values.values())).values())
        if size > self.budget:
            return False
        self._make_room(size)
        self.sizes[run, place] = self.sizes.pop((run, place), 0) + size
        run.places.setdefault(place, {}).update(values)
        self.nbytes += size
        return True

    def _make_room(self, size: int) -> None:
        while self.sizes and self.nbytes + size > self.budget:
            self.forget(*next(iter(self.sizes)))

    def forget(self, run: GraphRun, place: Place) -> None:
        """Free the values at a place of a run."""
        self.nbytes -= self.sizes.pop((run, place))
        del run.places[place]


class GraphRun:
    """The kept values of one run of one graph, from one set of arguments.

    Args:
        checkpoints: those of the session, which count the bytes.
        random_state: the generator's state where the graph begins.
    """

    def __init__(self, checkpoints: Checkpoints, random_state: torch.Tensor) -> None:
        self.random_state = random_state
        self.places: dict[Place, dict[str, Any]] = {}
        """Place → values by node. A node's value is at one place only."""
        self._checkpoints = checkpoints

    def known(self) -> dict[str, Any]:
        """Every value that is kept, by node."""
        numbered = [values for place, values in self.places.items() if isinstance(place, int)]
        return {name: value for values in numbered for name, value in values.items()}

    def keep(self, place: Place, values: Mapping[str, Any]) -> bool:
        """Keep values at a place, as :meth:`Checkpoints.add` does; False where they do not fit."""
        return self._checkpoints.add(self, place, values)

    def used(self, names: Iterable[str]) -> None:
        """Mark the places of these values as used last."""
        wanted = set(names)
        for place, values in self.places.items():
            if not wanted.isdisjoint(values):
                self._checkpoints.sizes.move_to_end((self, place))

    def state(self, draw: str) -> torch.Tensor | None:
        """The generator's state before a node that draws, if it is kept."""
        return self.places.get(f"before {draw}", {}).get(draw)

    def keep_state(self, draw: str) -> None:
        """Keep the generator's present state as that before this node."""
        self.keep(f"before {draw}", {draw: torch.get_rng_state()})

    def end(self) -> None:
        """Free all values."""
        for place in list(self.places):
            self._checkpoints.forget(self, place)
