"""Where the ops of a captured graph would run: on the target, or on the CPU, and what moves between the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from inductor_debug_jupyter.pipeline.records.findings import Place
from inductor_debug_jupyter.pipeline.records.in_words import InWords

OpStatus = Literal["supported", "decomposable", "fallback", "refused"]
OP_STATUSES: tuple[OpStatus, ...] = ("supported", "decomposable", "fallback", "refused")
"""The target has the op; it has the ops of its decomposition; the CPU runs it; not even the CPU may."""
ON_TARGET: tuple[OpStatus, ...] = ("supported", "decomposable")
"""The statuses of ops that the target runs, as they are or in parts."""

Side = Literal["device", "cpu"]


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op of a graph: how often it is called, its status and why.

    ``op`` is the op as AOTAutograd first saw it (``gelu``), also where the captured graph was lowered further;
    ``count`` is the number of nodes. ``parts`` are the ops that the target runs instead. ``places`` has one entry for
    each of the user's lines and modules.
    """

    op: str
    status: OpStatus
    count: int
    reason: str = ""
    parts: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes that run one after the other on one side, in the order in which they run."""

    index: int
    side: Side
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedTransfer:
    """One piece of memory that has to move before a segment can run.

    ``kind`` is ``border`` (made by one segment, read by another), ``input`` (the caller gave it), ``resident`` (a
    parameter or buffer: loaded once, not at every call), ``output`` (the caller wants it) or ``written`` (an input
    that was written to on the device). ``value`` is the node that is read; views of one tensor move together.
    ``bytes`` is None when a size is symbolic, ``seconds`` when the profile has no cost of transfers.
    """

    value: str
    to: Side
    kind: str
    segment: int
    spec: str = ""
    bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Fallback:
    """One entry of the ledger: an op that leaves the target, why, how often, where, and the bytes that it costs."""

    op: str
    reason: str
    count: int
    bytes_moved: int | None
    places: tuple[Place, ...] = ()
    status: OpStatus = "fallback"


@dataclass(frozen=True, slots=True)
class GraphCoverage:
    """One graph on one target: every op, the segments, the transfers and the ledger."""

    compile_id: str
    stage: str
    nodes: int
    rows: tuple[OpRow, ...]
    segments: tuple[Segment, ...] = ()
    transfers: tuple[PlannedTransfer, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    narrowed: tuple[tuple[str, str, int], ...] = ()
    """Dtypes that the target keeps in another format: from, to, number of tensors."""

    def count(self, status: str) -> int:
        """The number of nodes of one status."""
        return sum(row.count for row in self.rows if row.status == status)

    def moved(self, *kinds: str) -> int | None:
        """Bytes that move in transfers of those kinds (all of them when none is named); None when one is symbolic."""
        sizes = [each.bytes for each in self.transfers if not kinds or each.kind in kinds]
        return None if None in sizes else sum(size or 0 for size in sizes)


@dataclass(frozen=True, slots=True)
class CoverageRecord(InWords):
    """The coverage of all captured graphs on one target."""

    target: str
    graphs: tuple[GraphCoverage, ...] = ()

    @property
    def nodes(self) -> int:
        """The number of nodes of all graphs."""
        return sum(graph.nodes for graph in self.graphs)

    def count(self, *statuses: str) -> int:
        """The number of nodes of these statuses, over all graphs."""
        return sum(graph.count(status) for graph in self.graphs for status in statuses)

    def moved(self, *kinds: str) -> int | None:
        """:meth:`GraphCoverage.moved`, over all graphs."""
        sizes = [graph.moved(*kinds) for graph in self.graphs]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The ledgers of all graphs, one after the other."""
        return tuple(entry for graph in self.graphs for entry in graph.fallbacks)

    def graph(self, compile_id: str, stage: str) -> GraphCoverage | None:
        """The coverage of one graph."""
        return next((g for g in self.graphs if (g.compile_id, g.stage) == (compile_id, stage)), None)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.count(status):,} {status}" for status in OP_STATUSES)
        return f"{self.nodes:,} ops on {self.target}: {counts}"
