"""Run a partitioned graph: each segment as a graph of its own, each side with memory of its own.

The target's memory is a second copy of each tensor that it touches. A value that crosses a border is copied, and what
one side writes is stale on the other until it is copied again. So a plan that forgets a transfer, or moves a read past
a write, gives other numbers than the unpartitioned graph, as on a device. ``compile_device`` runs the device's segments
on real hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.devices.partition import Key, storage_keys
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.records import GraphRecord, Segment, Side
from inductor_debug_jupyter.pipeline.torch_compat.graphs import tensors_of
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors

CompileDevice = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Moved:
    """One copy between the two sides: the value, the side that it went to, and its bytes."""

    value: str
    to: Side
    bytes: int


@dataclass(frozen=True)
class _SegmentGraph:
    """One segment, ready to run: its graph, the values that it reads, and those that later segments read."""

    segment: Segment
    module: torch.fx.GraphModule
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class PartitionedGraph:
    """A live graph that runs in segments.

    Args:
        graph_module: the graph; it is only read.
        record: the record of the same graph; node names and storages are matched by it.
        segments: what :func:`~inductor_debug_jupyter.pipeline.devices.coverage.graph_coverage` found.
        compile_device: makes a device segment runnable on real hardware; by default it runs on the CPU, op by op.

    ``moved`` has what the last call copied between the two sides.
    """

    def __init__(
        self,
        graph_module: torch.fx.GraphModule,
        record: GraphRecord,
        segments: Sequence[Segment],
        compile_device: CompileDevice | None = None,
    ) -> None:
        self._graph_module = graph_module
        self._record = record
        self._compile_device = compile_device
        self._compiled: dict[int, Callable[..., Any]] = {}
        self._nodes = {node.name: node for node in graph_module.graph.nodes}
        if missing := [node.name for node in record.nodes if node.name not in self._nodes]:
            raise UsageError(f"the record is of another graph: it has {missing[0]!r}, the graph has not")
        self._pieces = [self._segment_graph(segment) for segment in segments]
        self._last_read = self._last_reads()
        self.moved: list[Moved] = []

    def _segment_graph(self, segment: Segment) -> _SegmentGraph:
        inside = set(segment.nodes)
        read = dict.fromkeys(operand for name in segment.nodes for operand in self._record.by_name[name].inputs)
        inputs = tuple(operand for operand in read if operand not in inside)
        graph = torch.fx.Graph()
        made = {self._nodes[name]: graph.placeholder(name) for name in inputs}
        for name in segment.nodes:
            made[self._nodes[name]] = graph.node_copy(self._nodes[name], lambda node: made[node])
        outputs = tuple(
            name for name in segment.nodes if any(user.name not in inside for user in self._nodes[name].users)
        )
        graph.output(tuple(made[self._nodes[name]] for name in outputs))
        return _SegmentGraph(segment, torch.fx.GraphModule(self._graph_module, graph), inputs, outputs)

    def _last_reads(self) -> list[list[str]]:
        """For each segment, the values that no later one reads; the caller's inputs and outputs are kept to the end."""
        last: dict[str, int] = {}
        for number, piece in enumerate(self._pieces):
            last.update(dict.fromkeys((*piece.inputs, *piece.outputs), number))
        kept = {name for node in self._record.nodes if node.op == "output" for name in node.inputs}
        reads: list[list[str]] = [[] for _ in self._pieces]
        for name, number in last.items():
            if name not in kept and self._record.by_name[name].is_call:
                reads[number].append(name)
        return reads

    def __call__(self, *args: Any) -> Any:
        """Run all segments; returns what the graph returns, and writes to the inputs that the graph writes to."""
        with torch.no_grad():
            return self._call(args)

    def _call(self, args: tuple[Any, ...]) -> Any:
        memory = _TwoMemories(self._record)
        given = iter(args)
        for node in self._graph_module.graph.nodes:
            if node.op == "placeholder":
                memory.put(node.name, "cpu", next(given))
            elif node.op == "get_attr":
                memory.put(node.name, "cpu", _attribute(self._graph_module, str(node.target)))
        for number, piece in enumerate(self._pieces):
            self._run(piece, memory)
            memory.forget(self._last_read[number])
        memory.write_back()
        output = next(node for node in self._graph_module.graph.nodes if node.op == "output")
        result = torch.fx.node.map_arg(output.args[0], lambda node: memory.get(node.name, "cpu"))
        self.moved = memory.moved
        return result

    def _run(self, piece: _SegmentGraph, memory: _TwoMemories) -> None:
        side = piece.segment.side
        inputs = [memory.get(name, side) for name in piece.inputs]
        outputs = self._runner(piece, inputs)(*inputs)
        for name, value in zip(piece.outputs, outputs, strict=True):
            memory.put(name, side, value)
        for name in piece.segment.nodes:
            for written in self._record.by_name[name].mutates:
                memory.written(written, side)

    def _runner(self, piece: _SegmentGraph, inputs: Sequence[Any]) -> Callable[..., Any]:
        if piece.segment.side == "cpu" or self._compile_device is None:
            return piece.module
        index = piece.segment.index
        if index not in self._compiled:
            self._compiled[index] = self._compile_device(piece.module, inputs)
        return self._compiled[index]


