"""A backend for ``torch.compile`` that runs a rewritten graph.

Dynamo's graph is traced to ATen ops, interpreted once more with the rewrite in force, and what comes of it goes through
AOTAutograd: autograd derives the backward of the rewritten forward, so there is nothing to rewrite twice. What the host
does before and after (pad and cast inputs and weights, cut and cast back the results) is outside the graph, as it is on
a device, whose driver lays tensors out on the way in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.devices.dtypes import item_size
from inductor_debug_jupyter.pipeline.devices.ops import MATMULS, lowered_names
from inductor_debug_jupyter.pipeline.fixits.padded import (
    Padded,
    Value,
    cut,
    grown,
    is_zero,
    sizes_of,
    tensor_of,
    wrapped,
)
from inductor_debug_jupyter.pipeline.fixits.padded_ops import GROWING, OpCall, Sizes, compute
from inductor_debug_jupyter.pipeline.torch_compat.aten_level import aten_name, of_fixed_sizes, traced_aten, uses_vmap
from inductor_debug_jupyter.pipeline.torch_compat.graphs import (
    module_path_of,
    node_value,
    placeholder_roles,
    tensors_of,
)
from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_with_aot
from inductor_debug_jupyter.pipeline.torch_compat.state import current_compile_id
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind


@dataclass(frozen=True)
class Rewrite:
    """What to change.

    Attributes:
        pads: size → the size to pad it to, wherever it is.
        around: likewise, but only what products and convolutions read: what they make is cut at once.
        casts: dtype → the dtype to use instead, by name.
        channels_last: lay images and the weights that convolve them out with channels innermost.
        contiguous: copy what these ops read, row by row, before they do: module path and lowered name of each.
        decompose: take these ops apart, by lowered name.
    """

    pads: Mapping[int, int] = field(default_factory=dict)
    around: Mapping[int, int] = field(default_factory=dict)
    casts: Mapping[str, str] = field(default_factory=dict)
    channels_last: bool = False
    contiguous: frozenset[str] = frozenset()
    decompose: frozenset[str] = frozenset()

    def __or__(self, other: Rewrite) -> Rewrite:
        """Both."""
        return Rewrite(
            _larger(self.pads, other.pads),
            _larger(self.around, other.around),
            {**self.casts, **other.casts},
            self.channels_last or other.channels_last,
            self.contiguous | other.contiguous,
            self.decompose | other.decompose,
        )

    def dtype(self, dtype: torch.dtype) -> torch.dtype:
        """What a dtype becomes."""
        to = self.casts.get(str(dtype).removeprefix("torch."))
        return getattr(torch, to) if to else dtype


def _larger(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {size: max(one.get(size, 0), other.get(size, 0)) for size in (*one, *other)}


@dataclass
class Waste:
    """Bytes of the tensors that a rewritten graph computes, and how many of them are padding."""

    held: int = 0
    padding: int = 0

    @property
    def share(self) -> float:
        """Padding over what the tensors stand for."""
        return self.padding / (self.held - self.padding) if self.held > self.padding else 0.0


class RewritingBackend:
    """Compiles what a rewrite makes of a graph; each graph that it rewrote is told to ``on_graph``."""

    __name__ = "inductor_debug_rewrite"

    def __init__(self, rewrite: Rewrite, on_graph: Callable[[str, torch.fx.GraphModule], None] | None = None) -> None:
        self.rewrite = rewrite
        self.waste = Waste()
        self._on_graph = on_graph

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Be a backend."""
        plain = traced_aten(
            torch.fx.Interpreter(graph_module).run,
            [_detached(value) for value in example_inputs],
            lower=uses_vmap(graph_module),
        )
        border = Border(self.rewrite, plain, placeholder_roles(graph_module))
        rewriting = _Rewriting(plain, self.rewrite, border, self.waste)
        with torch.no_grad():
            given = border.inward([_detached(value) for value in example_inputs])
        rewritten = traced_aten(rewriting.run, given, self.rewrite.decompose)
        _name_inputs(graph_module, rewritten)
        if self._on_graph is not None:
            self._on_graph(current_compile_id() or "", rewritten)
        inputs = of_fixed_sizes(border.inward(list(example_inputs)))
        run = compile_with_aot(rewritten, inputs, lambda graph, _: graph.forward)

        def call(*args: Any) -> Any:
            inward = border.inward(args)
            results = run(*inward)
            border.write_back(args, inward)
            return border.outward(results, rewriting.results)

        return call


_LOWERED_ATTENTION = {
    "scaled_dot_product_attention": ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_math", "bmm")
}


def _keys(path: str, name: str) -> frozenset[str]:
    """How a rewrite may name an op in a module: as AOTAutograd will."""
    names = MATMULS if name in MATMULS else {name, *lowered_names(name), *_LOWERED_ATTENTION.get(name, ())}
    return frozenset(f"{path}:{each}" for each in names)


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


