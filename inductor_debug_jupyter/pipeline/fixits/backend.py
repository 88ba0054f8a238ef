"""A backend for ``torch.compile`` that runs a rewritten graph.

Dynamo's graph is traced to ATen ops, interpreted once more with the rewrite in force, and what comes of it goes through
AOTAutograd: autograd derives the backward of the rewritten forward, so there is nothing to rewrite twice. What the host
does before and after (pad and cast inputs and weights, cut and cast back the results) is outside the graph, as it is on
a device, whose driver lays tensors out on the way in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.devices.dtypes import item_size
from inductor_debug_jupyter.pipeline.devices.ops import MATMULS, lowered_names
from inductor_debug_jupyter.pipeline.fixits.blocks import wanted_blocks
from inductor_debug_jupyter.pipeline.fixits.border import Border, Result
from inductor_debug_jupyter.pipeline.fixits.op_call import OpCall, Sizes
from inductor_debug_jupyter.pipeline.fixits.padded import (
    Padded,
    Value,
    blocks_of,
    cut,
    is_zero,
    sizes_of,
    tensor_of,
    wrapped,
)
from inductor_debug_jupyter.pipeline.fixits.padded_ops import GROWING, compute
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.torch_compat.aten_level import aten_name, of_fixed_sizes, traced_aten, uses_vmap
from inductor_debug_jupyter.pipeline.torch_compat.graphs import (
    module_path_of,
    node_value,
    placeholder_roles,
    tensors_of,
)
from inductor_debug_jupyter.pipeline.torch_compat.hooks import tell_rewritten
from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_with_aot
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind


@dataclass
class Waste:
    """Bytes of the tensors that a rewritten graph computes, and how many of them are padding."""

    held: int = 0
    padding: int = 0

    def add(self, other: Waste) -> None:
        """Another graph's, too."""
        self.held += other.held
        self.padding += other.padding

    @property
    def share(self) -> float:
        """Padding over what the tensors stand for."""
        return self.padding / (self.held - self.padding) if self.held > self.padding else 0.0


Backend = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


