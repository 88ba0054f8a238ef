"""Delta debugging: the smallest set of items that still fails.

Halves are tested first, then the set without one part, in ever finer parts. The result is minimal in the sense that no
single item can be taken away. No set is tested twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from inductor_debug_jupyter.pipeline.minify.predicates import Outcome


@dataclass
class DeltaDebugging:
    """One search, with the outcome of every set that it tested.

    Args:
        test: tests one set of items.
        limit: how many sets to test before the smallest failing one so far is the answer.
    """

    test: Callable[[tuple[str, ...]], Outcome]
    limit: int = 2000
    seen: dict[frozenset[str], Outcome] = field(default_factory=dict)
    is_complete: bool = True

    def fails(self, items: Sequence[str]) -> bool:
        """Whether a set fails; past the limit nothing does, so that the search ends."""
        key = frozenset(items)
        if key not in self.seen:
            if len(self.seen) >= self.limit:
                self.is_complete = False
                return False
            self.seen[key] = self.test(tuple(items))
        return self.seen[key].fails

    def smallest(self, items: Sequence[str], guess: Sequence[str] = ()) -> list[str] | None:
        """The smallest failing subset; ``guess`` is tested first. None when the whole set does not fail."""
        if guess and self.fails(guess):
            kept = list(guess)
        elif self.fails(items):
            kept = list(items)
        else:
            return None
        parts = 2
        while len(kept) > 1:
            smaller = self._one_part(kept, parts)
            if smaller is not None:
                kept, parts = smaller, 2
                continue
            smaller = self._without_one_part(kept, parts)
            if smaller is not None:
                kept, parts = smaller, max(parts - 1, 2)
                continue
            if parts >= len(kept):
                break
            parts = min(parts * 2, len(kept))
        return kept

    def nearest_passing(self, kept: Sequence[str]) -> tuple[str, ...] | None:
        """Of the sets that passed, the one that differs least from the smallest failing one."""
        smallest = frozenset(kept)
        passing = [items for items, outcome in self.seen.items() if not outcome.fails]
        if not passing:
            return None
        distances = [(len(items ^ smallest), -len(items), sorted(items)) for items in passing]
        return tuple(min(distances)[2])

    def _one_part(self, kept: list[str], parts: int) -> list[str] | None:
        return next((part for part in _split(kept, parts) if self.fails(part)), None)

    def _without_one_part(self, kept: list[str], parts: int) -> list[str] | None:
        for part in _split(kept, parts):
            rest = [item for item in kept if item not in set(part)]
            if rest and self.fails(rest):
                return rest
        return None


def _split(items: list[str], parts: int) -> list[list[str]]:
    """Cut a list into so many parts of about the same length."""
    bounds = [len(items) * number // parts for number in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(bounds) if end > start]
