"""Liveness: from which node to which node each storage of a graph is alive.

Views share a storage, so they cost nothing. A storage is alive from the node that makes it to the last node that reads
it or one of its views. What the graph returns is alive to its end; what belongs to the caller (inputs, parameters,
buffers) is alive throughout. Three corrections give the memory of the program as its author wrote it:

- AOTAutograd makes a new tensor of ``y.relu_()``. The Dynamo graph still has the storage that the program wrote to, so
  the new tensor counts as that storage (:mod:`~inductor_debug_jupyter.pipeline.devices.in_place`).
- Inductor decomposes ``gelu``. Storages that are made and read only inside one decomposed op count as nothing, and the
  op's operands are alive until its last part.
- A backward graph reads what the forward saved. Autograd frees what it saved for one op when all gradients of that op
  are computed; a saved view keeps its whole storage, and the caller keeps parameters and inputs that the backward does
  not read.
"""

from __future__ import annotations

import itertools

from inductor_debug_jupyter.pipeline.devices import symbolic
from inductor_debug_jupyter.pipeline.devices.in_place import stand_ins
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord, NodeRecord

Memory = tuple[str, int]
"""One storage: the stage of the graph that made it, and its number there."""


class Liveness:
    """The first and the last node of each storage of a graph.

    Args:
        graph: the graph.
        dynamo: the Dynamo graph that it was made from; it shows which writes are in place.
        forward: for a backward graph, the liveness of its forward; it has the storages that were saved.
    """

    def __init__(self, graph: GraphRecord, dynamo: GraphRecord | None, forward: Liveness | None) -> None:
        self.graph = graph
        self.size: dict[Memory, int] = {}
        self.first: dict[Memory, int] = {}
        self.last: dict[Memory, int] = {}
        self.maker: dict[Memory, NodeRecord] = {}
        self.unknown: NodeRecord | None = forward.unknown if forward else None
        self.sizes = symbolic.known_sizes(graph.hints, graph.symbols)
        self.held: set[Memory] = set()
        """Storages that belong to the caller."""
        self._forward = forward
        self._stand_ins = stand_ins(graph, dynamo)
        self._inside = _inside_ops(graph)
        self._of: dict[str, list[Memory]] = {}
        self._known: dict[int, Memory] = {}
        """Number of a storage in this graph → the same storage as the forward made it."""
        self._follow()
        if forward is not None:
            for memory in forward.held - self.held:
                self._begin(memory, forward.maker[memory], 0, forward.size[memory])
                self.held.add(memory)
        self.last.update(dict.fromkeys(self.held, len(graph.nodes)))

    def _follow(self) -> None:
        end = len(self.graph.nodes)
        ends = _ends_of_ops(self.graph)
        if self._forward is not None:
            ends |= _ends_of_gradients(self.graph)
        for position, node in enumerate(self.graph.nodes):
            saved = self._saved(node)
            made = self._made(position, node) if saved is None else saved
            self._of[node.name] = made
            until = end if node.op == "output" else ends.get(position, position)
            for name in node.inputs:
                for memory in self._of.get(name, ()):
                    self.last[memory] = max(self.last[memory], until)
            if node.op == "get_attr" or (node.op == "placeholder" and (saved is None) and not self._is_given_up(node)):
                self.held.update(made)

    def _is_given_up(self, node: NodeRecord) -> bool:
        """Whether a backward's placeholder is freed after its last use: a saved tensor or an incoming gradient."""
        return self._forward is not None and node.role in {"saved", "tangent"}

    def _saved(self, node: NodeRecord) -> list[Memory] | None:
        """The forward's storages of a backward's placeholder; None when the forward has no node of that name."""
        if self._forward is None or node.op != "placeholder":
            return None
        memories = self._forward._of.get(node.name)
        if not memories:
            return None
        for spec, memory in zip(node.outputs, memories, strict=False):
            self._known[spec.storage] = memory
            if memory not in self.first:
                self._begin(memory, self._forward.maker[memory], 0, self._forward.size[memory])
                if memory in self._forward.held:
                    self.held.add(memory)
        return memories

    def _made(self, position: int, node: NodeRecord) -> list[Memory]:
        made: list[Memory] = []
        for spec in node.outputs:
            if spec.storage < 0:
                continue
            storage = self._stand_ins.get(spec.storage, spec.storage)
            memory = self._known.get(storage, (self.graph.stage, storage))
            made.append(memory)
            if memory in self.first:
                continue
            size = 0 if storage in self._inside else symbolic.bytes_of(spec, self.sizes)
            if size is None:
                self.unknown = self.unknown or node
                size = 0
            self._begin(memory, node, position, size)
        return made

    def _begin(self, memory: Memory, maker: NodeRecord, position: int, size: int) -> None:
        self.size[memory] = size
        self.first[memory] = self.last[memory] = position
        self.maker[memory] = maker

    def timeline(self) -> list[int]:
        """Bytes alive while each node runs."""
        change = [0] * (len(self.graph.nodes) + 2)
        for memory, size in self.size.items():
            change[self.first[memory]] += size
            change[self.last[memory] + 1] -= size
        alive, line = 0, []
        for step in change[: len(self.graph.nodes)]:
            alive += step
            line.append(alive)
        return line


def _ends_of_ops(graph: GraphRecord) -> dict[int, int]:
    """Position of a part of a decomposed op → position of its last part, until which its operands are read."""
    parts: dict[tuple[str, str], list[int]] = {}
    for position, node in enumerate(graph.nodes):
        if node.composite:
            parts.setdefault((node.composite, node.call), []).append(position)
    return {position: same[-1] for same in parts.values() for position in same}


def _ends_of_gradients(graph: GraphRecord) -> dict[int, int]:
    """Position of a backward's call → position of the last of its neighbours from the same forward op.

    Autograd computes all gradients of one op (of a linear: input, weight, bias) before it frees what it saved for that
    op, the incoming gradient, and the formula's temporaries. Calls without a forward op are the gradient of a write to
    a view, which is one op to autograd, too.
    """
    ends: dict[int, int] = {}
    calls = [(position, node) for position, node in enumerate(graph.nodes) if node.is_call]
    for _, same in itertools.groupby(calls, key=lambda each: each[1].origins):
        positions = [position for position, _ in same]
        ends.update(dict.fromkeys(positions, positions[-1]))
    return ends


def _inside_ops(graph: GraphRecord) -> frozenset[int]:
    """Storages that are made and read only inside one decomposed op."""
    interior = graph.interior
    inside: set[int] = set()
    outside: set[int] = set()
    for node in graph.nodes if interior else ():
        storages = inside if node.name in interior else outside
        storages.update(spec.storage for spec in node.outputs)
    return frozenset(inside - outside)


def liveness_of(graph: GraphRecord, capture: CompileCapture | None = None) -> Liveness:
    """The liveness of a graph, computed once; without a capture, in-place writes and the forward are unknown."""
    kept: tuple[CompileCapture | None, Liveness] | None = graph.__dict__.get(_KEPT)
    if kept is None or kept[0] is not capture:
        forward = capture.graph("forward") if capture is not None and graph.stage == "backward" else None
        kept = graph.__dict__[_KEPT] = (
            capture,
            Liveness(
                graph,
                capture.graph("dynamo") if capture is not None else None,
                liveness_of(forward, capture) if forward is not None else None,
            ),
        )
    return kept[1]


_KEPT = "_liveness"
"""Key in the graph's ``__dict__``: the liveness is cached beside the record's fields and never saved."""
