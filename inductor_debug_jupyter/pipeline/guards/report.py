"""The report of one inspection: graphs with their guards, graph breaks and recompiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records import GraphBreak, Guard, Note, Recompile, SessionRecord, SourceLine
from inductor_debug_jupyter.pipeline.torch_compat.guard_checks import LiveGuards
from inductor_debug_jupyter.pipeline.views.guards import guards_data, guards_text


@dataclass(frozen=True)
class InspectedGraph:
    """One compiled graph with its guards. ``source`` is the first line of its function."""

    compile_id: str
    name: str
    op_count: int
    guards: tuple[Guard, ...] = ()
    source: SourceLine | None = None


@dataclass(frozen=True)
class GuardReport(Harmless):
    """Everything that one inspection recorded.

    ``record`` has the form of a session's record, so that views and the store take it; ``inputs`` describes the
    arguments; ``live`` are torch's own guards, which ``would_recompile`` evaluates.
    """

    record: SessionRecord
    inputs: str
    live: tuple[LiveGuards, ...] = field(default=(), repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name of the inspected callable."""
        return self.record.name

    @cached_property
    def graphs(self) -> tuple[InspectedGraph, ...]:
        """The compiled graphs, in order."""
        graphs = []
        for capture in self.record.captures:
            dynamo = capture.graph("dynamo")
            guards = tuple(guard for guard in self.record.guards if guard.compile_id == capture.compile_id)
            ops = len(dynamo.calls) if dynamo else 0
            graphs.append(InspectedGraph(capture.compile_id, capture.name, ops, guards, capture.source))
        return tuple(graphs)

    @property
    def graph_count(self) -> int:
        """How many graphs were compiled; 0 means that nothing was compiled, not that all is well."""
        return len(self.record.captures)

    @property
    def graph_breaks(self) -> tuple[GraphBreak, ...]:
        """Distinct graph breaks."""
        return self.record.graph_breaks

    @property
    def break_count(self) -> int:
        """How many distinct graph breaks there are."""
        return len(self.record.graph_breaks)

    @property
    def recompiles(self) -> tuple[Recompile, ...]:
        """Recompiles, in order."""
        return self.record.recompiles

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards of all graphs, and of functions that had guards but no ops."""
        return self.record.guards

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on the inspection itself, such as a hook that failed."""
        return self.record.notes

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        data = guards_data(self.record)
        with_graph = {graph.compile_id for graph in self.graphs}
        return {
            "name": self.name,
            "inputs": self.inputs,
            "graph_count": self.graph_count,
            "break_count": self.break_count,
            "guard_count": len(self.guards),
            "graphs": [
                {
                    **msgspec.to_builtins(graph),
                    "guards": [{**msgspec.to_builtins(guard), "value": guard.value} for guard in graph.guards],
                }
                for graph in self.graphs
            ],
            "graph_breaks": data["graph_breaks"],
            "recompiles": data["recompiles"],
            "storms": data["storms"],
            "timeline": data["timeline"],
            "dynamic_shapes": data["dynamic_shapes"],
            "guards_without_graph": msgspec.to_builtins(
                [guard for guard in self.guards if guard.compile_id not in with_graph]
            ),
            "notes": [str(note) for note in self.notes],
        }

    def text(self, max_guards: int | None = 10) -> str:
        """Readable text with at most so many guards of each graph (None for all)."""
        return guards_text(self.record, limit=max_guards)

    def __str__(self) -> str:
        return self.text()
