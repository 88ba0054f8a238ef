"""Every graph that a reduction tested: no graph twice, within a budget, and kept across an interrupt.

With a journal each outcome is a line of JSON in a file as soon as it is known: a reduction that was interrupted goes
on from there, also in another process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from inductor_debug_jupyter.pipeline.minify.predicates import Outcome
from inductor_debug_jupyter.pipeline.reading import LARGEST_RECORD, read_regular
from inductor_debug_jupyter.pipeline.repro.graph_script import calls_of


@dataclass(frozen=True)
class Case:
    """One graph with its inputs.

    Attributes:
        gm: the graph.
        inputs: its inputs.
        kept: the names of the nodes that are left of the whole graph.
        changes: what was done to the inputs, in words.
    """

    gm: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    kept: tuple[str, ...]
    changes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """An id of the case within one reduction."""
        return key_of(self.kept, self.changes)

    @property
    def ops(self) -> int:
        """How many ops it has."""
        return len(calls_of(self.gm))


def key_of(kept: tuple[str, ...], changes: tuple[str, ...] = ()) -> str:
    """The id of a case within one reduction: the nodes that are left, and the changes of its inputs."""
    return "|".join((" ".join(sorted(kept)), *changes))


@dataclass(frozen=True, slots=True)
class Budget:
    """When a reduction ends early, with the smallest failing graph so far. ``seconds``: None for no limit."""

    evaluations: int = 2000
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a reduction is: graphs tested, ops of the smallest failing one and of the whole, and seconds."""

    evaluations: int
    ops: int
    total_ops: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.ops} of {self.total_ops} ops, {self.evaluations} evaluations, {self.seconds:.0f} s"


@dataclass
class Evaluations:
    """The tested graphs of one reduction.

    Args:
        test: tests one graph.
        budget: the limits; they count from :meth:`start`.
        journal: the file that keeps the outcomes until :meth:`finish`.
        on_test: called after each test.
    """

    test: Callable[[Case], Outcome]
    budget: Budget = field(default_factory=Budget)
    journal: Path | None = None
    on_test: Callable[[], None] = lambda: None
    seen: dict[str, Outcome] = field(default_factory=dict)
    smallest: Case | None = None
    is_complete: bool = True
    resumed: int = 0
    spent: float = 0.0
    _began: float = 0.0
    _before: int = 0

    def start(self) -> None:
        """Begin, or go on; the budget is whole again."""
        self._began, self._before, self.is_complete = time.monotonic(), len(self.seen), True
        if self.journal is not None and not self.seen and self.journal.is_file():
            self.seen = _read(self.journal)
            self.resumed = self._before = len(self.seen)

    def fails(self, case: Case) -> bool:
        """Whether a graph fails. Past the budget nothing does, so that the search ends."""
        if not self.knows(case.key):
            if self.is_over():
                return False
            self._keep(case.key, self.test(case))
        found = self.seen[case.key].fails
        if found and (self.smallest is None or (case.ops, -len(case.changes)) < self._size_of_smallest()):
            self.smallest = case
        self.on_test()
        return found

    def knows(self, key: str) -> bool:
        """Whether this case was tested."""
        return key in self.seen

    def is_over(self) -> bool:
        """Whether the budget is spent, asked before a case is made, which takes time too; the search then ends."""
        seconds = self.budget.seconds
        late = seconds is not None and self.seconds >= seconds
        if late or len(self.seen) - self._before >= self.budget.evaluations:
            self.is_complete = False
        return not self.is_complete

    def finish(self) -> None:
        """Delete the journal: the reduction is complete."""
        if self.journal is not None:
            self.journal.unlink(missing_ok=True)

    @property
    def seconds(self) -> float:
        """Seconds since :meth:`start`."""
        return time.monotonic() - self._began

    def nearest_passing(self, kept: tuple[str, ...]) -> tuple[str, ...] | None:
        """Of the sets of nodes that passed, the one that differs least from ``kept``."""
        smallest = frozenset(kept)
        passing = [frozenset(key.split()) for key, outcome in self.seen.items() if "|" not in key and not outcome.fails]
        distances = [(len(names ^ smallest), -len(names), sorted(names)) for names in passing if names]
        return tuple(min(distances)[2]) if distances else None

    def _size_of_smallest(self) -> tuple[int, int]:
        assert self.smallest is not None
        return self.smallest.ops, -len(self.smallest.changes)

    def _keep(self, key: str, outcome: Outcome) -> None:
        self.seen[key] = outcome
        if self.journal is not None:
            self.journal.parent.mkdir(parents=True, exist_ok=True)
            with self.journal.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, outcome.fails, outcome.reason]) + "\n")


def _read(journal: Path) -> dict[str, Outcome]:
    """The outcomes in a journal; a line that was cut off by the interrupt is left out."""
    found: dict[str, Outcome] = {}
    for line in read_regular(journal, LARGEST_RECORD).decode(errors="replace").splitlines():
        try:
            key, fails, reason = json.loads(line)
        except ValueError:
            continue
        if isinstance(key, str) and isinstance(fails, bool):
            found[key] = Outcome(fails, str(reason))
    return found


class ReductionStrategy(Protocol):
    """Makes a failing case smaller. It costs tests, which :class:`Evaluations` counts and keeps to the budget."""

    def reduce(self, case: Case, tests: Evaluations) -> Case:
        """A case that fails and is no larger than ``case``, which fails."""
        ...