class _TwoMemories:
    """The values of both sides, and which sides have the newest content of each storage."""

    def __init__(self, record: GraphRecord) -> None:
        self.moved: list[Moved] = []
        self._record = record
        self._values: dict[str, dict[Side, Any]] = {}
        self._storages: dict[Key, dict[Side, torch.UntypedStorage]] = {}
        self._fresh: dict[Key, set[Side]] = {}
        self._own_keys: dict[str, list[Key]] = {}
        self._users: dict[Key, int] = {}

    def put(self, name: str, side: Side, value: Any) -> None:
        """Register a value that the caller passed in or that ``side`` has just computed."""
        self._values[name] = {side: value}
        keys = self._keys(name, value)
        for key, tensor in zip(keys, tensors_of(value), strict=True):
            self._users[key] = self._users.get(key, 0) + 1
            known = self._storages.setdefault(key, {})
            known.setdefault(side, tensor.untyped_storage())
            self._fresh.setdefault(key, {side})

    def _keys(self, name: str, value: Any) -> list[Key]:
        """The record's storage of each tensor; a new key where the live tensor does not share that storage."""
        tensors = tensors_of(value)
        recorded = storage_keys(self._record.by_name[name])
        keys: list[Key] = []
        for number, tensor in enumerate(tensors):
            key: Key = recorded[number] if number < len(recorded) else f"{name}.{number}"
            known = self._storages.get(key, {})
            if known and all(s.data_ptr() != tensor.untyped_storage().data_ptr() for s in known.values()):
                key = f"{name}.{number}"
            keys.append(key)
        self._own_keys[name] = keys
        return keys

    def get(self, name: str, side: Side) -> Any:
        """The value on ``side``, copied there first when only the other side has its newest content."""
        values = self._values[name]
        keys = self._own_keys[name]
        for key in keys:
            self._refresh(name, key, side)
        if side not in values:
            there = next(iter(values.values()))
            unmoved = iter(keys)
            values[side] = map_tensors(lambda tensor: _on_storage(self._storages[next(unmoved)][side], tensor), there)
        return values[side]

    def _refresh(self, name: str, key: Key, side: Side) -> None:
        fresh, storages = self._fresh[key], self._storages[key]
        if side in fresh:
            return
        newest = storages["cpu" if side == "device" else "device"]
        if side in storages:
            storages[side].copy_(newest)
        else:
            storages[side] = newest.clone()  # type: ignore[no-untyped-call]
        fresh.add(side)
        self.moved.append(Moved(name, side, newest.nbytes()))

    def written(self, name: str, side: Side) -> None:
        """Mark the other side's copy as stale after ``side`` wrote to a value."""
        node = self._record.by_name.get(name)
        for key in self._own_keys.get(name) or (storage_keys(node) if node else ()):
            if key in self._fresh:
                self._fresh[key] = {side}

    def write_back(self) -> None:
        """Copy what the device wrote to the caller's own tensors back into them."""
        for node in self._record.nodes:
            if not node.is_call and node.name in self._own_keys:
                for key in self._own_keys[node.name]:
                    self._refresh(node.name, key, "cpu")

    def forget(self, names: Iterable[str]) -> None:
        """Drop values that no later segment reads, and storages that no value uses."""
        for name in names:
            if self._values.pop(name, None) is None:
                continue
            for key in self._own_keys.pop(name):
                self._users[key] -= 1
                if not self._users[key]:
                    del self._users[key], self._storages[key], self._fresh[key]


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _on_storage(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    """A tensor on ``storage`` with the sizes, strides, offset and dtype of ``like``."""
    view = torch.empty(0, dtype=like.dtype, device=storage.device)
    view.set_(storage, like.storage_offset(), like.size(), like.stride())
    if like.is_conj():
        view = view.conj()
    return torch._neg_view(view) if like.is_neg() else view