def op_by_op(graph_module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """Lower a graph with AOTAutograd and run each op as eager mode does."""
    return compile_with_aot(graph_module, inputs, lambda graph, _: graph.forward)


class RewritingBackend:
    """Compiles what a rewrite makes of a graph; sessions that listen are told what that is.

    Args:
        rewrite: the change.
        then: the backend that is given the rewritten graph.
    """

    __name__ = "inductor_debug_rewrite"

    def __init__(self, rewrite: Rewrite, then: Backend = op_by_op) -> None:
        self.rewrite = rewrite
        self.then = then
        self.waste = Waste()

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Be a backend."""
        plain = traced_aten(
            torch.fx.Interpreter(graph_module).run,
            [_detached(value) for value in example_inputs],
            lower=uses_vmap(graph_module),
        )
        border = Border(self.rewrite, plain, placeholder_roles(graph_module))
        while True:
            rewriting = _Rewriting(plain, self.rewrite, border)
            with torch.no_grad():
                given = border.inward([_detached(value) for value in example_inputs])
            rewritten = traced_aten(rewriting.run, given, self.rewrite.decompose)
            if not rewriting.leave_to(border):
                break
        self.waste.add(rewriting.waste)
        _name_inputs(graph_module, rewritten)
        tell_rewritten(rewritten)
        inputs = of_fixed_sizes(border.inward(list(example_inputs)))
        run = self.then(rewritten, inputs)

        def call(*args: Any) -> Any:
            inward = border.inward(args)
            results = run(*inward)
            border.write_back(args, inward)
            return border.outward(results, rewriting.results)

        return call


_LOWERED_ATTENTION = {
    "scaled_dot_product_attention": ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_math", "bmm")
}


def _lowered(name: str) -> Collection[str]:
    """How a rewrite may name an op: as AOTAutograd will."""
    return MATMULS if name in MATMULS else {name, *lowered_names(name), *_LOWERED_ATTENTION.get(name, ())}


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _name_inputs(before: torch.fx.GraphModule, after: torch.fx.GraphModule) -> None:
    """Placeholders keep their names and what Dynamo noted on them: findings name them."""
    olds, news = (graph.graph.find_nodes(op="placeholder") for graph in (before, after))
    for old, new in zip(olds, news, strict=True):
        new._rename(old.name)
        new.target = old.target
        for key in ("grapharg", "tensor_dict", "steal_arg"):
            if key in old.meta:
                new.meta[key] = old.meta[key]
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    after.recompile()


class _Rewriting(torch.fx.Interpreter):
    """Interprets a graph with a rewrite in force."""

    def __init__(self, plain: torch.fx.GraphModule, rewrite: Rewrite, border: Border) -> None:
        super().__init__(plain)
        self._rewrite = rewrite
        self._border = border
        self.waste = Waste()
        self._sizes = Sizes({**rewrite.around, **rewrite.pads})
        self._in_blocks = wanted_blocks(plain.graph, rewrite.pads)
        self._inputs: list[Any] = []
        self._node: torch.fx.Node | None = None
        self.results: tuple[Result, ...] = ()

    def leave_to(self, border: Border) -> bool:
        """Have the host do what was done to inputs in the middle of the graph; whether there is such a thing."""
        numbers = {id(value): number for number, value in enumerate(self._inputs)}
        found = [
            border.pad_in_blocks(numbers[id(value)], dim, block)
            for value, dim, block in self._sizes.asked
            if id(value) in numbers
        ]
        return any(found)

    def run_node(self, n: torch.fx.Node) -> Any:
        self._node = n
        return super().run_node(n)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = self._border.value(len(self._inputs), super().placeholder(target, args, kwargs))
        self._inputs.append(value)
        self._count(value)
        return value

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        return value.to(self._rewrite.dtype(value.dtype)) if isinstance(value, torch.Tensor) else value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        assert self._node is not None
        if self._rewrite.casts:
            args, kwargs = map_kind(torch.dtype, self._rewrite.dtype, (args, dict(kwargs)))
        name = aten_name(target)
        if not name:
            return super().call_function(target, args, kwargs)
        if self._rewrite.contiguous and self._rewrite.copies(module_path_of(self._node), _lowered(name)):
            args, kwargs = map_kind(torch.Tensor, torch.Tensor.contiguous, (args, dict(kwargs)))
        results = tuple(tuple(each.shape) for each in tensors_of(node_value(self._node)))
        if self._rewrite.channels_last and (pooled := _pooled(name, args, results)) is not None:
            return pooled
        inner = self._in_blocks.get(self._node, 0)
        made = compute(OpCall(target, tuple(args), dict(kwargs), results, self._sizes, inner))
        self._count(made)
        if self._rewrite.around and name in GROWING:
            return self._cut(made)
        return made

    def _cut(self, made: Any) -> Any:
        """Without the padding that is there for this one op only."""
        if not isinstance(made, Padded):
            return made
        return cut(made, [dim for dim in made.dims if made.sizes[dim] not in self._rewrite.pads])

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        values = args[0] if isinstance(args[0], tuple | list) else (args[0],)
        assert self._node is not None
        befores = self._node.args[0] if isinstance(self._node.args[0], tuple | list) else (self._node.args[0],)
        self.results = tuple(_result(value, before) for value, before in zip(values, befores, strict=True))
        return tuple(tensor_of(value) for value in values)

    def _count(self, made: Any) -> None:
        for value in made if isinstance(made, tuple | list) else (made,):
            if isinstance(value, torch.Tensor | Padded):
                tensor = tensor_of(value)
                size = item_size(str(tensor.dtype).removeprefix("torch."))
                self.waste.held += tensor.numel() * size
                self.waste.padding += (tensor.numel() - _elements(value)) * size


def _pooled(name: str, args: Sequence[Any], results: tuple[tuple[int, ...], ...]) -> Value | None:
    """The mean over all of an image, with channels innermost: its derivative then is laid out like the image.

    Autograd spreads the derivative of a mean over rows and columns as torch lays out tensors by default.
    """
    if name not in {"mean", "adaptive_avg_pool2d"} or not isinstance(args[0], torch.Tensor | Padded):
        return None
    image, (made,) = args[0], results
    sizes = sizes_of(image)
    over = [dim % len(sizes) for dim in args[1]] if name == "mean" and len(args) > 1 and args[1] else []
    whole = sorted(over) == [2, 3] if name == "mean" else made[2:] == (1, 1)
    if len(sizes) != 4 or not whole:
        return None
    image = cut(image, (0, 2, 3))
    tensor = tensor_of(image)
    mean = tensor.permute(0, 2, 3, 1).reshape(sizes[0], sizes[2] * sizes[3], -1).mean(1)
    return wrapped(mean.reshape(*mean.shape, *made[2:]), made, is_zero(image))


def _elements(value: Value) -> int:
    count = 1
    for size in sizes_of(value):
        count *= size
    return count


def _result(value: Any, before: Any) -> Result:
    if not isinstance(value, torch.Tensor | Padded):
        return Result((), None)
    was = node_value(before) if isinstance(before, torch.fx.Node) else None
    dtype = was.dtype if isinstance(was, torch.Tensor) else None
    return Result(sizes_of(value), dtype if dtype != tensor_of(value).dtype else None, blocks_of(value))
