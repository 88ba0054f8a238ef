"""Nested containers of tensors: torch's pytree, which knows tuples, dicts, dataclasses and HuggingFace outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree


def map_tensors(function: Callable[[torch.Tensor], Any], values: Any) -> Any:
    """The same structure with every tensor replaced by what ``function`` makes of it."""
    return pytree.tree_map(lambda value: function(value) if isinstance(value, torch.Tensor) else value, values)
