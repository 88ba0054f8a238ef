"""Tensors as memory: the same tensor on another storage."""

from __future__ import annotations

import torch


def on_storage(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    """A tensor with the sizes, strides, offset and dtype of another, on a storage of its own."""
    view = torch.empty(0, dtype=like.dtype, device=storage.device)
    view.set_(storage, like.storage_offset(), like.size(), like.stride())
    if like.is_conj():
        view = view.conj()
    return torch._neg_view(view) if like.is_neg() else view
