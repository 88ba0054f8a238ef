"""From where to where each piece of memory of a graph is alive.

Liveness over storages: views share one, so they cost nothing; a storage is alive from the node that makes it to the
last one that reads it or one of its views. What the graph returns is alive to its end, and what belongs to the caller
(inputs, parameters, buffers) throughout. Three things make that the memory of the program as its author wrote it:

- AOTAutograd writes ``y.relu_()`` as a new tensor. The Dynamo graph still has the memory that the program wrote to, so
  the new tensor stands in the old one's place (:mod:`~inductor_debug_jupyter.pipeline.devices.in_place`).
- Inductor writes ``gelu`` as its parts. What is made and read only inside one op is the op's own business, and what
  the op reads is there until the op is done.
- A backward graph is given what the forward saved. Autograd lets go of what it saved for one op when it has all
  gradients of that op; a saved view keeps its whole storage, and parameters and inputs that the backward does not read
  are still the caller's.
"""

from __future__ import annotations

import itertools

from inductor_debug_jupyter.pipeline.devices import symbolic
from inductor_debug_jupyter.pipeline.devices.in_place import stand_ins
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord, NodeRecord

Memory = tuple[str, int]
"""One storage: the stage of the graph that made it, and its number there."""


class Liveness:
    """From where to where each storage of a graph is alive.

    Args:
        graph: the graph.
        dynamo: the Dynamo graph that it was made from: it knows what is written in place.
        forward: for a backward graph, the liveness of its forward: it knows the storages that were saved.
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
        """What belongs to the caller."""
        self._forward = forward
        self._stand_ins = stand_ins(graph, dynamo)
        self._inside = _inside_ops(graph)
        self._of: dict[str, list[Memory]] = {}
        self._known: dict[int, Memory] = {}
        """Storages that the forward made, by their numbers in this graph."""
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
        """Whether a backward's placeholder is let go of after its last use: a saved tensor or an incoming gradient."""
        return self._forward is not None and node.role in {"saved", "tangent"}

    def _saved(self, node: NodeRecord) -> list[Memory] | None:
        """The memory of a backward's placeholder that is a node of the forward."""
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
    """Position of a part of a decomposed op → that of the last part: the op reads until it is done."""
    parts: dict[tuple[str, str], list[int]] = {}
    for position, node in enumerate(graph.nodes):
        if node.composite:
            parts.setdefault((node.composite, node.call), []).append(position)
    return {position: same[-1] for same in parts.values() for position in same}


def _ends_of_gradients(graph: GraphRecord) -> dict[int, int]:
    """Position of a backward's call → that of the last one beside it that is of the same forward op.

    Autograd computes all gradients of one op (of a linear: input, weight, bias) before it lets go of what it saved for
    that op, of the gradient that came in, and of what its formula makes on the way. Calls of no forward op are the
    gradient of a write to a view, which is one op to autograd too.
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
    """The liveness of a graph of a capture; alone, of the graph as it stands. Worked out once."""
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
"""Where a graph's liveness is kept: beside the record's fields, since it is no part of the record."""
