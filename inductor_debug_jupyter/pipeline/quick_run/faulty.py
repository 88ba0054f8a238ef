"""A backend that is wrong on purpose, to see what a failure looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


class WrongFirstElement:
    """Compiles with ``backend``, and adds 1 to the first element of the first output that has a fraction."""

    def __init__(self, backend: Callable[..., Any], name: str) -> None:
        self._backend = backend
        self.name = f"{name} with a forced failure"

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """What ``torch.compile`` calls."""
        compiled = self._backend(graph_module, example_inputs)

        def run(*args: Any) -> Any:
            outputs = list(compiled(*args))
            for at, value in enumerate(outputs):
                if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
                    wrong = torch.zeros_like(value, memory_format=torch.contiguous_format)
                    wrong.view(-1)[0] = 1
                    outputs[at] = value + wrong
                    break
            return tuple(outputs)

        return run
