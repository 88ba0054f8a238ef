"""What a graph writes in place, and how the rewriting keeps every such write.

A padded value is a tensor *and* what is known of it (which sizes it stands for, whether its padding is zero). A write
in place changes the tensor and all views of it, but not what is known. So a written memory is either

- **made anew**: if no view of another shape is read after the write (``relu_`` of a ``batch_norm``). The op without
  underscore is computed instead, and every node of the memory gets its result; or
- **kept exact**: in all other cases (``x[:, 0] = 1``, a write into an input). The memory is never padded and laid out
  as in the original; views of it and writes into it run unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.torch_compat.aten_tracing import aten_name
from inductor_debug_jupyter.pipeline.torch_compat.graphs import mutated_inputs, node_value, storage_of, tensors_of

_STATISTICS = {"batch_norm": (3, 4), "instance_norm": (3, 4)}
"""Ops that write running statistics (at these positions) if their sixth argument is true; no schema shows it."""


class Mutations:
    """The writes of one graph of ATen ops whose nodes have fake values."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self._order = {node: at for at, node in enumerate(graph.nodes)}
        self._inputs = graph.find_nodes(op="placeholder")
        by_name = {node.name: node for node in graph.nodes}
        self._nodes: dict[int, list[torch.fx.Node]] = {}
        self._writes: dict[int, list[torch.fx.Node]] = {}
        for node in graph.nodes:
            for storage in _storages(node):
                self._nodes.setdefault(storage, []).append(node)
            for storage in _written_storages(node, by_name):
                self._writes.setdefault(storage, []).append(node)
        self._exact = {storage for storage in self._writes if not self._is_made_anew(storage)}

    def is_exact(self, node: torch.fx.Node) -> bool:
        """Whether the memory of a node's value must be as in the original."""
        return not self._exact.isdisjoint(_storages(node))

    def writes(self, node: torch.fx.Node) -> bool:
        """Whether a node writes into one of its operands."""
        return any(node in writers for writers in self._writes.values())

    def names_of(self, node: torch.fx.Node) -> list[torch.fx.Node]:
        """The nodes of the same memory, shape and strides: all of them see what a node wrote."""
        geometry = _geometry(node)
        return [
            each
            for storage in _storages(node)
            for each in self._nodes[storage]
            if _geometry(each) == geometry is not None
        ]

    @property
    def written_inputs(self) -> list[int]:
        """Numbers of the inputs that the graph writes into, in place or as running statistics."""
        kept = {  # running statistics
            user.args[at]
            for node in self._inputs
            for user in node.users
            for at in _STATISTICS.get(aten_name(user.target), ())
            if user.args[5] is True
        }
        return [
            number
            for number, node in enumerate(self._inputs)
            if node in kept or not self._writes.keys().isdisjoint(_storages(node))
        ]

    def _is_made_anew(self, storage: int) -> bool:
        nodes, writers = self._nodes[storage], self._writes[storage]
        if any(node.op != "call_function" for node in nodes):
            return False
        for writer in writers:
            if functional(writer.target) is None or _geometry(writer) != _geometry(writer.args[0]):
                return False
            now, geometry = self._order[writer], _geometry(writer)
            for node in nodes:
                is_older_view = self._order[node] < now and _geometry(node) != geometry
                if is_older_view and any(self._order[user] > now for user in node.users):
                    return False
        return True


def functional(target: Any) -> Any:
    """``aten.relu_.default`` → ``aten.relu.default``; None for an op that writes into any operand but its first."""
    name = aten_name(target)
    if not name.endswith("_") or not hasattr(torch.ops.aten, name[:-1]):
        return None
    if torch.Tag.nondeterministic_seeded in target.tags and name != "dropout_":
        return None  # which numbers are drawn depends on the memory that they are written into
    first, *rest = target._schema.arguments
    found = getattr(getattr(torch.ops.aten, name[:-1]), target._overloadname, None)
    if found is None or not _is_written(first) or any(map(_is_written, rest)):
        return None
    alike = [each.name for each in found._schema.arguments[1:]] == [each.name for each in rest]
    return found if alike else None


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def _geometry(node: Any) -> tuple[Any, ...] | None:
    """Shape, strides, offset and dtype of a node's only tensor; None when it has several or none."""
    value = node_value(node) if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return None
    return tuple(value.shape), value.stride(), value.storage_offset(), value.dtype


def _written_storages(node: torch.fx.Node, by_name: Mapping[str, torch.fx.Node]) -> Iterator[int]:
    for name in mutated_inputs(node) if node.op == "call_function" else ():
        if name in by_name:
            yield from _storages(by_name[name])


def _storages(node: torch.fx.Node) -> set[int]:
    return {storage for each in tensors_of(node_value(node)) if (storage := storage_of(each)[0]) != -1}
