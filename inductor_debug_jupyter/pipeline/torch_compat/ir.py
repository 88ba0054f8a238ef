"""Inductor's IR, kept cheaply and rendered when somebody looks.

Turning scheduler nodes into text is most of what a capture would cost, and most captures are never looked at that far.
So a snapshot is taken instead: shallow copies of the nodes (fusion and code generation replace their attributes, but
change few of them in place) together with the lowering that they belong to, without which they cannot be rendered. The
one thing that code generation does change in place is the loop body of low-precision nodes (it inserts casts): of
those, the body's graph is copied too. Text rendered later is the same, to the letter, as text rendered at once.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

_LOW_PRECISION = frozenset({torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2})


class IrSnapshot:
    """Scheduler nodes as they are now."""

    def __init__(self, nodes: Sequence[Any], lowering: Any) -> None:
        self._nodes = nodes
        self._lowering = lowering

    @classmethod
    def of(cls, nodes: Sequence[Any]) -> IrSnapshot:
        """Keep the nodes of the lowering that runs on this thread."""
        from torch._inductor.virtualized import V

        return cls([_copied(node, V.graph) for node in nodes], V.graph)

    def render(self) -> str:
        """The nodes as torch writes them."""
        from torch._inductor.virtualized import V

        with V.set_graph_handler(self._lowering):
            return "\n\n\n".join(str(node.debug_str()) for node in self._nodes)


def _copied(node: Any, lowering: Any) -> Any:
    twin = copy.copy(node)
    if hasattr(twin, "snodes"):
        twin.snodes = [_copied(part, lowering) for part in node.snodes]
    if getattr(node, "outputs", None):
        twin.outputs = [_copied_buffer(buffer) for buffer in node.outputs]
    if getattr(node, "_body", None) is not None and _is_low_precision(node, lowering):
        twin._body = _copied_body(node._body)
    return twin


def _copied_buffer(buffer: Any) -> Any:
    twin = copy.copy(buffer)
    twin.users = list(buffer.users)
    return twin


def _is_low_precision(node: Any, lowering: Any) -> bool:
    names = {dep.name for dep in node.read_writes.reads_and_writes()}
    return any(lowering.get_dtype(name) in _LOW_PRECISION for name in names)


def _copied_body(body: Any) -> Any:
    twin = copy.copy(body)
    twin.root_block = _copied_block(body.root_block, twin)
    twin.subblocks = {name: _copied_block(block, twin) for name, block in body.subblocks.items()}
    return twin


def _copied_block(block: Any, body: Any) -> Any:
    twin = block.clone(body)
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(block.graph, {}))
    for old, new in zip(block.graph.nodes, graph.nodes, strict=True):
        new.name = old.name
    twin.graph = graph
    return twin


def fused_nodes(schedule: Any) -> tuple[str, ...]:
    """Names of the post-grad nodes behind an extern kernel (one IR node) or a fused one (a list of scheduler nodes)."""
    if not isinstance(schedule, list | tuple):
        if schedule.origin_node is not None:
            return (str(schedule.origin_node.name),)
        return tuple(sorted(str(origin.name) for origin in schedule.origins))
    found: dict[str, None] = {}
    for scheduled in schedule:
        node = getattr(scheduled, "node", None)  # markers between the nodes of a reduction have none
        found.update({str(origin.name): None for origin in getattr(node, "origins", ())})
    return tuple(found)
