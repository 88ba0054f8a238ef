"""Which nodes of a graph are drawn as ops, and which are drawn as part of another op, their *host*.

Half of a real graph is plumbing. ``getitem`` on an op that returns several tensors, ``detach`` and ``alias`` are part
of the op that they read from. Parameters, buffers and constants are named in the box that reads them. Choosing a
hidden node highlights its host.

Ops are referred to by position: ``ops[3]`` is the fourth op that is drawn. One pass over the nodes is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord
from inductor_debug_jupyter.pipeline.views.labels import short_op

_PASSES_ON = frozenset({"detach", "detach_", "alias", "lift_fresh", "lift_fresh_copy", "lift"})
"""Ops that return their input."""
_MAKES_CONSTANT = frozenset({"full", "zeros", "ones", "empty", "scalar_tensor", "_tensor_constant"})
"""Ops that make a constant when they read no tensor."""
_KEPT_BY_MODEL = frozenset({"parameter", "buffer"})


@dataclass(frozen=True)
class Drawn:
    """The ops to draw, what flows between them, and what they read from outside.

    ``before[i]`` are the positions of the ops that op ``i`` reads from (each smaller than ``i``), ``reads[i]`` the
    inputs, parameters and constants. ``host`` has the position for every node that belongs to an op.
    """

    graph: GraphRecord
    ops: tuple[NodeRecord, ...]
    before: tuple[tuple[int, ...], ...]
    reads: tuple[tuple[NodeRecord, ...], ...]
    host: dict[str, int]

    @cached_property
    def readers(self) -> dict[str, int]:
        """Input or constant → the first op that reads it."""
        first: dict[str, int] = {}
        for position, nodes in enumerate(self.reads):
            for node in nodes:
                first.setdefault(node.name, position)
        return first

    @cached_property
    def members(self) -> dict[int, list[str]]:
        """Position of an op → the hidden nodes that it stands for; most ops have none."""
        found: dict[int, list[str]] = {}
        for name, position in self.host.items():
            if name != self.ops[position].name:
                found.setdefault(position, []).append(name)
        return found

    def position(self, name: str) -> int | None:
        """The position of the op that a node is drawn as, or that first reads it; None when no op reads it."""
        return self.host.get(name, self.readers.get(name))


def declutter(graph: GraphRecord) -> Drawn:
    """The ops of ``graph`` without its plumbing."""
    host: dict[str, int] = {}
    outside: dict[str, NodeRecord] = {}
    ops: list[NodeRecord] = []
    for node in graph.nodes:
        if node.op != "output" and not _attach(node, graph, host, outside):
            host[node.name] = len(ops)
            ops.append(node)
    before = (tuple(dict.fromkeys(host[name] for name in node.inputs if name in host)) for node in ops)
    read = ([outside[name] for name in node.inputs if name in outside] for node in ops)
    reads = (tuple({each.name: each for each in nodes}.values()) for nodes in read)
    return Drawn(graph, tuple(ops), tuple(before), tuple(reads), host)


def _attach(node: NodeRecord, graph: GraphRecord, host: dict[str, int], outside: dict[str, NodeRecord]) -> bool:
    """Enter a node as an input (``outside``) or as part of its host; returns False for an op of its own.

    Indexing a single tensor is an op of its own.
    """
    kind = _kind_of(node.target) if node.is_call else "input"
    source = node.inputs[0] if len(node.inputs) == 1 else ""
    if kind == "input" or (kind == "constant" and not node.inputs):
        outside[node.name] = node
    elif kind == "hands on" and source in outside:
        outside[node.name] = outside[source]
    elif source in host and (kind == "hands on" or (kind == "getitem" and len(graph.by_name[source].outputs) != 1)):
        host[node.name] = host[source]
    else:
        return False
    return True


def kept_by_model(node: NodeRecord) -> bool:
    """Whether a node is a parameter, a buffer or a constant: it exists before the first call."""
    return node.role in _KEPT_BY_MODEL or node.op == "get_attr" or node.is_call


@lru_cache(maxsize=4096)
def _kind_of(target: str) -> str:
    op = short_op(target)
    if op in _PASSES_ON:
        return "hands on"
    return "constant" if op in _MAKES_CONSTANT else "getitem" if op == "getitem" else ""
