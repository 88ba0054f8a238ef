"""Memory of a graph while it runs, the tensors alive at the peak, and the eager run that they are taken from."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records.graph import SourceLine
from inductor_debug_jupyter.pipeline.records.in_words import InWords


@dataclass(frozen=True, slots=True)
class EagerStorage:
    """One storage of an eager run: the Dynamo node that made it, and the first and the last step that it was alive."""

    node: str
    bytes: int
    first: int
    last: int
    spec: str = ""


@dataclass(frozen=True, slots=True)
class EagerRun:
    """What is alive while the program runs eagerly, without data.

    ``steps`` has the Dynamo node and the op of each step, a gradient's with the node of its forward; the first step is
    the beginning, and the first ``forward`` are the forward's. ``failed`` says why the program could not be run so.
    """

    steps: tuple[tuple[str, str], ...] = ()
    storages: tuple[EagerStorage, ...] = ()
    forward: int = 0
    failed: str = ""


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
