"""How much memory a graph needs.

Liveness over storages: views share one, so they cost nothing; a storage is alive from the node that makes it to the
last one that reads it. Inputs and parameters are alive throughout (they belong to the caller), and so is what the
graph returns.
"""

from __future__ import annotations

from collections.abc import Iterator

from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord

DEFAULT_LIMIT = 16 * 1024**3


def size_text(size: int) -> str:
    """``17179869184`` → ``16 GiB``."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit always answers")


def peak_memory(graph: GraphRecord) -> int | None:
    """The most bytes alive at once while the graph runs, or None when a size is symbolic."""
    peak = _peak(graph)
    return None if peak is None else peak[0]


def _peak(graph: GraphRecord) -> tuple[int, NodeRecord] | None:
    sizes: dict[int, int] = {}
    last_use: dict[int, int] = {}
    first: dict[int, int] = {}
    storages_of: dict[str, set[int]] = {}
    end = len(graph.nodes)
    for position, node in enumerate(graph.nodes):
        mine = set()
        for spec in node.outputs:
            if spec.storage < 0:
                continue
            size = spec.storage_bytes if spec.storage_bytes is not None else spec.nbytes
            if size is None:
                return None
            sizes[spec.storage] = max(sizes.get(spec.storage, 0), size)
            first.setdefault(spec.storage, position)
            mine.add(spec.storage)
        storages_of[node.name] = mine
        for name in node.inputs:
            for storage in storages_of.get(name, ()):
                last_use[storage] = max(last_use.get(storage, 0), end if node.op == "output" else position)
        if node.op in {"placeholder", "get_attr"}:
            last_use.update(dict.fromkeys(mine, end))
    return _highest(graph, sizes, first, last_use)


def _highest(
    graph: GraphRecord, sizes: dict[int, int], first: dict[int, int], last_use: dict[int, int]
) -> tuple[int, NodeRecord] | None:
    if not graph.nodes:
        return None
    change = [0] * (len(graph.nodes) + 2)
    for storage, size in sizes.items():
        change[first[storage]] += size
        change[last_use.get(storage, first[storage]) + 1] -= size
    alive = peak = 0
    where = graph.nodes[0]
    for position, node in enumerate(graph.nodes):
        alive += change[position]
        if alive > peak:
            peak, where = alive, node
    return peak, where


class MemoryConstraint(Constraint):
    """No tensor, and not the peak of a graph, may need more than ``max_memory_bytes``."""

    rule_id = "memory.limit"

    def __init__(self, max_memory_bytes: int = DEFAULT_LIMIT) -> None:
        if not isinstance(max_memory_bytes, int) or isinstance(max_memory_bytes, bool) or max_memory_bytes < 1:
            raise OptionError(
                f"max_memory_bytes: {max_memory_bytes!r} is not allowed; allowed: a whole number of bytes from 1 up"
            )
        self.max_memory_bytes = max_memory_bytes

    def check(self, graph: GraphRecord) -> Iterator[Problem]:
        """Each tensor that is too large, and the peak."""
        limit = size_text(self.max_memory_bytes)
        for node in graph.nodes:
            for spec in node.outputs:
                if (size := spec.nbytes) is not None and size > self.max_memory_bytes:
                    yield Problem(
                        node.name,
                        f"a tensor of {size_text(size)} is over the limit of {limit}",
                        observed=f"{spec}: {size_text(size)}",
                        allowed=f"at most {limit} a tensor",
                        explanation="One tensor alone does not fit into the target's memory.",
                        hints=("use a smaller batch or sequence, a narrower dtype, or split the tensor",),
                        evidence=f"any(t.nbytes > {self.max_memory_bytes} for t in tensors)",
                    )
        peak = _peak(graph)
        if peak is not None and peak[0] > self.max_memory_bytes:
            yield Problem(
                peak[1].name,
                f"the {graph.stage} graph needs {size_text(peak[0])} at its peak, over the limit of {limit}",
                observed=size_text(peak[0]),
                allowed=f"at most {limit} at once",
                explanation="Parameters, inputs and all that is alive at this node do not fit at once.",
                hints=("use a smaller batch, checkpoint activations, or free tensors earlier",),
                evidence=f"alive() > {self.max_memory_bytes}",
            )
