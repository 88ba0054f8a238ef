"""Cut a graph into segments for the target and segments for the CPU, keeping the order of writes and reads.

A node waits for the nodes that it reads, a write waits for every earlier read of the same storage, and a read for every
earlier write; random numbers are drawn in the graph's order. Storages are shared between views, so a write through one
view holds back readers of another. Within these limits all ready nodes of one side run before the side changes, which
keeps the number of segments low. Both steps are linear in the size of the graph.

A view moves no data, so it stays on the side of its base; a view of a graph input goes to the side that reads it.
"""

from __future__ import annotations

import graphlib
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from inductor_debug_jupyter.pipeline.devices import symbolic
from inductor_debug_jupyter.pipeline.devices.ops import VIEWS, bare_name
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, PlannedTransfer, Segment, Side, TensorSpec

Key = int | str
"""A storage: its number in the graph, or the node's name where torch gives none."""


def storage_keys(node: NodeRecord) -> list[Key]:
    """The storage of each tensor that a node returns."""
    if len(node.outputs) == 1 and node.outputs[0].storage >= 0:
        return [node.outputs[0].storage]
    return [spec.storage if spec.storage >= 0 else f"{node.name}.{i}" for i, spec in enumerate(node.outputs)]


def full_sides(graph: GraphRecord, sides: Mapping[str, Side]) -> dict[str, Side | None]:
    """The side of every call: a view has that of its base, and a call without tensors has None."""
    placed: dict[str, Side | None] = {}
    open_views: list[NodeRecord] = []
    for node in graph.calls:
        if not node.outputs and node.typed and not node.mutates:
            placed[node.name] = None
            continue
        if bare_name(node.target) not in VIEWS or not node.inputs:
            placed[node.name] = sides[node.name]
            continue
        made = placed.get(node.inputs[0])
        placed[node.name] = made
        if made is None:
            open_views.append(node)
    for node in reversed(open_views):
        readers = (placed.get(reader.name) for reader in graph.readers.get(node.name, ()))
        placed[node.name] = next((side for side in readers if side is not None), sides[node.name])
    return placed


def segments_of(graph: GraphRecord, sides: Mapping[str, Side | None]) -> tuple[Segment, ...]:
    """The segments, in the order in which they run; every call is in exactly one.

    Calls without tensors join any side.
    """
    order = {node.name: at for at, node in enumerate(graph.calls)}
    waiting = graphlib.TopologicalSorter(_waits_for(graph))
    waiting.prepare()
    ready: dict[Side | None, list[int]] = {"device": [], "cpu": [], None: []}

    def add_ready() -> None:
        for name in waiting.get_ready():
            heapq.heappush(ready[sides[name]], order[name])

    add_ready()
    side: Side = "device" if ready["device"] or not ready["cpu"] else "cpu"
    segments: list[Segment] = []
    while any(ready.values()):
        nodes: list[str] = []
        while ready[None] or ready[side]:
            nodes.append(graph.calls[heapq.heappop(ready[None] or ready[side])].name)
            waiting.done(nodes[-1])
            add_ready()
        if nodes:
            segments.append(Segment(len(segments), side, tuple(nodes)))
        side = "cpu" if side == "device" else "device"
    return tuple(segments)


def _waits_for(graph: GraphRecord) -> dict[str, set[str]]:
    """Call → the calls whose results it reads, that wrote what it reads, or that read or wrote what it writes."""
    keys = {node.name: storage_keys(node) for node in graph.nodes}
    calls = {node.name for node in graph.calls}

    def memory(names: Iterable[str]) -> list[Key]:
        return [key for name in names for key in keys.get(name) or [name]]  # <rng> and <effect> are storages too

    written = {key for node in graph.calls for key in memory(node.mutates)}
    writer: dict[Key, set[str]] = {}
    readers: dict[Key, set[str]] = {}
    waits: dict[str, set[str]] = {}
    for node in graph.calls:
        before = waits[node.name] = calls.intersection(node.inputs)
        for key in written.intersection(memory(node.inputs)):
            before |= writer.get(key, set())
            readers.setdefault(key, set()).add(node.name)
        for key in memory(node.mutates):
            before |= readers.pop(key, set()) | writer.get(key, set())
            writer[key] = {node.name}
        before.discard(node.name)
    return waits


@dataclass
class Traffic:
    """The transfers, and op → the transfers that it causes: as reader on the CPU, or by computing there."""

    transfers: list[PlannedTransfer] = field(default_factory=list)
    blamed: dict[str, list[PlannedTransfer]] = field(default_factory=dict)


def _transfer_kind(kind: str, maker: NodeRecord) -> str:
    """``border`` becomes ``resident`` for a parameter, buffer or constant, and ``input`` for another graph input."""
    if kind != "border" or maker.is_call:
        return kind
    return "resident" if maker.role in {"parameter", "buffer"} or maker.op == "get_attr" else "input"


class TransferPlanner:
    """Tracks which sides have the newest content of each storage, segment by segment. A view moves its whole storage.

    Args:
        graph: the graph.
        cost: an object with ``seconds(bytes)``, such as a profile.
    """

    def __init__(self, graph: GraphRecord, cost: object = None) -> None:
        self.graph = graph
        self.traffic = Traffic()
        self._seconds = getattr(cost, "seconds", lambda size: None)
        self._where: dict[Key, set[Side]] = {}
        self._maker: dict[Key, tuple[NodeRecord, TensorSpec]] = {}
        self._keys = {node.name: storage_keys(node) for node in graph.nodes}
        for node in graph.nodes:
            for key, spec in zip(self._keys[node.name], node.outputs, strict=True):
                self._maker.setdefault(key, (node, spec))
                if node.op in {"placeholder", "get_attr"}:
                    self._where[key] = {"cpu"}

    def traffic_of(self, segments: tuple[Segment, ...]) -> Traffic:
        """Every transfer at the borders, and those of inputs and outputs."""
        for segment in segments:
            for name in segment.nodes:
                self._run(self.graph.by_name[name], segment)
        end = len(segments)
        for node in self.graph.nodes:
            if node.op == "output":
                for name in node.inputs:
                    self._need(name, "cpu", end, "output", None)
        for node in self.graph.nodes:
            if not node.is_call and node.op != "output":
                self._need(node.name, "cpu", end, "written", None)
        return self.traffic

    def _run(self, node: NodeRecord, segment: Segment) -> None:
        for name in node.inputs:
            self._need(name, segment.side, segment.index, "border", node)
        for key in self._keys[node.name]:
            if key not in self._where:
                self._where[key] = {segment.side}
        for name in node.mutates:
            for key in self._keys.get(name, ()):
                self._where[key] = {segment.side}

    def _need(self, name: str, side: Side, segment: int, kind: str, reader: NodeRecord | None) -> None:
        for key in self._keys[name]:
            if key not in self._where or side in self._where[key]:
                continue
            self._where[key].add(side)
            maker, spec = self._maker[key]
            size = symbolic.bytes_of(spec, self.graph.hints)
            what = _transfer_kind(kind, maker)
            transfer = PlannedTransfer(name, side, what, segment, str(spec), size, self._seconds(size))
            self.traffic.transfers.append(transfer)
            if what == "border" and reader is not None:
                blamed = reader if side == "cpu" else maker
                self.traffic.blamed.setdefault(blamed.name, []).append(transfer)
