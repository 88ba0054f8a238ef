"""Fewer nodes: first a guess, then the two ends of what is needed by binary search, then delta debugging.

1. The nodes that a localization blames are tested alone.
2. The shortest failing prefix of the graph ends in a node that is needed, and the shortest failing rest of it starts
   with one: two binary searches. Most failures need one of them alone, both, or the shortest path between the two.
3. Where more is needed, further nodes are found one by one, each by a binary search; from :data:`MOST_SINGLE` on by
   delta debugging over what is left.
4. In the end no single node can be taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

from inductor_debug_jupyter.pipeline.minify.cutting import GraphCutter
from inductor_debug_jupyter.pipeline.minify.evaluations import Case, Evaluations, key_of

MOST_SINGLE: Final = 6
"""So many needed nodes are searched one by one; then halves of what is left are tried."""

Fails = Callable[[Sequence[str]], bool]


class FewerNodes:
    """Keeps the nodes that the failure needs.

    Args:
        cutter: makes the graphs.
        guesses: sets of nodes to test first.
    """

    def __init__(self, cutter: GraphCutter, guesses: Iterable[Sequence[str]] = ()) -> None:
        self._cutter = cutter
        self._guesses = [tuple(guess) for guess in guesses]

    def reduce(self, case: Case, tests: Evaluations) -> Case:
        """The case of the fewest nodes; ``case`` itself where cutting alone makes the failure go away."""
        order = self._cutter.candidates

        def fails(names: Sequence[str]) -> bool:
            kept = tuple(names)
            known = tests.seen.get(key_of(kept))
            if known is not None:
                return known.fails
            return not tests.is_over() and tests.fails(self.case(kept))

        smallest = smallest_of(order, fails, self._guesses, self._cutter.path)
        return case if smallest is None else self.case(tuple(smallest))

    def case(self, kept: tuple[str, ...]) -> Case:
        """The graph of these nodes."""
        gm, inputs = self._cutter.cut(kept)
        return Case(gm, tuple(inputs), kept)


def smallest_of(
    order: Sequence[str],
    fails: Fails,
    guesses: Iterable[Sequence[str]] = (),
    path: Callable[[str, str], Sequence[str]] = lambda first, last: (),
) -> list[str] | None:
    """The smallest failing subset of ``order``; None when the whole set does not fail."""
    guess = next((list(guess) for guess in guesses if guess and fails(guess)), None)
    if guess is None and not fails(order):
        return None
    kept = guess if guess is not None else _needed(list(order), fails, path)
    # Of a path nearly all is needed: its nodes are tried one by one, and no halves of it.
    is_path = len(kept) > 2 and kept == list(path(kept[0], kept[-1]))
    kept = _delta_debugged(kept, fails, parts=len(kept) if is_path else 2)
    return _shortened(kept, fails, path)


def _needed(order: list[str], fails: Fails, path: Callable[[str, str], Sequence[str]]) -> list[str]:
    """A failing subset of a failing list, mostly a small one."""
    window = order[: _least(len(order), lambda count: fails(order[:count]))]
    last = window[-1:]
    if fails(last):
        return last
    count = len(window)
    window = window[count - _least(count, lambda length: fails(window[count - length :])) :]
    ends = [window[0], *last]
    if len(window) <= 2 or fails(ends):
        return list(dict.fromkeys(ends))
    between = [name for name in path(*ends) if name in set(window)]
    if len(between) > 2 and fails(between):
        return _halved(between, fails)
    return _one_by_one(window, ends, fails)


def _one_by_one(window: list[str], ends: list[str], fails: Fails) -> list[str]:
    """Add the last node that is needed, and again, until that fails; or else what is left with those found."""
    found, rest = ends, window[1:-1]
    while rest and len(found) < MOST_SINGLE:
        rest = rest[: _least(len(rest), lambda count, rest=rest, found=found: fails(rest[:count] + found))]  # type: ignore[misc]
        found = [found[0], rest.pop(), *found[1:]]
        if fails(found):
            return found
    return [found[0], *rest, *found[1:]]


def _halved(path: list[str], fails: Fails) -> list[str]:
    """A failing path without the halves of its inside that are not needed: of a path that is, two tests say so."""
    while len(path) > 2:
        inside, middle = path[1:-1], len(path) // 2 - 1
        halves = ([path[0], *half, path[-1]] for half in (inside[:middle], inside[middle:]) if len(half) < len(inside))
        if (smaller := next(filter(fails, halves), None)) is None:
            break
        path = smaller
    return path


def _least(most: int, fails: Callable[[int], bool]) -> int:
    """The least count that fails by binary search: ``most`` does, and 0 does not."""
    least = 0
    while most - least > 1:
        middle = (least + most) // 2
        if fails(middle):
            most = middle
        else:
            least = middle
    return most


def _shortened(kept: list[str], fails: Fails, path: Callable[[str, str], Sequence[str]]) -> list[str]:
    """Where the nodes lie on one long path, the shortest path between its ends if that fails too."""
    if len(kept) < 3:
        return kept
    shorter = list(path(kept[0], kept[-1]))
    return shorter if 0 < len(shorter) < len(kept) and fails(shorter) else kept


def _delta_debugged(kept: list[str], fails: Fails, parts: int) -> list[str]:
    """Take parts of the list away, in the end single nodes, while what is left fails."""
    while len(kept) > 1:
        pieces = _split(kept, parts)
        if (smaller := next(filter(fails, pieces), None)) is not None:
            kept, parts = smaller, 2
        elif (smaller := _without_one(kept, pieces, fails)) is not None:
            kept, parts = smaller, max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(parts * 2, len(kept))
    return kept


def _without_one(kept: list[str], pieces: list[list[str]], fails: Fails) -> list[str] | None:
    rests = ([item for item in kept if item not in set(piece)] for piece in pieces)
    return next((rest for rest in rests if rest and fails(rest)), None)


def _split(items: list[str], parts: int) -> list[list[str]]:
    """Cut a list into so many parts of about the same length."""
    bounds = [len(items) * number // parts for number in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(bounds) if end > start]
