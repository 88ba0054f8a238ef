"""A node as a candidate computes it: its graph in parts, each compiled so that every value is an output.

The parts run one after the other on the candidate's own values, up to the part with the node. Since every value is
written to memory, the candidate cannot fuse. A backward starts from what the forward saved in eager mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff.executions import Backend, describe
from inductor_debug_jupyter.pipeline.diff.localize import as_compiler
from inductor_debug_jupyter.pipeline.diff.localize_ops import with_attributes
from inductor_debug_jupyter.pipeline.diff.windows import Compiler, Window, window_of, windows
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, NotFoundError
from inductor_debug_jupyter.pipeline.nodes.values import NodeCall, NodeFunction, NodeValues, own_copies
from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value


@dataclass(frozen=True)
class InParts:
    """Computes a node on a candidate's backend; a ``Collector``."""

    backend: Backend

    def __call__(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any], name: str) -> NodeValues:
        """The values of a node; nothing runs after it."""
        assert self.backend.compiler is not None
        node = next(each for each in graph_module.graph.nodes if each.name == name)
        if not isinstance(node_value(node), torch.Tensor) or not node.op.startswith("call_"):
            raise NotFoundError(f"{name} is not one tensor that {self.backend.name} computes: ask for what reads it")
        placeholders = [each.name for each in graph_module.graph.find_nodes(op="placeholder")]
        known: dict[str, Any] = dict(zip(placeholders, args, strict=True))
        args.clear()
        compiler = as_compiler(self.backend.compiler)
        values = self._run_to(node, graph_module, known, compiler)
        call = NodeCall.of(node, graph_module)
        missing = [each.name for each in node.all_input_nodes if each.name not in values]
        if missing:
            raise NotFoundError(f"{name} reads {missing[0]}, which is not one tensor that {self.backend.name} computes")
        inputs = own_copies(call.inputs(values.__getitem__))
        output = own_copies(values[name])
        note = f"computed by {self.backend.name}, with every value of the graph written to memory"
        if stage == "backward":
            note += "; what the forward saved is eager mode's"
        alone = self._alone(node, graph_module, call, compiler)
        function = NodeFunction(name, f"{self.backend.name} {call.what}", call.input_names, alone)
        return NodeValues(inputs, output, function, note=note, outputs={name: output})

    def _run_to(
        self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, known: dict[str, Any], compiler: Compiler
    ) -> dict[str, Any]:
        """The values of the part that contains the node, and that part's inputs."""
        parts: list[Window] = []
        for part in windows(graph_module):
            parts.append(part)
            if node in part.nodes:
                break
        for at, part in enumerate(parts):
            needed = {start.name for later in parts[at + 1 :] for start in later.starts}
            given = with_attributes(graph_module, part, known)
            try:
                values: dict[str, Any] = dict(part.run(graph_module, given, compiler))
            except Exception as error:  # whatever a backend raises
                raise InductorDebugError(
                    f"{self.backend.name} could not run the graph up to {node.name}: {describe(error)}"
                ) from error
            if node in part.nodes:
                return {**given, **values}
            known = {name: value for name, value in {**known, **values}.items() if name in needed}
        raise NotFoundError(f"{node.name} is in no part of the graph that {self.backend.name} could be given")

    def _alone(
        self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, call: NodeCall, compiler: Compiler
    ) -> Callable[[dict[str, Any]], Any]:
        """A function of just this op, compiled by the backend when it is first called."""
        window = window_of([node])
        alone, _ = window.graph_module(graph_module)
        made: list[Callable[..., Any]] = []

        def apply(given: dict[str, Any]) -> Any:
            by_node = call.by_node(given)
            values = [by_node[start.name] for start in window.starts]
            with torch.no_grad():
                if not made:
                    made.append(compiler(alone, values))
                (result,) = made[0](*values)
            return result

        return apply
