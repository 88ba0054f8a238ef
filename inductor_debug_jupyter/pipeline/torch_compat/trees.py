"""Nested containers of tensors: torch's pytree, which knows tuples, dicts, dataclasses and HuggingFace outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree


def map_tensors(function: Callable[[torch.Tensor], Any], values: Any) -> Any:
    """Apply ``function`` to every tensor of a structure; returns the new structure."""
    return pytree.tree_map(lambda value: function(value) if isinstance(value, torch.Tensor) else value, values)


def map_kind(kind: type, function: Callable[[Any], Any], values: Any) -> Any:
    """Apply ``function`` to every leaf of one class; returns the new structure."""
    return pytree.tree_map(lambda value: function(value) if isinstance(value, kind) else value, values)


def of_kind(kind: type, values: Any) -> list[Any]:
    """All leaves of one class, in order."""
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, kind)]
