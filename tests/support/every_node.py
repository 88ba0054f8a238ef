"""All values of a graph, from one run of the kept call that was traced for it, by torch's own interpreter."""

from __future__ import annotations

from typing import Any

import torch

from inductor_debug_jupyter import DebugSession
from inductor_debug_jupyter.pipeline.nodes.matching import CapturedNode
from inductor_debug_jupyter.pipeline.nodes.reexecution import Reexecution
from inductor_debug_jupyter.pipeline.nodes.values import NodeCall, NodeValues, own_copies


class _Every(torch.fx.Interpreter):
    def __init__(self, graph_module: torch.fx.GraphModule) -> None:
        super().__init__(graph_module, garbage_collect_values=False)
        self.found: dict[str, NodeValues] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        call, inputs = None, {}
        if n.op.startswith("call_"):
            call = NodeCall.of(n, self.module)
            values = {each.name: self.env[each] for each in n.all_input_nodes}
            inputs = own_copies(call.inputs(values.__getitem__))  # before: the op may write into them
        value = super().run_node(n)
        if n.op != "output":
            self.found[n.name] = NodeValues(inputs, own_copies(value), None if call is None else call.function())
        return value


def every_node(session: DebugSession, last: CapturedNode, gradients: Any = None) -> dict[str, NodeValues]:
    """The values of all nodes of the graph of ``last``."""
    found: dict[str, NodeValues] = {}

    def collect(stage: str, graph_module: torch.fx.GraphModule, args: list[Any], wanted: str) -> NodeValues:
        every = _Every(graph_module)
        with torch.set_grad_enabled(stage == "dynamo" and torch.is_grad_enabled()):
            every.run(*args)
        found.update(every.found)
        return found[wanted]

    Reexecution(session._calls.needed(), gradients, collect).values(last)
    return found
