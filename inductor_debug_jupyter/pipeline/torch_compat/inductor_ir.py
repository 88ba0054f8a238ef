"""Snapshots of Inductor's IR that are cheap to take and rendered on demand.

Turning scheduler nodes into text is most of what a capture would cost, and most captures are never read that far.
So a snapshot is taken instead: shallow copies of the nodes (fusion and code generation replace their attributes, but
change few of them in place) together with the lowering that they belong to, without which they cannot be rendered. The
one thing that code generation does change in place is the loop body of low-precision nodes (it inserts casts): of
those, the body's graph is copied too. Text rendered later is the same, to the letter, as what torch renders at once.

Rendering is half loop bodies. They are the same before and after fusion, so one copy of each serves both snapshots and
is rendered once; and a body's code is read off its graph, where torch builds and compiles a module around it first.
"""

from __future__ import annotations

import copy
import functools
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

_LOW_PRECISION = frozenset({torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2})

_DELETES = re.compile(r";[^\n]*")


class IrSnapshot:
    """Scheduler nodes as they are now."""

    def __init__(self, nodes: Sequence[Any], lowering: Any) -> None:
        self._nodes = nodes
        self._lowering = lowering

    @classmethod
    def of(cls, nodes: Sequence[Any]) -> IrSnapshot:
        """Keep the nodes of the lowering that runs on this thread."""
        from torch._inductor.virtualized import V

        bodies = _bodies.setdefault(V.graph, {})
        return cls([_copied(node, V.graph, bodies) for node in nodes], V.graph)

    def render(self) -> str:
        """The nodes as torch writes them."""
        return self.joined(self.pieces())

    __call__ = render

    def pieces(self) -> Iterator[str]:
        """The text, a node at a time, so that the caller can stop in between."""
        from torch._inductor.virtualized import V

        for node in self._nodes:
            with V.set_graph_handler(self._lowering):
                text = str(node.debug_str())
            yield text

    def joined(self, pieces: Iterable[str]) -> str:
        """The text that the pieces make."""
        return "\n\n\n".join(pieces)


_bodies: weakref.WeakKeyDictionary[Any, dict[int, tuple[Any, Any]]] = weakref.WeakKeyDictionary()
"""Lowering → id of a loop body → the body (so that the id stays its own) and its copy."""


def _copied(node: Any, lowering: Any, bodies: dict[int, tuple[Any, Any]]) -> Any:
    twin = copy.copy(node)
    if hasattr(twin, "snodes"):
        twin.snodes = [_copied(part, lowering, bodies) for part in node.snodes]
    if getattr(node, "outputs", None):
        twin.outputs = [copy.copy(buffer) for buffer in node.outputs]
        for buffer in twin.outputs:
            buffer.users = list(buffer.users)
    body = getattr(node, "_body", None)
    if hasattr(body, "root_block"):
        if id(body) not in bodies:
            bodies[id(body)] = (body, _copied_body(body, with_graphs=_is_low_precision(node, lowering)))
        twin._body = bodies[id(body)][1]
    return twin


def _is_low_precision(node: Any, lowering: Any) -> bool:
    names = {dep.name for dep in node.read_writes.reads_and_writes()}
    return any(lowering.get_dtype(name) in _LOW_PRECISION for name in names)


def _copied_body(body: Any, *, with_graphs: bool) -> Any:
    twin = copy.copy(body)
    twin.root_block = _copied_block(body.root_block, twin, with_graphs)
    twin.subblocks = {name: _copied_block(block, twin, with_graphs) for name, block in body.subblocks.items()}
    twin.debug_str = functools.cache(functools.partial(type(body).debug_str, twin))
    return twin


def _copied_block(block: Any, body: Any, with_graph: bool) -> Any:
    twin = block.clone(body)
    if with_graph:
        twin.graph = torch.fx.Graph()
        twin.graph.output(twin.graph.graph_copy(block.graph, {}))
        for old, new in zip(block.graph.nodes, twin.graph.nodes, strict=True):
            new.name = old.name
    twin.debug_str = functools.partial(_block_text, twin.graph)
    return twin


def _block_text(graph: torch.fx.Graph, name: str = "block") -> str:
    """The code of a loop body under its own name, without what deletes its variables."""
    code = graph.python_code("self").src.strip()
    return _DELETES.sub("", code.replace("def forward(", f"def {name}("))


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
