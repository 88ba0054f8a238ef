"""Copies of inputs, so that a call can be run again, and the memory that all of them together may take.

One :class:`InputBudget` is for a whole kernel. A call that does not fit makes room: the copies that were not used for
the longest time are freed first, whichever session they belong to; that session raises an error when it is to run the
call again. Inputs that a comparison was asked for may be over the limit until it is over. A what-if shares the tensors
that it does not change with the call that it came from: they count once. The budget holds nothing alive: copies are
freed with their session.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Collection, Iterable
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors

log = logging.getLogger("inductor_debug_jupyter")


class KeptInputs:
    """The copied inputs of one call, for as long as the budget has room for them."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], budget: InputBudget | None = None) -> None:
        self._values: tuple[tuple[Any, ...], dict[str, Any]] | None = (args, kwargs)
        self._budget = budget
        self.storages = _storages((args, kwargs))
        """Address of each tensor's memory → its bytes."""

    @property
    def nbytes(self) -> int:
        """The bytes that the copies have, or had."""
        return sum(self.storages.values())

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
        return _bytes_together(self._alive())

    def add(self, kept: KeptInputs) -> None:
        """Count copies, see :meth:`make_room`."""
        self._kept[id(kept)] = weakref.ref(kept)

    def used(self, kept: KeptInputs) -> None:
        """Move copies to the end of the order in which they are freed."""
        if id(kept) in self._kept:
            self._kept[id(kept)] = self._kept.pop(id(kept))

    def make_room(self, nbytes: int = 0, spared: Collection[KeptInputs] = ()) -> bool:
        """Free copies until ``nbytes`` more fit; False, and nothing is freed, when they are over the limit.

        Copies that are over the limit by themselves are freed first, and ``spared`` ones not at all.
        """
        if nbytes > self.limit:
            return False
        there = self._alive()
        for kept in sorted(there, key=lambda each: each.nbytes <= self.limit):
            if _bytes_together(there) + nbytes <= self.limit:
                break
            if kept.nbytes and not any(kept is each for each in spared):
                kept.let_go()
                there = [each for each in there if each is not kept]
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


def _storages(values: Any) -> dict[int, int]:
    found: dict[int, int] = {}

    def measure(tensor: torch.Tensor) -> None:
        try:
            storage = tensor.untyped_storage()
            found[storage.data_ptr() or id(tensor)] = storage.nbytes()
        except (NotImplementedError, RuntimeError):  # sparse, nested: its values lie in several places
            found[id(tensor)] = tensor.numel() * tensor.element_size()

    map_tensors(measure, values)
    return found


def _bytes_together(several: Iterable[KeptInputs]) -> int:
    together: dict[int, int] = {}
    for kept in several:
        together.update(kept.storages)
    return sum(together.values())
