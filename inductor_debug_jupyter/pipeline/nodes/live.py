"""The graphs of one compile, traced again, and which of their nodes the captured ones are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.nodes.matching import CapturedNode, by_name, by_op, same_dynamo_graph
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord
from inductor_debug_jupyter.pipeline.torch_compat.graphs import origins_by_sequence


def is_inductors(capture: CompileCapture) -> bool:
    """Whether a compile went through Inductor, which has AOTAutograd trace with its own decompositions."""
    return bool(capture.kernels) or not {"post_grad", "ir_pre_fusion", "code"}.isdisjoint(capture.stages)


@dataclass
class LiveGraphs:
    """The graphs that a captured compile gives when its call is traced again.

    Args:
        capture: the compile that was captured.
        way: how they were lowered; see :data:`replay.WAYS`.
    """

    capture: CompileCapture
    way: str
    graphs: dict[str, torch.fx.GraphModule] = field(default_factory=dict)
    """By stage."""
    _records: dict[str, GraphRecord] = field(default_factory=dict)

    def why_not(self, graph_module: torch.fx.GraphModule) -> str:
        """Why a Dynamo graph is not that of the captured compile; empty when it is."""
        return same_dynamo_graph(self.capture, graph_record("dynamo", graph_module))

    def names(self, stage: str, wanted: Sequence[CapturedNode]) -> dict[str, str]:
        """Names in the graph that was traced again → captured names; ambiguous nodes are left out.

        Raises:
            NotFoundError: a node is missing there, or has another op or other tensors.
        """
        if not wanted:
            return {}
        again = self._record(stage)
        if self.way == "aot" and is_inductors(self.capture):
            pairs = {by_op(each.record, each.graph, again): each.record.name for each in wanted}
            return {live: captured for live, captured in pairs.items() if live}
        return {by_name(each.record, again): each.record.name for each in wanted}

    def _record(self, stage: str) -> GraphRecord:
        if stage not in self._records:
            origins: dict[int, tuple[str, ...]] = {}
            for graph_module in self.graphs.values():
                for number, names in origins_by_sequence(graph_module).items():
                    origins.setdefault(number, names)
            self._records[stage] = graph_record(stage, self.graphs[stage], origins=origins)
        return self._records[stage]
