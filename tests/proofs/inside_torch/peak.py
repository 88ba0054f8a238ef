"""Measure how much memory really is alive while something runs: a dispatch mode that counts storages.

It knows nothing of graphs or liveness: it sees the storages of the tensors that ops return, holds a weak reference to
each, and after every op asks which are still there. The reference is to the storage, not to the Python tensor: what
autograd saves for the backward is alive although no Python object names it. It is what the estimate in
:mod:`~inductor_debug_jupyter.pipeline.devices.memory` is held against.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class MeasuredPeak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """``with MeasuredPeak(inputs) as measured: graph(*inputs)``; then ``measured.peak`` is in bytes."""

    supports_higher_order_operators = True

    def __init__(self, inputs: Iterable[Any] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._there: dict[int, tuple[StorageWeakRef, int]] = {}
        for leaf in pytree.tree_leaves(list(inputs)):
            self._see(leaf)
        self.peak = self.alive

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(result):
            self._see(leaf)
        self.peak = max(self.peak, self.alive)
        return result

    @property
    def alive(self) -> int:
        """Bytes of the storages that are alive now."""
        gone = [key for key, (storage, _) in self._there.items() if storage.expired()]  # type: ignore[no-untyped-call]
        for key in gone:
            del self._there[key]
        return sum(nbytes for _, nbytes in self._there.values())

    def _see(self, leaf: Any) -> None:
        if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
            return
        storage = leaf.untyped_storage()
        if storage.nbytes():
            reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            self._there[reference.cdata] = (reference, storage.nbytes())
