"""The adapter of a third party in few lines: what tests of adapters, bisect and minify start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_debug_jupyter import AcceleratorAdapter


class SilentAdapter(AcceleratorAdapter):
    """Says nothing of its device, and runs op by op."""

    name = "silent"

    def get_supported_dtypes(self) -> Any:
        return None

    def get_supported_ops(self) -> Any:
        return None

    def get_memory_limit(self) -> Any:
        return None

    def compile(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return torch.fx.Interpreter(gm).run


class OffByOne(SilentAdapter):
    """A device on which one op, as the graph calls it, gives one too much."""

    name = "off-by-one"

    def __init__(self, op: Callable[..., Any]) -> None:
        self.op = op

    def compile(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        wrong = self.op

        class Run(torch.fx.Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                result = super().call_function(target, args, kwargs)
                return result + 1 if target is wrong else result

        return Run(gm).run
