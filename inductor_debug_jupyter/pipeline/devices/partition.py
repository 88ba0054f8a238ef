"""Cut a graph into segments for the target and segments for the CPU, keeping the order of writes and reads.

A node waits for the nodes that it reads, a write waits for every earlier read of the same storage, and a read for every
earlier write; random numbers are drawn in the graph's order. Storages are shared between views, so a write through one
view holds back readers of another. Within these limits all ready nodes of one side run before the side changes, which
keeps the number of segments low. Both steps are linear in the size of the graph.

A view moves no data, so it stays on the side of its base; a view of a graph input goes to the side that reads it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
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


class _Schedule:
    """The calls of a graph that wait for others, and those that are ready to run, by side."""

    def __init__(self, graph: GraphRecord, sides: Mapping[str, Side | None]) -> None:
        self._calls = graph.calls
        self._sides = [sides[node.name] for node in graph.calls]
        self._waiting = [0] * len(self._calls)
        self._next: list[list[int]] = [[] for _ in self._calls]
        self._index = {node.name: index for index, node in enumerate(self._calls)}
        self._keys = {node.name: storage_keys(node) for node in graph.nodes}
        self._written = {key for node in self._calls for key in self._memory(node.mutates)}
        self._writer: dict[Key, int] = {}
        self._readers: dict[Key, list[int]] = {}
        self.ready: dict[Side | None, list[int]] = {"device": [], "cpu": [], None: []}
        for index, node in enumerate(self._calls):
            self._add(index, node)
            if not self._waiting[index]:
                self.ready[self._sides[index]].append(index)

    def drain(self, side: Side) -> tuple[str, ...]:
        """Run the ready calls of one side, and those that become ready by that; calls without tensors join any side."""
        nodes: list[str] = []
        while self.ready[None] or self.ready[side]:
            index = heapq.heappop(self.ready[None] or self.ready[side])
            nodes.append(self._calls[index].name)
            for following in self._next[index]:
                self._waiting[following] -= 1
                if not self._waiting[following]:
                    heapq.heappush(self.ready[self._sides[following]], following)
        return tuple(nodes)

    def _memory(self, names: Iterable[str]) -> Iterator[Key]:
        for name in names:
            yield from self._keys.get(name) or [name]  # <rng> and <effect> are storages of their own

    def _add(self, index: int, node: NodeRecord) -> None:
        before = {self._index[name] for name in node.inputs if name in self._index}
        if self._written:
            before |= self._conflicts(index, node)
        before.discard(index)
        self._waiting[index] = len(before)
        for other in before:
            self._next[other].append(index)

    def _conflicts(self, index: int, node: NodeRecord) -> set[int]:
        """The earlier calls that wrote what this call reads, and those that read or wrote what it writes."""
        before: set[int] = set()
        for key in self._memory(node.inputs):
            if key in self._written:
                before.update(self._last_writer(key))
                self._readers.setdefault(key, []).append(index)
        for key in self._memory(node.mutates):
            before.update(self._readers.pop(key, ()), self._last_writer(key))
            self._writer[key] = index
        return before

    def _last_writer(self, key: Key) -> tuple[int, ...]:
        writer = self._writer.get(key)
        return () if writer is None else (writer,)


def segments_of(graph: GraphRecord, sides: Mapping[str, Side | None]) -> tuple[Segment, ...]:
    """The segments, in the order in which they run; every call is in exactly one."""
    schedule = _Schedule(graph, sides)
    side: Side = "device" if schedule.ready["device"] or not schedule.ready["cpu"] else "cpu"
    segments: list[Segment] = []
    while any(schedule.ready.values()):
        if nodes := schedule.drain(side):
            segments.append(Segment(len(segments), side, nodes))
        side = "cpu" if side == "device" else "device"
    return tuple(segments)


@dataclass
class Traffic:
    """The transfers, and op → the transfers that it causes: as reader on the CPU, or by computing there."""

    transfers: list[PlannedTransfer] = field(default_factory=list)
    blamed: dict[str, list[PlannedTransfer]] = field(default_factory=dict)


def traffic_of(graph: GraphRecord, segments: tuple[Segment, ...], cost: object = None) -> Traffic:
    """Every transfer at the borders, and those of inputs and outputs.

    For each storage the sides that have its newest content are tracked. A view moves its whole storage.

    Args:
        graph: the graph.
        segments: its segments.
        cost: an object with ``seconds(bytes)``, such as a profile.
    """
    return _StorageTracker(graph, cost).traffic_of(segments)


class _StorageTracker:
    """Tracks which sides have the newest content of each storage, segment by segment."""

    def __init__(self, graph: GraphRecord, cost: object) -> None:
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
            transfer = PlannedTransfer(
                name, side, _transfer_kind(kind, maker), segment, str(spec), size, self._seconds(size)
            )
            self.traffic.transfers.append(transfer)
            if transfer.kind == "border" and reader is not None:
                blamed = reader if side == "cpu" else maker
                self.traffic.blamed.setdefault(blamed.name, []).append(transfer)


def _transfer_kind(kind: str, maker: NodeRecord) -> str:
    """``border`` becomes ``resident`` for a parameter, buffer or constant, and ``input`` for another graph input."""
    if kind != "border" or maker.is_call:
        return kind
    return "resident" if maker.role in {"parameter", "buffer"} or maker.op == "get_attr" else "input"
