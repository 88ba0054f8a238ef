"""Backends for tests: one that is right but rounds otherwise, and ones that compute a single op wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

Replacement = Callable[..., Any]


def _backend(interpreter: Callable[[torch.fx.GraphModule], torch.fx.Interpreter]) -> Callable[..., Any]:
    def compile_graph(graph_module: torch.fx.GraphModule, _: Any) -> Any:
        return make_boxed_func(interpreter(graph_module).run)

    return aot_autograd(fw_compiler=compile_graph)


def wrong(op: str, replacement: Replacement) -> Callable[..., Any]:
    """A backend that calls ``replacement(op, *args, **kwargs)`` in the place of each op of that name."""

    class Swapped(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if str(target).split(".")[1:2] == [op]:
                return replacement(target, *args, **kwargs)
            return super().call_function(target, args, kwargs)

    return _backend(Swapped)


def in_float64() -> Callable[..., Any]:
    """A backend that computes each op in float64 and rounds once: better than eager mode, and so never at fault."""

    def widened(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.double()
        return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value

    class Widened(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            plain = super().call_function(target, args, kwargs)
            if not isinstance(target, torch._ops.OpOverload) or target.is_view or target._schema.is_mutable:
                return plain
            try:
                wide = target(*pytree.tree_map(widened, args), **pytree.tree_map(widened, kwargs))
            except (RuntimeError, NotImplementedError):
                return plain
            return pytree.tree_map(
                lambda ours, theirs: theirs.to(ours.dtype) if isinstance(ours, torch.Tensor) else ours, plain, wide
            )

    return _backend(Widened)