class Border:
    """What the host does to a graph's inputs and results."""

    def __init__(self, rewrite: Rewrite, plain: torch.fx.GraphModule, roles: Sequence[tuple[str, str]]) -> None:
        self._rewrite = rewrite
        self._memory: list[dict[int, int]] = []
        self._sizes: list[tuple[int, ...] | None] = []
        self._written = _written_inputs(plain)
        for node, (role, _) in zip(plain.graph.find_nodes(op="placeholder"), roles, strict=True):
            value = node_value(node)
            is_tensor = isinstance(value, torch.Tensor)
            self._sizes.append(tuple(value.shape) if is_tensor else None)
            self._memory.append(_growth(node, role, rewrite) if is_tensor else {})

    def inward(self, args: Sequence[Any]) -> list[Any]:
        """The graph's inputs as the rewritten graph takes them; differentiable."""
        return [self._in(number, arg) for number, arg in enumerate(args)]

    def _in(self, number: int, arg: Any) -> Any:
        if not isinstance(arg, torch.Tensor):
            return arg
        value = arg.to(self._rewrite.dtype(arg.dtype))
        value = tensor_of(grown(value, self._memory[number])) if self._memory[number] else value
        if self._rewrite.channels_last and value.dim() == 4 and value.is_floating_point():
            value = value.contiguous(memory_format=torch.channels_last)
        return value

    def value(self, number: int, tensor: Any) -> Any:
        """An input inside the rewritten graph: what it stands for is known."""
        sizes = self._sizes[number]
        return tensor if sizes is None else wrapped(tensor, sizes, zero=True)

    def write_back(self, args: Sequence[Any], inward: Sequence[Any]) -> None:
        """What the graph wrote into an input that was copied on the way in."""
        for number in self._written:
            if inward[number] is not args[number]:
                with torch.no_grad():
                    sizes = self._sizes[number] or ()
                    args[number].copy_(tensor_of(cut(wrapped(inward[number], sizes, zero=True))))

    def outward(self, results: Sequence[Any], told: Sequence[_Result]) -> Any:
        """The results as the user's code expects them."""
        return tuple(
            _out(result, about) if isinstance(result, torch.Tensor) else result
            for result, about in zip(results, told, strict=True)
        )


@dataclass(frozen=True)
class _Result:
    """What a result of the graph stands for."""

    sizes: tuple[int, ...]
    dtype: torch.dtype | None


def _out(tensor: torch.Tensor, about: _Result) -> torch.Tensor:
    value: torch.Tensor = tensor_of(cut(wrapped(tensor, about.sizes, zero=True)))
    return value if about.dtype is None else value.to(about.dtype)


_WEIGHTED = ("conv", "linear", "batch_norm", "layer_norm", "embedding")
"""Ops whose second operand is a weight (of ``embedding``, the first)."""


def _growth(node: torch.fx.Node, role: str, rewrite: Rewrite) -> dict[int, int]:
    """How an input of the graph is padded: dimension → size in memory."""
    value = node_value(node)
    if not value.is_floating_point():
        return {}
    rank = value.dim()
    reads = [user for user in node.users if aten_name(user.target).startswith(_WEIGHTED)]
    is_weight = (
        role != "input"
        or rank == 1
        or any((user.args[0] is node) == (aten_name(user.target) == "embedding") for user in reads)
    )
    convolved = rank >= 4 or (rank > 1 and any(aten_name(user.target).startswith("conv") for user in reads))
    dims = range(0 if is_weight else 1, 2 if convolved else rank)
    pads = {**rewrite.around, **rewrite.pads} if _is_multiplied(node) else rewrite.pads
    return {dim: pads[value.shape[dim]] for dim in dims if value.shape[dim] in pads}


def _is_multiplied(node: torch.fx.Node) -> bool:
    """Whether products and convolutions read an input as it is, or turned, and nothing else does."""
    names = {user: aten_name(user.target) for user in node.users}
    turned = [user for user, name in names.items() if name in {"t", "transpose", "permute"}]
    return bool(names) and all(
        name in GROWING or (user in turned and _is_multiplied(user)) for user, name in names.items()
    )


def _written_inputs(plain: torch.fx.GraphModule) -> list[int]:
    """Numbers of the inputs that the graph may write into: running statistics, and what in-place ops change."""
    written = []
    for number, node in enumerate(plain.graph.find_nodes(op="placeholder")):
        for user in node.users:
            name = aten_name(user.target)
            in_place = name.endswith("_") and user.args[0] is node
            if in_place or (name == "batch_norm" and node in user.args[3:5] and user.args[5] is True):
                written.append(number)
                break
    return written


class _Rewriting(torch.fx.Interpreter):
    """Interprets a graph with a rewrite in force."""

    def __init__(self, plain: torch.fx.GraphModule, rewrite: Rewrite, border: Border, waste: Waste) -> None:
        super().__init__(plain)
        self._rewrite = rewrite
        self._border = border
        self._waste = waste
        self._sizes = Sizes({**rewrite.around, **rewrite.pads})
        self._inputs = 0
        self._node: torch.fx.Node | None = None
        self.results: tuple[_Result, ...] = ()

    def run_node(self, n: torch.fx.Node) -> Any:
        self._node = n
        return super().run_node(n)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = self._border.value(self._inputs, super().placeholder(target, args, kwargs))
        self._inputs += 1
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
        if self._rewrite.contiguous & _keys(module_path_of(self._node), name):
            args, kwargs = map_kind(torch.Tensor, torch.Tensor.contiguous, (args, dict(kwargs)))
        results = tuple(tuple(each.shape) for each in tensors_of(node_value(self._node)))
        if self._rewrite.channels_last and (pooled := _pooled(name, args, results)) is not None:
            return pooled
        made = compute(OpCall(target, tuple(args), dict(kwargs), results, self._sizes))
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
                self._waste.held += tensor.numel() * size
                self._waste.padding += (tensor.numel() - _elements(value)) * size


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


def _result(value: Any, before: Any) -> _Result:
    if not isinstance(value, torch.Tensor | Padded):
        return _Result((), None)
    was = node_value(before) if isinstance(before, torch.fx.Node) else None
    dtype = was.dtype if isinstance(was, torch.Tensor) else None
    return _Result(sizes_of(value), dtype if dtype != tensor_of(value).dtype else None)
