"""Ops that a rewritten graph computes in float32 while the others are in float16 or bfloat16.

Such an op reads its operands in float32, and its result stays so until an op reads it. A product has one format and
reads it cast. Any other op reads it as it is, computes in float32, as devices do inside of an op, and its own result
is in the narrow format again. Views and copies of it stay in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.fixits.padded import Padded, blocks_of, tensor_of, wrapped
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.formats.arithmetic import OPERANDS
from inductor_debug_jupyter.pipeline.formats.places import nodes_at
from inductor_debug_jupyter.pipeline.torch_compat.graphs import is_aten, node_value
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import bare_op, rounds_nothing
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind

_NARROW: Final = (torch.float16, torch.bfloat16)


def reaches(node: torch.fx.Node, goal: Collection[torch.fx.Node]) -> bool:
    """Whether a value is read by one of these ops, perhaps through ops that only move it."""
    return any(
        user in goal or (user.op == "call_function" and _only_moves(user) and reaches(user, goal))
        for user in node.users
    )


class Precision:
    """Which ops of a graph are computed in float32, and the operands and results of every op."""

    def __init__(self, plain: torch.fx.GraphModule, rewrite: Rewrite) -> None:
        self._rewrite = rewrite
        self.kept = nodes_at(plain.graph, rewrite.precise) if rewrite.precise else set()
        self._narrowed: torch.fx.Node | None = None
        """The op that computes in float32 and whose result is to be narrow."""

    def operands(self, node: torch.fx.Node, values: Callable[[torch.fx.Node], Any]) -> tuple[Any, Any]:
        """The arguments of an op, in the formats that it reads them in."""
        self._narrowed = None
        args, kwargs = map_kind(torch.fx.Node, values, (node.args, node.kwargs))
        if _only_moves(node):
            return args, kwargs
        if node in self.kept:
            return self._all_as(torch.float32, args, kwargs)
        wide = [self._usual(each) for each in node.all_input_nodes if _dtype_of(values(each)) is torch.float32]
        usual = next((dtype for dtype in wide if dtype in _NARROW), None)
        if usual is None:
            return args, kwargs
        if is_product(node):
            return self._all_as(usual, args, kwargs, torch.float32)
        self._narrowed = node
        return self._all_as(torch.float32, args, kwargs)

    def result(self, node: torch.fx.Node, made: Any) -> Any:
        """The result of an op, narrow again where only its operands are in float32."""
        if self._narrowed is not node:
            return made
        fake = node_value(node)
        fakes = list(fake) if isinstance(fake, tuple | list) else [fake]
        many = list(made) if isinstance(made, tuple | list) else [made]
        cast = [
            _as(each, self._rewrite.dtype(was.dtype)) if isinstance(was, torch.Tensor) else each
            for each, was in zip(many, fakes, strict=True)
        ]
        return type(made)(cast) if isinstance(made, tuple | list) else cast[0]

    def _usual(self, node: torch.fx.Node) -> torch.dtype | None:
        """The format that a value has where no op is kept in float32."""
        fake = node_value(node)
        return self._rewrite.dtype(fake.dtype) if isinstance(fake, torch.Tensor) else None

    @staticmethod
    def _all_as(dtype: torch.dtype, args: Any, kwargs: Any, of: torch.dtype | None = None) -> tuple[Any, Any]:
        """The arguments with every narrow tensor (or every one that is ``of`` a format) in that format."""
        froms = _NARROW if of is None else (of,)

        def cast(value: Any) -> Any:
            return _as(value, dtype) if _dtype_of(value) in froms else value

        return map_kind(Padded, cast, map_kind(torch.Tensor, cast, (args, kwargs)))  # type: ignore[no-any-return]


def is_product(node: torch.fx.Node) -> bool:
    """Whether an op has operands that are multiplied in one format."""
    name = bare_op(node.target)
    return name in OPERANDS or name.startswith("conv") or "scaled_dot_product" in name


def _only_moves(node: torch.fx.Node) -> bool:
    return not is_aten(node.target) or rounds_nothing(node.target, node.args)


def _dtype_of(value: Any) -> torch.dtype | None:
    return tensor_of(value).dtype if isinstance(value, torch.Tensor | Padded) else None


def _as(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Padded):
        return wrapped(value.tensor.to(dtype), value.sizes, value.zero, blocks_of(value))
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
