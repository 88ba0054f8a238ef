"""Estimated memory of a graph while it runs, and the tensors alive at the peak."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records.graph import SourceLine
from inductor_debug_jupyter.pipeline.records.in_words import InWords


@dataclass(frozen=True, slots=True)
class LiveTensor:
    """One piece of memory that is alive at the peak, named by the node that made it.

    ``role`` is that of a placeholder (``parameter``, ``input``, ``saved``, …) and empty for what the graph computes.
    """

    node: str
    bytes: int
    spec: str = ""
    role: str = ""
    origin: str = ""
    module_path: str = ""
    source: SourceLine | None = None
    cell: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class MemoryRecord(InWords):
    """Memory over time for one graph.

    ``timeline`` has the bytes alive while each node runs, in the order of the graph's nodes. ``alive`` are the tensors
    at the peak, largest first. ``assumed`` has the sizes that stand for symbolic ones: the figures hold for these.
    """

    compile_id: str
    stage: str
    peak: int
    peak_node: str
    timeline: tuple[int, ...]
    alive: tuple[LiveTensor, ...]
    inputs: int = 0
    assumed: dict[str, int] | None = None
