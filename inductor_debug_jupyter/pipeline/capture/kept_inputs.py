"""Copies of inputs, so that a call can be run again, and the memory that all of them together may take.

One :class:`InputBudget` is for a whole kernel. A call that does not fit makes room: the copies that were not used for
the longest time are freed first, whichever session they belong to; that session raises an error when it is to run the
call again. The budget holds nothing alive: copies are freed with their session.
"""

from __future__ import annotations

import logging
import weakref
from typing import Any

from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors

log = logging.getLogger("inductor_debug_jupyter")


class KeptInputs:
    """The copied inputs of one call, for as long as the budget has room for them."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], budget: InputBudget | None = None) -> None:
        self._values: tuple[tuple[Any, ...], dict[str, Any]] | None = (args, kwargs)
        self._budget = budget
        self.nbytes = bytes_of((args, kwargs))

    @property
    def are_there(self) -> bool:
        """Whether they were not freed."""
        return self._values is not None

    def values(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional arguments and those by name; the copies count as used just now."""
        assert self._values is not None, "check .are_there first"
        if self._budget is not None:
            self._budget.used(self)
        return self._values

    def let_go(self) -> None:
        """Free the copies."""
        self._values = None


class InputBudget:
    """``limit``: the most bytes that the kept inputs of all sessions together may have."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept: dict[int, weakref.ref[KeptInputs]] = {}
        """By identity, least recently used first."""
        self._has_warned = False

    @property
    def nbytes(self) -> int:
        """The bytes kept just now."""
        return sum(each.nbytes for each in self._alive())

    def add(self, kept: KeptInputs) -> None:
        """Count copies that fit, see :meth:`make_room`."""
        self._kept[id(kept)] = weakref.ref(kept)

    def used(self, kept: KeptInputs) -> None:
        """Move copies to the end of the order in which they are freed."""
        if id(kept) in self._kept:
            self._kept[id(kept)] = self._kept.pop(id(kept))

    def make_room(self, nbytes: int) -> bool:
        """Free copies until ``nbytes`` more fit; False, and nothing is freed, when they are over the limit."""
        if nbytes > self.limit:
            return False
        there = self._alive()
        too_many = sum(each.nbytes for each in there) + nbytes - self.limit
        for kept in there:
            if too_many <= 0:
                break
            if kept.nbytes:
                too_many -= kept.nbytes
                kept.let_go()
                self._warn_once()
        self._alive()
        return True

    def _alive(self) -> list[KeptInputs]:
        there = [each for ref in self._kept.values() if (each := ref()) is not None and each.are_there]
        self._kept = {id(each): weakref.ref(each) for each in there}
        return there

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "kept inputs have more than %.4g MiB in all: those that were not used for the longest time are let go "
                "from now on. A session whose inputs went cannot run its call again, and says so: run its cell again",
                self.limit / (1 << 20),
            )


def bytes_of(values: Any) -> int:
    """The bytes of all tensors in a structure."""
    sizes: list[int] = []
    map_tensors(lambda tensor: sizes.append(tensor.numel() * tensor.element_size()), values)
    return sum(sizes)
