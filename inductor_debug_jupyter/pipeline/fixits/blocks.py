"""Which ``linear`` ops have to pad their results in blocks: those that are later viewed as heads, or halves of heads.

A ``linear`` of 384 features that is then viewed as 12 heads of 32 cannot be padded at its end when 32 is to become 64,
but in blocks (see :mod:`padded`). The view knows the size of a block, and only the ``linear`` can compute in blocks, so
the size is passed backwards through the graph, from each node to its operands.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.fixits.padded_views import dim_order, groups
from inductor_debug_jupyter.pipeline.torch_compat.aten_tracing import aten_name
from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value, tensors_of

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
        yield from _of_elements(node, wanted)


def _of_elements(node: torch.fx.Node, wanted: Mapping[int, int]) -> Iterator[tuple[torch.fx.Node, int, int]]:
    """An op that computes element by element wants of its operands what is wanted of it."""
    rank = len(_shape(node))
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
