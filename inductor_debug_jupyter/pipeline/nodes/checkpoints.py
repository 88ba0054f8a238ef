"""Values of a graph's run that are kept, so that the next question about it does not start from the beginning.

While a graph runs, whatever is still needed later is kept at places that lie √n nodes apart: a checkpoint. A later
question goes back from its node only as far as values that are kept, and runs what lies between. A node that draws
random numbers has the generator's state before it kept too; without it, the draws before it run again, in their order.

All checkpoints of a session together stay within a budget. Those that were not used for the longest time go first; what
is larger than the budget is not kept. Whatever is missing is computed again, so that only the time depends on it.

Nothing is kept that shares memory with an argument of the graph: that is the user's own, is there anyhow, and must not
be held. Nor is anything kept once a node has written somewhere: see :func:`stepping.resumable`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.torch_compat.graphs import storage_of, tensors_of

BUDGET: Final = 256 << 20
"""Bytes that all checkpoints of a session may have."""

Place = int | str
"""Where in a graph: a number of a checkpoint, or what else is kept of its run."""


def storages(values: Any) -> dict[int, int]:
    """The memory that values are in → its bytes."""
    return {key: size or 0 for key, size in map(storage_of, tensors_of(values))}


class Checkpoints:
    """All that is kept for one session.

    Args:
        budget: the most bytes of it.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self.nbytes = 0
        """What is kept just now."""
        self._sizes: OrderedDict[tuple[GraphRun, Place], int] = OrderedDict()

    def limit(self, budget: int) -> None:
        """Another budget, from now on."""
        self.budget = budget
        self._make_room(0)

    def add(self, run: GraphRun, place: Place, values: Mapping[str, Any]) -> bool:
        """Keep values at a place; whether they were."""
        size = sum(storages(list(values.values())).values())
        if size > self.budget:
            return False
        self._make_room(size)
        self._sizes[run, place] = self._sizes.pop((run, place), 0) + size
        run.places.setdefault(place, {}).update(values)
        self.nbytes += size
        return True

    def touch(self, run: GraphRun, places: Iterable[Place]) -> None:
        """These were of use."""
        for place in places:
            self._sizes.move_to_end((run, place))

    def drop(self, run: GraphRun) -> None:
        """Let go of everything of a run."""
        for place in list(run.places):
            self._forget(run, place)

    def _make_room(self, size: int) -> None:
        while self._sizes and self.nbytes + size > self.budget:
            self._forget(*next(iter(self._sizes)))

    def _forget(self, run: GraphRun, place: Place) -> None:
        self.nbytes -= self._sizes.pop((run, place))
        del run.places[place]


class GraphRun:
    """What is kept of one run of one graph, from one set of arguments.

    Args:
        checkpoints: where it is counted.
        random_state: the generator's, when the graph begins.
    """

    def __init__(self, checkpoints: Checkpoints, random_state: torch.Tensor) -> None:
        self.random_state = random_state
        self.places: dict[Place, dict[str, Any]] = {}
        """Place → values by node. A node's value stands at one place only."""
        self._checkpoints = checkpoints

    def known(self) -> dict[str, Any]:
        """Every value that is kept, by node."""
        numbered = [values for place, values in self.places.items() if isinstance(place, int)]
        return {name: value for values in numbered for name, value in values.items()}

    def keep(self, place: Place, values: Mapping[str, Any]) -> bool:
        """Keep values at a place if they fit into the budget; whether they did."""
        return self._checkpoints.add(self, place, values)

    def used(self, names: Iterable[str]) -> None:
        """These values were of use: they are kept longest."""
        wanted = set(names)
        self._checkpoints.touch(self, [each for each, values in self.places.items() if not wanted.isdisjoint(values)])

    def state(self, draw: str) -> torch.Tensor | None:
        """The generator's state before a node that draws, if it is kept."""
        return self.places.get(f"before {draw}", {}).get(draw)

    def keep_state(self, draw: str) -> None:
        """The generator is where it is before this node."""
        self.keep(f"before {draw}", {draw: torch.get_rng_state()})

    def end(self) -> None:
        """Nothing of it is of use any more."""
        self._checkpoints.drop(self)
