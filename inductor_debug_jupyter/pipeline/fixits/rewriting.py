"""Interpret a graph of ATen ops with a rewrite in force; a trace of that interpretation is the rewritten graph.

A ``linear`` of 384 features that is then viewed as 12 heads of 32 cannot be padded at its end when 32 is to become 64,
but in blocks (see :mod:`padded`). The view knows the size of a block, and only the ``linear`` can compute in blocks, so
:func:`wanted_blocks` passes the size backwards through the graph, from each node to its operands.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.devices.dtypes import item_size
from inductor_debug_jupyter.pipeline.devices.ops import MATMULS, lowered_names
from inductor_debug_jupyter.pipeline.errors import RewriteError
from inductor_debug_jupyter.pipeline.fixits.border import Border, Result
from inductor_debug_jupyter.pipeline.fixits.mutations import functional
from inductor_debug_jupyter.pipeline.fixits.padded import (
    Padded,
    PaddedCall,
    Value,
    WantedSizes,
    blocks_of,
    cut,
    is_zero,
    sizes_of,
    tensor_of,
    with_strides,
    wrapped,
)
from inductor_debug_jupyter.pipeline.fixits.padded_ops import GROWING, compute, without_padding
from inductor_debug_jupyter.pipeline.fixits.padded_views import dim_order, groups
from inductor_debug_jupyter.pipeline.fixits.precision import Precision
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.torch_compat.aten_tracing import aten_name
from inductor_debug_jupyter.pipeline.torch_compat.graphs import module_path_of, node_value, storage_of, tensors_of
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind, map_tensors, of_kind


@dataclass
class Waste:
    """Bytes of the tensors that a rewritten graph computes, and how many of them are padding."""

    held: int = 0
    padding: int = 0

    def add(self, other: Waste) -> None:
        """Add those of another graph."""
        self.held += other.held
        self.padding += other.padding

    @property
    def share(self) -> float:
        """Bytes of padding over bytes without it."""
        return self.padding / (self.held - self.padding) if self.held > self.padding else 0.0


_LOWERED_ATTENTION = {
    "scaled_dot_product_attention": ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_math", "bmm")
}


def _lowered(name: str) -> Collection[str]:
    """The names that a rewrite may use for an op: those after AOTAutograd, which findings show."""
    return MATMULS if name in MATMULS else {name, *lowered_names(name), *_LOWERED_ATTENTION.get(name, ())}


_DRAWN_ALIKE = frozenset(("dropout", "dropout_", "feature_dropout", "scaled_dot_product_attention"))
"""Random ops that draw the same for any layout of their operand, or whose handler sees to it."""


class Rewriting(torch.fx.Interpreter):
    """Interprets a graph with a rewrite in force."""

    def __init__(self, plain: torch.fx.GraphModule, rewrite: Rewrite, border: Border) -> None:
        super().__init__(plain)
        self._rewrite = rewrite
        self._border = border
        self.waste = Waste()
        self._sizes = WantedSizes({**rewrite.around, **rewrite.pads})
        self._precision = Precision(plain, rewrite)
        self._in_blocks = wanted_blocks(plain.graph, rewrite.pads)
        self._mutations = border.mutations
        self._inputs: list[Any] = []
        self._node: torch.fx.Node | None = None
        self.results: tuple[Result, ...] = ()

    def leave_to(self, border: Border) -> bool:
        """Move the padding in blocks of inputs out of the graph, to the host; returns whether there was any."""
        numbers = {id(value): number for number, value in enumerate(self._inputs)}
        found = [
            border.pad_in_blocks(numbers[id(value)], dim, block)
            for value, dim, block in self._sizes.padded_in_graph
            if id(value) in numbers
        ]
        return any(found)

    def run_node(self, n: torch.fx.Node) -> Any:
        """Remember which node is interpreted."""
        self._node = n
        return super().run_node(n)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An input as the host padded it."""
        value = self._border.value(len(self._inputs), super().placeholder(target, args, kwargs))
        self._inputs.append(value)
        self._count(value)
        return value

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A constant of the graph, cast."""
        value = super().get_attr(target, args, kwargs)
        return value.to(self._rewrite.dtype(value.dtype)) if isinstance(value, torch.Tensor) else value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An op with the rewrite in force."""
        node = self._node
        assert node is not None
        if not self._rewrite.precise:
            return self._called(node, target, args, kwargs)
        args, kwargs = self._precision.operands(node, self.env.__getitem__)
        return self._precision.result(node, self._called(node, target, args, kwargs))

    def _called(self, node: torch.fx.Node, target: Any, args: Any, kwargs: Any) -> Any:
        name = aten_name(target)
        if name not in _DRAWN_ALIKE and torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()):
            return self._drawn(node, target, args, kwargs)
        if self._rewrite.casts:
            self._refuse_other_bits(node)
            args, kwargs = map_kind(torch.dtype, self._rewrite.dtype, (args, dict(kwargs)))
        if not name:
            return super().call_function(target, args, kwargs)
        writes = self._mutations.writes(node)
        anew = functional(target) if writes and not self._mutations.is_exact(node) else None
        if not writes and self._rewrite.contiguous and self._rewrite.copies(module_path_of(node), _lowered(name)):
            args, kwargs = map_kind(torch.Tensor, torch.Tensor.contiguous, (args, dict(kwargs)))
        call = self._call(node, anew or target, args, kwargs)
        if self._rewrite.channels_last and (pooled := _pooled(name, args, call.results)) is not None:
            return pooled
        made = self._computed(call, padded=anew is not None or not writes)
        if anew is not None:
            return self._seen_by_all(node, made)
        return self._exact(node, made, args) if self._mutations.is_exact(node) else made

    def _call(self, node: torch.fx.Node, target: Any, args: Any, kwargs: Any) -> PaddedCall:
        fakes = tensors_of(node_value(node))
        results = tuple(tuple(each.shape) for each in fakes)
        strides = tuple(each.stride() for each in fakes if each.layout is torch.strided)
        inner = self._in_blocks.get(node, 0)
        return PaddedCall(target, tuple(args), dict(kwargs), results, self._sizes, inner, strides)

    def _computed(self, call: PaddedCall, *, padded: bool) -> Any:
        """The results of a call; ``padded`` when they may keep padding.

        Raises:
            RewriteError: they do not stand for the sizes that they have in the original.
        """
        made = compute(call) if padded else without_padding(call)
        sizes = tuple(sizes_of(each) for each in of_kind(object, made) if isinstance(each, torch.Tensor | Padded))
        if sizes != call.results:
            was, now = (", ".join(str(list(each)) for each in shapes) for shapes in (call.results, sizes))
            raise RewriteError(f"{call.name} of the rewritten graph stands for {now}, the original's is {was}")
        self._count(made)
        if self._rewrite.around and call.name in GROWING and isinstance(made, Padded):  # only this op needed padding
            return cut(made, [dim for dim in made.dims if made.sizes[dim] not in self._rewrite.pads])
        return made

    def _refuse_other_bits(self, node: torch.fx.Node) -> None:
        """Refuse to cast a dtype whose bits are viewed as another dtype: a cast number has other bits.

        Raises:
            RewriteError: a node views a cast dtype as another one, or another one as it.
        """
        if getattr(node.target, "_overloadname", "") != "dtype" or aten_name(node.target) != "view":
            return
        for value in (node_value(node), *(node_value(each) for each in node.all_input_nodes)):
            if isinstance(value, torch.Tensor) and self._rewrite.dtype(value.dtype) != value.dtype:
                raise RewriteError(f"cast: {value.dtype} is looked at bit by bit ({node.name}) and cannot be cast")

    def _drawn(self, node: torch.fx.Node, target: Any, args: Any, kwargs: Any) -> Any:
        """Draw random numbers as the original does: they depend on sizes, dtype and strides."""
        given = [_as_it_was(before, value) for before, value in zip(node.args, args, strict=True)]
        named = {key: _as_it_was(before, kwargs[key]) for key, before in node.kwargs.items()}
        made = target(*given, **named)
        if self._mutations.writes(node):  # into memory that is kept exact, which is not padded
            return args[0] if given[0] is args[0] else args[0].copy_(given[0])
        return map_tensors(lambda tensor: tensor.to(self._rewrite.dtype(tensor.dtype)), made)

    def _seen_by_all(self, node: torch.fx.Node, made: Any) -> Any:
        """Give the result of an op that was made anew to every node of the memory that it would have written."""
        (before,) = tensors_of(node_value(node))
        dtype = self._rewrite.dtype(before.dtype) if node not in self._precision.kept else tensor_of(made).dtype
        if isinstance(made, Padded):
            made = wrapped(made.tensor.to(dtype), made.sizes, made.zero, blocks_of(made))
        else:
            made = made.to(dtype)
        for other in self._mutations.names_of(node):
            if other in self.env:
                self.env[other] = made
        return made

    def _exact(self, node: torch.fx.Node, made: Any, args: Any) -> Any:
        """A value whose memory is written in place: without padding, and a view only if the original is one.

        Raises:
            RewriteError: the original is a view and the value is none.
        """
        before = node_value(node)
        if not isinstance(before, torch.Tensor):
            return map_kind(Padded, cut, made)
        own = {storage_of(each)[0] for each in tensors_of([node_value(each) for each in node.all_input_nodes])}
        theirs = {storage_of(tensor_of(each))[0] for each in of_kind(torch.Tensor, list(args))}
        tensor = cut(made)
        is_view, must_be_view = storage_of(tensor)[0] in theirs, storage_of(before)[0] in own
        if must_be_view and not is_view:
            raise RewriteError(f"{node.name}: what is written in place through this view would be lost")
        if must_be_view or (not is_view and isinstance(made, torch.Tensor) and tensor.stride() == before.stride()):
            return tensor
        return tensor.new_empty_strided(before.shape, before.stride()).copy_(tensor)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The results, still padded; ``results`` keeps the sizes that they stand for."""
        values = args[0] if isinstance(args[0], tuple | list) else (args[0],)
        assert self._node is not None
        befores = self._node.args[0] if isinstance(self._node.args[0], tuple | list) else (self._node.args[0],)
        results = []
        for value, before in zip(values, befores, strict=True):
            was = node_value(before) if isinstance(before, torch.fx.Node) else None
            dtype = was.dtype if isinstance(was, torch.Tensor) else None
            is_tensor = isinstance(value, torch.Tensor | Padded)
            kept = dtype if is_tensor and dtype != tensor_of(value).dtype else None
            results.append(Result(sizes_of(value), kept, blocks_of(value)) if is_tensor else Result((), None))
        self.results = tuple(results)
        return tuple(tensor_of(value) for value in values)

    def _count(self, made: Any) -> None:
        for value in made if isinstance(made, tuple | list) else (made,):
            if isinstance(value, torch.Tensor | Padded):
                tensor = tensor_of(value)
                size = item_size(str(tensor.dtype).removeprefix("torch."))
                self.waste.held += tensor.numel() * size
                self.waste.padding += (tensor.numel() - math.prod(sizes_of(value))) * size


def _as_it_was(before: Any, value: Any) -> Any:
    """An operand with the original's sizes, dtype and strides."""
    was = node_value(before) if isinstance(before, torch.fx.Node) else None
    if not isinstance(was, torch.Tensor) or not isinstance(value, torch.Tensor | Padded):
        return value
    tensor: torch.Tensor = cut(value).to(was.dtype)
    return with_strides(tensor, was.stride())


