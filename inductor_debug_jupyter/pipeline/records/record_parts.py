"""The parts of a session's record as attributes, for whatever holds one: a session, or the report of an inspection."""

from __future__ import annotations

from typing import Protocol

from inductor_debug_jupyter.pipeline.records.compile import GraphBreak, Note, Recompile, SessionRecord
from inductor_debug_jupyter.pipeline.records.findings import Violation
from inductor_debug_jupyter.pipeline.records.guards import Guard
from inductor_debug_jupyter.pipeline.records.memory import MemoryRecord
from inductor_debug_jupyter.pipeline.records.placement import CoverageRecord
from inductor_debug_jupyter.pipeline.records.transfers import KernelSpec, Transfer


class _HasRecord(Protocol):
    @property
    def record(self) -> SessionRecord: ...


class RecordParts:
    """Reads what was captured and found from ``record``."""

    __slots__ = ()

    @property
    def findings(self: _HasRecord) -> tuple[Violation, ...]:
        """What the target refuses, worst first."""
        return self.record.findings

    @property
    def graph_breaks(self: _HasRecord) -> tuple[GraphBreak, ...]:
        """Distinct graph breaks."""
        return self.record.graph_breaks

    @property
    def recompiles(self: _HasRecord) -> tuple[Recompile, ...]:
        """Recompiles, in order."""
        return self.record.recompiles

    @property
    def guards(self: _HasRecord) -> tuple[Guard, ...]:
        """What must hold for the compiled graphs to be used again, also of functions that had guards but no ops."""
        return self.record.guards

    @property
    def notes(self: _HasRecord) -> tuple[Note, ...]:
        """What to know about the capture itself, such as a hook that failed."""
        return self.record.notes

    @property
    def transfers(self: _HasRecord) -> tuple[Transfer, ...]:
        """What adapters sent to their device and got back, in order."""
        return self.record.transfers

    @property
    def kernel_specs(self: _HasRecord) -> tuple[KernelSpec, ...]:
        """The kernels that adapters made, each with its spec."""
        return self.record.kernel_specs

    @property
    def peak_memory(self: _HasRecord) -> int | None:
        """The most bytes alive at once in any captured graph; None when a size is symbolic."""
        return self.record.peak_memory

    @property
    def coverage(self: _HasRecord) -> CoverageRecord | None:
        """Every op on the target: supported, decomposable, falling back or refused, with segments and transfers."""
        return self.record.coverage

    @property
    def memory(self: _HasRecord) -> tuple[MemoryRecord, ...]:
        """Memory over time of each captured AOT graph, with the tensors that are alive at its peak."""
        return self.record.memory
