"""Measure how much memory really is alive while something runs: a dispatch mode that counts storages.

It knows nothing of graphs or liveness: it sees the tensors that ops return, and is told by weak references when they
die. It is what the estimate in :mod:`~inductor_debug_jupyter.pipeline.devices.memory` is held against.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


class MeasuredPeak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """``with MeasuredPeak(inputs) as measured: graph(*inputs)``; then ``measured.peak`` is in bytes."""

    def __init__(self, inputs: Iterable[Any] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive = 0
        self.peak = 0
        self._holders: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._references: dict[int, weakref.ref[torch.Tensor]] = {}
        for leaf in pytree.tree_leaves(list(inputs)):
            self._see(leaf)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(result):
            self._see(leaf)
        return result

    def _see(self, leaf: Any) -> None:
        if not isinstance(leaf, torch.Tensor) or id(leaf) in self._references:
            return
        storage = leaf.untyped_storage()
        key = storage.data_ptr()
        if not key:
            return
        if not self._holders.get(key):
            self._sizes[key] = storage.nbytes()
            self.alive += storage.nbytes()
            self.peak = max(self.peak, self.alive)
        self._holders[key] = self._holders.get(key, 0) + 1
        identity = id(leaf)
        self._references[identity] = weakref.ref(leaf, lambda _: self._gone(identity, key))

    def _gone(self, identity: int, key: int) -> None:
        self._references.pop(identity, None)
        self._holders[key] -= 1
        if not self._holders[key]:
            self.alive -= self._sizes.pop(key)
