"""Which storages of an AOT graph are older storages of the program, because the program writes in place.

AOTAutograd makes every write a new tensor (``y.relu_()`` → ``relu = aten.relu(y)``), and copies into inputs at the end.
The Dynamo graph is the program as it was written: the storage of ``y.relu_()`` there is that of ``y``. So where a
Dynamo node yields, or writes to, memory that was there before it, while the AOT node that computes its value has a
storage of its own, that storage is the older one. No later node can read the old content, because the program has
overwritten it.
"""

from __future__ import annotations

from collections.abc import Iterator

from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, TensorSpec

_PART_WRITES = frozenset(
    {"slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter", "copy", "fill", "_unsafe_index_put"}
)
"""The ops by which AOTAutograd expresses a write to a part: they return the whole tensor with that part replaced."""


def stand_ins(graph: GraphRecord, dynamo: GraphRecord | None) -> dict[int, int]:
    """Storage of an AOT graph → the older storage that the program reuses for it."""
    return _StandIns(graph, dynamo).found if dynamo is not None and graph.stage != "dynamo" else {}


class _StandIns:
    """Walks the AOT graph and the Dynamo graph together."""

    def __init__(self, graph: GraphRecord, dynamo: GraphRecord) -> None:
        self.found: dict[int, int] = {}
        self._dynamo = dynamo
        self._graph = graph
        self._made_for: dict[int, str] = {}
        """AOT storage → the Dynamo node from which the first node with that storage was made."""
        self._holds = self._inputs()
        """Dynamo storage → AOT storage."""
        self._own: set[int] = set(self._holds.values())
        """AOT storages that are storages of the Dynamo graph, too."""
        values = self._values() if graph.stage == "forward" else {}  # a gradient is not the value of its forward op
        for node in graph.nodes:
            if node.is_call and bare_name(node.target) in _PART_WRITES and not self._was_called(node):
                self._part_write(node)
            self._made(node)
            for origin in values.get(node.name, ()):
                self._value(node, dynamo.by_name[origin])
            if node.target == "aten.copy_.default" and len(node.inputs) == 2:
                self._copied_back(*node.inputs)

    def _inputs(self) -> dict[int, int]:
        ours = {(node.role, node.origin): node.tensor for node in self._graph.nodes if node.op == "placeholder"}
        return {
            spec.storage: mine.storage
            for node in self._dynamo.nodes
            if node.op == "placeholder" and (spec := node.tensor) and (mine := ours.get((node.role, node.origin)))
        }

    def _values(self) -> dict[str, list[str]]:
        """AOT node → the Dynamo nodes whose value it computes.

        Of the AOT nodes made from one Dynamo node, the last with the shape and dtype of its value is taken: an op can
        have other results beside its value (a BatchNorm's new statistics).
        """
        groups: dict[str, list[NodeRecord]] = {}
        for node in self._graph.calls:
            for origin in node.origins[-1:]:
                groups.setdefault(origin, []).append(node)
        values: dict[str, list[str]] = {}
        for origin, nodes in groups.items():
            if (written := self._dynamo.node(origin)) is None:
                continue
            shapes = {(spec.shape, spec.dtype) for spec in self._memory_of(written)}
            fits = [node for node in nodes if node.tensor and (node.tensor.shape, node.tensor.dtype) in shapes]
            values.setdefault((fits or nodes)[-1].name, []).append(origin)
        return values

    def _memory_of(self, node: NodeRecord) -> Iterator[TensorSpec]:
        """The tensors that a Dynamo node returns, or those that it writes to where it returns nothing."""
        if node.outputs:
            yield from node.outputs
            return
        for name in node.mutates:
            if (target := self._dynamo.node(name)) is not None:
                yield from target.outputs

    def _value(self, node: NodeRecord, origin: NodeRecord) -> None:
        for spec, mine in zip(self._memory_of(origin), node.outputs, strict=False):
            if spec.storage < 0 or mine.storage < 0:
                continue
            before = self._holds.get(spec.storage)
            if before is None:
                self._holds[spec.storage] = mine.storage
                self._own.add(mine.storage)
            elif self._made_for.get(mine.storage) == origin.name:  # a view has the storage of an earlier node
                self._stands_for(mine.storage, before)

    def _made(self, node: NodeRecord) -> None:
        for spec in node.outputs:
            self._made_for.setdefault(spec.storage, node.origins[-1] if node.origins else "")

    def _part_write(self, node: NodeRecord) -> None:
        place = self._storage_of(node.inputs[0]) if node.inputs else None
        if place is None or place < 0 or node.tensor is None or node.tensor.storage < 0:
            return
        if node.tensor.storage not in self._made_for:
            self._stands_for(node.tensor.storage, place)

    def _copied_back(self, target: str, source: str) -> None:
        """The final copy into an input: the copied value's storage is the input's, unless the program allocates it."""
        made, place = self._graph.node(source), self._storage_of(target)
        if made is None or made.tensor is None or place is None or made.tensor.storage in self._own:
            return
        self.found.setdefault(made.tensor.storage, place)

    def _storage_of(self, name: str) -> int | None:
        node = self._graph.node(name)
        return node.tensor.storage if node is not None and node.tensor is not None else None

    def _stands_for(self, storage: int, place: int) -> None:
        place = self.found.get(place, place)
        if storage != place:
            self.found[storage] = place

    def _was_called(self, node: NodeRecord) -> bool:
        """Whether the program itself calls this op (``torch.slice_scatter``), so that it really makes a new tensor."""
        name = bare_name(node.target)
        origins = (self._dynamo.node(origin) for origin in node.origins)
        return any(each is not None and bare_name(each.target) == name for each in origins)
