"""What of a graph is drawn as an op of its own, and what only stands behind one.

A real graph is half plumbing. ``getitem`` on an op that returns several tensors, ``detach`` and ``alias`` are part of
the op that they read from. Parameters, buffers and constants are named in the box that reads them. What is hidden this
way is never lost: it belongs to a *host*, and choosing it lights the host.

Everything here is positions: ``ops[3]`` is the third op that is drawn, and one pass over the nodes is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord
from inductor_debug_jupyter.pipeline.views.words import short_op

_PASSES_ON = frozenset({"detach", "detach_", "alias", "lift_fresh", "lift_fresh_copy", "lift"})
"""Ops that hand on what they are given."""
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
        """The op that a node is drawn as, or that first reads it; None for one that nothing reads."""
        return self.host.get(name, self.readers.get(name))


def declutter(graph: GraphRecord) -> Drawn:
    """The ops of ``graph`` without its plumbing."""
    ops: list[NodeRecord] = []
    before: list[tuple[int, ...]] = []
    reads: list[tuple[NodeRecord, ...]] = []
    host: dict[str, int] = {}
    outside: dict[str, NodeRecord] = {}
    for node in graph.nodes:
        if node.op == "output":
            continue
        inputs = node.inputs
        kind = _kind_of(node.target) if node.is_call else "input"
        if kind == "input" or (kind == "constant" and not inputs):
            outside[node.name] = node
        elif kind == "hands on" and len(inputs) == 1 and inputs[0] in outside:
            outside[node.name] = outside[inputs[0]]
        elif _is_plumbing(kind, node, graph) and inputs[0] in host:
            host[node.name] = host[inputs[0]]
        else:
            host[node.name] = len(ops)
            ops.append(node)
            before.append(_each_once(tuple(host[name] for name in inputs if name in host)))
            read = tuple(outside[name] for name in inputs if name in outside)
            reads.append(read if len(read) < 2 else tuple({each.name: each for each in read}.values()))
    return Drawn(graph, tuple(ops), tuple(before), tuple(reads), host)


def kept_by_model(node: NodeRecord) -> bool:
    """Whether it is a parameter, a buffer or a constant: something that is there before the first call."""
    return node.role in _KEPT_BY_MODEL or node.op == "get_attr" or node.is_call


@lru_cache(maxsize=4096)
def _kind_of(target: str) -> str:
    op = short_op(target)
    if op in _PASSES_ON:
        return "hands on"
    return "constant" if op in _MAKES_CONSTANT else "getitem" if op == "getitem" else ""


def _is_plumbing(kind: str, node: NodeRecord, graph: GraphRecord) -> bool:
    """Whether the node is a part of the op that it reads from; indexing a tensor is an op of its own."""
    if not kind or len(node.inputs) != 1:
        return False
    return kind == "hands on" or (kind == "getitem" and len(graph.by_name[node.inputs[0]].outputs) != 1)


def _each_once(positions: tuple[int, ...]) -> tuple[int, ...]:
    return positions if len(positions) < 2 else tuple(dict.fromkeys(positions))
