"""The fixed model, as a module that a user can call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite, RewritingBackend
from inductor_debug_jupyter.pipeline.torch_compat.regions import compile_alone, undisturbed


class FixedModule(torch.nn.Module):
    """A model that computes what the original does, through the rewritten graph.

    It shares the original's parameters: training one trains the other. Other input sizes are rewritten when they first
    come.
    """

    def __init__(self, model: Callable[..., Any], rewrite: Rewrite) -> None:
        super().__init__()
        self.model = model
        self.rewrite = rewrite
        self._compiled = compile_alone(model, RewritingBackend(rewrite))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the original's."""
        with undisturbed():
            return self._compiled(*args, **kwargs)
