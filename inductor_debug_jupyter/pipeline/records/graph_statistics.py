"""Counts of one graph, derived from its record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inductor_debug_jupyter.pipeline.records.graph import GraphRecord, NodeRecord, TensorSpec


@dataclass(frozen=True, slots=True)
class GraphStatistics:
    """Counts of ops and dtypes, and bytes, of one graph. Bytes are None when a size is symbolic.

    ``parameter_bytes`` counts parameters and buffers that the graph reads, ``input_bytes`` its other inputs,
    ``saved_bytes`` what a backward takes over from its forward, and ``activation_bytes`` all memory that the graph's
    ops make (views make none).
    """

    nodes: int
    calls: int
    ops: dict[str, int] = field(default_factory=dict)
    dtypes: dict[str, int] = field(default_factory=dict)
    parameter_bytes: int | None = 0
    input_bytes: int | None = 0
    saved_bytes: int | None = 0
    activation_bytes: int | None = 0


def graph_statistics(graph: GraphRecord) -> GraphStatistics:
    """Count ops, dtypes and bytes."""
    inputs: dict[str, list[TensorSpec]] = {"parameter": [], "saved": [], "input": []}
    made: list[TensorSpec] = []
    taken: set[int] = set()
    for node in graph.nodes:
        if node.op in {"placeholder", "get_attr"}:
            inputs[_kind_of_input(node)] += node.outputs
        elif node.is_call:
            made += [spec for spec in node.outputs if spec.storage not in taken or spec.storage < 0]
        taken.update(spec.storage for spec in node.outputs)
    return GraphStatistics(
        nodes=len(graph.nodes),
        calls=len(graph.calls),
        ops=dict(Counter(node.target for node in graph.calls).most_common()),
        dtypes=dict(Counter(spec.dtype for node in graph.calls for spec in node.outputs).most_common()),
        parameter_bytes=_bytes(inputs["parameter"]),
        input_bytes=_bytes(inputs["input"]),
        saved_bytes=_bytes(inputs["saved"]),
        activation_bytes=_bytes(made),
    )


def _kind_of_input(node: NodeRecord) -> str:
    if node.op == "get_attr" or node.role in {"parameter", "buffer"}:
        return "parameter"
    return "saved" if node.role == "saved" else "input"


def _bytes(specs: Iterable[TensorSpec]) -> int | None:
    total = 0
    for spec in specs:
        size = spec.storage_bytes if spec.storage_bytes is not None else spec.nbytes
        if size is None:
            return None
        total += size
    return total
