"""What an op has to do, whatever it runs on: additions and multiplications, and bytes read and written.

It is read off a captured graph. A matrix product or a convolution has two operations for each of its products; an
attention those of its two matrix products; any other op one for each element of its largest operand. A view has
nothing to do. A group of nodes that one kernel computes reads and writes only what passes its border, each tensor once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.devices.symbolic import evaluate
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, TensorSpec

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """Operations, bytes, and whether the operations are products of matrices."""

    flops: int
    read: int
    written: int
    is_product: bool = False

    @property
    def nbytes(self) -> int:
        """The bytes that pass between the memory and the processor."""
        return self.read + self.written


def _of_product(shapes: list[Shape], out: Shape) -> int:
    """The left operand is the second last one; both may be the same tensor, which is there once."""
    return 2 * math.prod(out) * shapes[-2:][0][-1]


def _of_linear(shapes: list[Shape], out: Shape) -> int:
    return 2 * math.prod(out) * shapes[0][-1]


def _of_convolution(shapes: list[Shape], out: Shape) -> int:
    """The weight has its products for each output channel; transposed, for each input channel."""
    given, weight = shapes[0], shapes[1]
    if weight[0] == out[1]:
        return 2 * math.prod(out) * math.prod(weight[1:])
    return 2 * math.prod(given) * math.prod(weight[1:])


def _of_convolution_backward(shapes: list[Shape], out: Shape) -> int:
    """The gradients of input and weight have as many products as the forward, each."""
    gradient, _, weight = shapes[:3]
    return 4 * math.prod(gradient) * math.prod(weight[1:])


def _of_attention(shapes: list[Shape], out: Shape) -> int:
    query, key, value = shapes[:3]
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _of_attention_backward(shapes: list[Shape], out: Shape) -> int:
    """The scores again, and four products for the three gradients."""
    query, key, value = shapes[1:4]
    return 2 * math.prod(query[:-1]) * key[-2] * (3 * query[-1] + 2 * value[-1])


_PRODUCTS: dict[str, Callable[[list[Shape], Shape], int]] = {
    "mm": _of_product,
    "bmm": _of_product,
    "addmm": _of_product,
    "baddbmm": _of_product,
    "linear": _of_linear,
    "_linear_pointwise": _of_linear,
    "mkl_linear": _of_linear,
    "convolution": _of_convolution,
    "_convolution_pointwise": _of_convolution,
    "mkldnn_convolution": _of_convolution,
    "convolution_backward": _of_convolution_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _of_attention,
    "_scaled_dot_product_flash_attention": _of_attention,
    "_scaled_dot_product_efficient_attention": _of_attention,
    "_scaled_dot_product_attention_math": _of_attention,
    "scaled_dot_product_attention": _of_attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _of_attention_backward,
    "_scaled_dot_product_flash_attention_backward": _of_attention_backward,
    "_scaled_dot_product_efficient_attention_backward": _of_attention_backward,
}
"""Op → its operations, given the shapes of its operands and of its first result."""

_READS_SOME = frozenset({"embedding", "index", "gather", "index_select", "take"})
"""Ops that read no more of their first operand than they give."""


def _sizes(spec: TensorSpec, graph: GraphRecord) -> Shape | None:
    """The numbers of a shape; symbolic ones as they were at capture; None where one is not known."""
    found = [evaluate(size, graph.hints) for size in spec.shape]
    return None if any(size is None for size in found) else tuple(size for size in found if size is not None)


def _nbytes(spec: TensorSpec, graph: GraphRecord) -> int | None:
    """The bytes of a tensor, or of the memory behind it where an expanded view has less."""
    sizes = _sizes(spec, graph)
    if sizes is None:
        return None
    dense = math.prod(sizes) * spec.itemsize
    return dense if spec.storage_bytes is None else min(dense, spec.storage_bytes)


def is_free(node: NodeRecord, graph: GraphRecord) -> bool:
    """Whether a node computes nothing: an input, a view, an element of a tuple."""
    if not node.is_call or not node.outputs or bare_name(node.target) == "getitem":
        return True
    own = {spec.storage for spec in node.outputs}
    given = {spec.storage for name in node.inputs if (each := graph.node(name)) is not None for spec in each.outputs}
    return -1 not in own and own <= given and not node.mutates


def is_product(node: NodeRecord) -> bool:
    """Whether a node is a product of matrices, which devices have units of their own for."""
    return bare_name(node.target) in _PRODUCTS


def flops_of(node: NodeRecord, graph: GraphRecord) -> int | None:
    """The additions and multiplications of one node; None where a size is not known."""
    if is_free(node, graph):
        return 0
    given = [spec for name in node.inputs if (each := graph.node(name)) is not None for spec in each.outputs[:1]]
    shapes = [_sizes(spec, graph) for spec in given]
    made = _sizes(node.outputs[0], graph)
    if made is None or any(shape is None for shape in shapes):
        return None
    known = [shape for shape in shapes if shape is not None]
    if (of_product := _PRODUCTS.get(bare_name(node.target))) is not None:
        try:
            return of_product(known, made)
        except (IndexError, ValueError):  # operands that are not as these ops have them
            return None
    reads_some = bare_name(node.target) in _READS_SOME
    return max(map(math.prod, [made, *([] if reads_some else known)]))


def work_of(names: Collection[str], graph: GraphRecord) -> Work | None:
    """The work of nodes that are computed together; None where a size is not known."""
    inside = frozenset(names)
    nodes = [node for name in names if (node := graph.node(name)) is not None]
    flops = [flops_of(node, graph) for node in nodes]
    read = _read(nodes, inside, graph)
    made = [node for node in nodes if not is_free(node, graph) and _is_read_outside(node, inside, graph)]
    written = [_nbytes(spec, graph) for node in made for spec in node.outputs]
    if None in flops or None in read or None in written:
        return None
    totals = [sum(each for each in every if each is not None) for every in (flops, read, written)]
    return Work(totals[0], totals[1], totals[2], any(map(is_product, nodes)))


def _read(nodes: list[NodeRecord], inside: frozenset[str], graph: GraphRecord) -> list[int | None]:
    """The bytes of every tensor from outside, once: of views of one tensor, those of the largest."""
    read: dict[str, int | None] = {}
    for node in nodes:
        names = () if is_free(node, graph) else node.inputs
        for position, name in enumerate(names):
            made_by = _computed(name, graph)
            if made_by is None or made_by.name in inside or not made_by.outputs:
                continue
            size, known = _read_of(node, position, name, graph), read.get(made_by.name, 0)
            read[made_by.name] = None if size is None or known is None else max(known, size)
    return list(read.values())


def _read_of(node: NodeRecord, position: int, name: str, graph: GraphRecord) -> int | None:
    """The bytes that a node reads of one operand; an op that picks rows reads no more than it gives."""
    given = graph.by_name[name]
    size = _nbytes(given.outputs[0], graph) if given.outputs else 0
    if size is None or position or bare_name(node.target) not in _READS_SOME:
        return size
    made = _nbytes(node.outputs[0], graph)
    return size if made is None else min(size, made)


def _computed(name: str, graph: GraphRecord) -> NodeRecord | None:
    """The node that made what a node is a view of."""
    node = graph.node(name)
    while node is not None and node.is_call and node.inputs and is_free(node, graph):
        node = graph.node(node.inputs[0])
    return node


def _is_read_outside(node: NodeRecord, inside: frozenset[str], graph: GraphRecord) -> bool:
    """Whether what a node makes leaves the kernel: it, or a view of it, is read outside or returned."""
    waiting, seen = [node.name], {node.name}
    while waiting:
        for reader in graph.readers.get(waiting.pop(), ()):
            if not is_free(reader, graph) or reader.op == "output":
                if reader.name not in inside:
                    return True
            elif reader.name not in seen:
                seen.add(reader.name)
                waiting.append(reader.name)
    return bool(node.mutates)
