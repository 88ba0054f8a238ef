"""Cut a graph into what runs on the target and what falls back to the CPU, safely in the face of mutation.

Order is kept where it matters: a node waits for what it reads, a write waits for every earlier read of the same memory,
and a read for every earlier write; random numbers are drawn in the graph's order. Memory is known by storage, so a
write through one view holds back readers of another. Within these limits nodes of one side are drained before the side
changes, which keeps the number of segments low. Both steps are linear in the graph.

A view moves no data, so it stays on the side of what it looks at; a view of an input goes where it is read.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from inductor_debug_jupyter.pipeline.devices import symbolic
from inductor_debug_jupyter.pipeline.devices.ops import VIEWS, bare_name
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, PlannedTransfer, Segment, Side, TensorSpec

Key = int | str
"""A piece of memory: its number in the graph, or the node's name where torch gives none."""


def storage_keys(node: NodeRecord) -> list[Key]:
    """The memory of each tensor that a node yields."""
    if len(node.outputs) == 1 and node.outputs[0].storage >= 0:
        return [node.outputs[0].storage]
    return [spec.storage if spec.storage >= 0 else f"{node.name}.{i}" for i, spec in enumerate(node.outputs)]


def full_sides(graph: GraphRecord, sides: Mapping[str, Side]) -> dict[str, Side | None]:
    """The side of every call: views and tuples follow what they look at; None for what has no data at all."""
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
    """Which node waits for which."""

    def __init__(self, graph: GraphRecord) -> None:
        self.calls = graph.calls
        self.waiting = [0] * len(self.calls)
        self.next: list[list[int]] = [[] for _ in self.calls]
        self._index = {node.name: index for index, node in enumerate(self.calls)}
        self._keys = {node.name: storage_keys(node) for node in graph.nodes}
        self._written = {key for node in self.calls for name in node.mutates for key in self._memory(name)}
        self._writer: dict[Key, int] = {}
        self._readers: dict[Key, list[int]] = {}
        for index, node in enumerate(self.calls):
            self._add(index, node)

    def _memory(self, name: str) -> list[Key]:
        return self._keys.get(name) or [name]  # <rng> and <effect> are memory of their own

    def _add(self, index: int, node: NodeRecord) -> None:
        before = {self._index[name] for name in node.inputs if name in self._index}
        if self._written:
            for name in node.inputs:
                for key in self._memory(name):
                    if key in self._written:
                        before.update(self._after(key))
                        self._readers.setdefault(key, []).append(index)
            for name in node.mutates:
                for key in self._memory(name):
                    before.update(self._readers.pop(key, ()), self._after(key))
                    self._writer[key] = index
        before.discard(index)
        self.waiting[index] = len(before)
        for other in before:
            self.next[other].append(index)

    def _after(self, key: Key) -> tuple[int, ...]:
        writer = self._writer.get(key)
        return () if writer is None else (writer,)


def segments_of(graph: GraphRecord, sides: Mapping[str, Side | None]) -> tuple[Segment, ...]:
    """The segments, in the order in which they run; every call is in exactly one."""
    schedule = _Schedule(graph)
    ready: dict[Side | None, list[int]] = {"device": [], "cpu": [], None: []}
    for index, waiting in enumerate(schedule.waiting):
        if not waiting:
            ready[sides[schedule.calls[index].name]].append(index)
    side: Side = "device" if ready["device"] or not ready["cpu"] else "cpu"
    segments: list[Segment] = []
    while any(ready.values()):
        nodes: list[str] = []
        while ready[None] or ready[side]:
            index = heapq.heappop(ready[None] or ready[side])
            nodes.append(schedule.calls[index].name)
            for following in schedule.next[index]:
                schedule.waiting[following] -= 1
                if not schedule.waiting[following]:
                    heapq.heappush(ready[sides[schedule.calls[following].name]], following)
        if nodes:
            segments.append(Segment(len(segments), side, tuple(nodes)))
        side = "cpu" if side == "device" else "device"
    return tuple(segments)


@dataclass
class Traffic:
    """What moves, and which op is to blame: the reader on the CPU, or the maker there of what the device reads."""

    transfers: list[PlannedTransfer] = field(default_factory=list)
    blamed: dict[str, list[PlannedTransfer]] = field(default_factory=dict)


def traffic_of(graph: GraphRecord, segments: tuple[Segment, ...], cost: object = None) -> Traffic:
    """Every transfer at the borders, and those of inputs and outputs.

    Each piece of memory is followed: where its newest content is. A view moves with the whole of its memory.

    Args:
        graph: the graph.
        segments: its segments.
        cost: has ``seconds(bytes)``, such as a profile.
    """
    return _Follower(graph, cost).follow(segments)


class _Follower:
    """Follows memory from segment to segment."""

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

    def follow(self, segments: tuple[Segment, ...]) -> Traffic:
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
            if kind == "border" and not maker.is_call:
                kind = "resident" if maker.role in {"parameter", "buffer"} or maker.op == "get_attr" else "input"
            size = symbolic.bytes_of(spec, self.graph.hints)
            transfer = PlannedTransfer(name, side, kind, segment, str(spec), size, self._seconds(size))
            self.traffic.transfers.append(transfer)
            if kind == "border" and reader is not None:
                blamed = reader if side == "cpu" else maker
                self.traffic.blamed.setdefault(blamed.name, []).append(transfer)


def external_inputs(graph: GraphRecord, segment: Segment) -> Iterator[str]:
    """What a segment reads and does not make, once each."""
    inside = set(segment.nodes)
    seen: set[str] = set()
    for name in segment.nodes:
        for operand in graph.by_name[name].inputs:
            if operand not in inside and operand not in seen:
                seen.add(operand)
                yield operand
