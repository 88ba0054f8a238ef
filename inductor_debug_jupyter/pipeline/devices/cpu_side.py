"""Ops that the user chose for the CPU, although the target might have them.

The target is never given such an op, so its rules do not judge it, and the ledger of fallbacks names it. The target
reads the op's results again, so the rules still judge the ops around it.
"""

from __future__ import annotations

from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.devices.ops import functional_name
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord

MEANT = "it is meant for the CPU"
"""The reason in the ledger."""


def op_name(node: NodeRecord) -> str:
    """The op as AOTAutograd first saw it, by its bare name: ``gelu`` also where the graph has its parts."""
    return functional_name(node.composite or node.target)


@dataclass(frozen=True)
class CpuChoice:
    """The ops and nodes that the user chose for the CPU.

    Args:
        ops: every call of these ops, by their bare names.
        nodes: only these nodes: compile id, stage and name. A part of a decomposed op takes the whole op along.
    """

    ops: frozenset[str] = frozenset()
    nodes: frozenset[tuple[str, str, str]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.ops or self.nodes)

    def names(self, graph: GraphRecord, compile_id: str) -> frozenset[str]:
        """The chosen nodes of a graph, each with the other parts of its decomposed op."""
        if not self:
            return frozenset()
        chosen = [
            node
            for node in graph.calls
            if op_name(node) in self.ops or (compile_id, graph.stage, node.name) in self.nodes
        ]
        calls = {(node.composite, node.call) for node in chosen if node.composite}
        whole = (node.name for node in graph.calls if node.composite and (node.composite, node.call) in calls)
        return frozenset([*(node.name for node in chosen), *whole])