def _pooled(name: str, args: Sequence[Any], results: tuple[tuple[int, ...], ...]) -> Value | None:
    """The mean over an image, computed with channels innermost, so that its derivative is laid out like the image.

    Autograd lays out the derivative of a mean over rows and columns as torch does by default: channels outermost.
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


_PARTED = frozenset(("slice", "split", "split_with_sizes", "chunk"))
_RESHAPED = frozenset(("view", "reshape", "_unsafe_view", "unflatten", "unsqueeze", "squeeze", "flatten"))
_ALIKE = frozenset(("clone", "contiguous", "to", "_to_copy", "dropout", "alias", "detach"))


def wanted_blocks(graph: torch.fx.Graph, pads: Mapping[int, int]) -> dict[torch.fx.Node, int]:
    """Each ``linear`` whose result has to be padded in blocks, with the size of a block before padding."""
    wanted: dict[torch.fx.Node, dict[int, int]] = {}
    for node in reversed(graph.nodes):
        if node.op != "call_function":
            continue
        for source, dim, inner in _wanted_of_operands(node, wanted.get(node, {}), pads):
            shape = _shape(source)
            if shape and inner < shape[dim] and shape[dim] % inner == 0:
                wanted.setdefault(source, {}).setdefault(dim, inner)
    found: dict[torch.fx.Node, int] = {}
    for node, dims in wanted.items():
        last = len(_shape(node)) - 1
        if aten_name(node.target) == "linear" and last in dims and _shape(node)[last] not in pads:
            found[node] = dims[last]
    return found


def _wanted_of_operands(
    node: torch.fx.Node, wanted: Mapping[int, int], pads: Mapping[int, int]
) -> Iterator[tuple[torch.fx.Node, int, int]]:
    """The blocks that a node wants of its operands: operand, dimension, size of a block before padding."""
    args: Any = node.args
    name, source = aten_name(node.target), args[0] if args else None
    if name == "linear" or not isinstance(source, torch.fx.Node):
        return
    if name in _PARTED or node.target is operator.getitem:
        yield from ((source, dim, inner) for dim, inner in wanted.items())
        if name:
            yield from _of_parts(node, source, pads)
    elif name in _RESHAPED:
        yield from _of_shapes(node, source, wanted, pads)
    elif name in {"transpose", "permute"}:
        order = dim_order(name, args, len(_shape(node)))
        yield from ((source, order[dim], inner) for dim, inner in wanted.items())
    elif name in _ALIKE or torch.Tag.pointwise in getattr(node.target, "tags", ()):
        rank = len(_shape(node))  # element by element: a node wants of its operands what is wanted of it
        for operand in node.all_input_nodes:
            less = rank - len(_shape(operand))
            yield from ((operand, dim - less, inner) for dim, inner in wanted.items() if dim >= less)


def _of_parts(
    node: torch.fx.Node, source: torch.fx.Node, pads: Mapping[int, int]
) -> Iterator[tuple[torch.fx.Node, int, int]]:
    """``x[..., :32]`` wants the 64 of ``x`` in blocks of 32."""
    before = _shape(source)
    for made in tensors_of(node_value(node)):
        for dim, (old, new) in enumerate(zip(before, made.shape, strict=True)):
            if new != old and new in pads:
                yield source, dim, int(new)


def _of_shapes(
    node: torch.fx.Node, source: torch.fx.Node, wanted: Mapping[int, int], pads: Mapping[int, int]
) -> Iterator[tuple[torch.fx.Node, int, int]]:
    """A view as heads of 32 wants blocks of 32; so does a view of which such blocks are wanted."""
    before, after = _shape(source), _shape(node)
    if 0 in before:
        return
    for old, new in groups(before, after):
        olds = [dim for dim in old if before[dim] != 1]
        news = [dim for dim in new if after[dim] != 1]
        if len(olds) == 1 and news:
            size = after[news[-1]]
            if inner := wanted.get(news[-1]) or (size if size in pads and len(news) > 1 else 0):
                yield source, olds[0], inner


def _shape(node: torch.fx.Node) -> tuple[int, ...]:
    """A node's shape; of one with several results, the first one's."""
    tensors = tensors_of(node_value(node))
    return tuple(tensors[0].shape) if tensors else ()
