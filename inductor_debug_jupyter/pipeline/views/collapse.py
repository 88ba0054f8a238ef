"""Thousands of nodes as a few hundred: consecutive nodes of one module become one unit.

Only *consecutive* runs (in execution order) are merged. Edges go forward in that order, so merging runs can never
make a cycle, and one pass over the nodes is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from inductor_debug_jupyter.pipeline.records import NodeRecord


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing to draw: a node, or a run of nodes of the module ``path``."""

    nodes: tuple[NodeRecord, ...]
    path: str = ""


def collapse(calls: tuple[NodeRecord, ...], limit: int) -> list[Unit]:
    """At most ``limit`` units: single nodes, else runs by module path as deep as fits, else even slices."""
    if len(calls) <= limit:
        return [Unit((node,)) for node in calls]
    depth = max(node.module_path.count(".") + 1 for node in calls)
    while depth > 0:
        prefix = _prefix(depth)
        if sum(1 for _ in groupby(calls, prefix)) <= limit:
            return [Unit(tuple(run), path) for path, run in groupby(calls, prefix)]
        depth = min(depth - 1, 8)
    step = -(-len(calls) // limit)
    return [Unit(run := calls[start : start + step], run[0].module_path) for start in range(0, len(calls), step)]


def _prefix(depth: int) -> Callable[[NodeRecord], str]:
    return lambda node: ".".join(node.module_path.split(".")[:depth])
