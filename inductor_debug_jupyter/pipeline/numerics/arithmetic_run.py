"""A model's graph, run op by op in a device's arithmetic.

The graph is AOTAutograd's of one real call, so an op has one name in the budget, in the prescription and in the panel.
A model of several graphs (graph breaks) has one :class:`ModelGraph`, of its largest graph that leads to an output.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.elements import same_values
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.formats.arithmetic import OPERANDS, Arithmetic
from inductor_debug_jupyter.pipeline.formats.places import nodes_at
from inductor_debug_jupyter.pipeline.torch_compat.graphs import is_aten
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper, KeptGraph
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import bare_op, rounds_nothing
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors


@dataclass(frozen=True, slots=True, eq=False)
class ModelGraph:
    """A graph, the inputs of a real call, and which of its outputs are which outputs of the model.

    Attributes:
        kept: the graph with its inputs.
        outputs: path of a floating-point output of the model → its position among the graph's outputs.
        notes: what of the model is not in the graph.
        precise: nodes that the device computes in float32, whatever the others are computed in.
    """

    kept: KeptGraph
    outputs: dict[str, int]
    notes: tuple[str, ...] = ()
    precise: frozenset[str] = frozenset()

    @classmethod
    def of(cls, call: Call, precise: Collection[str] = ()) -> ModelGraph:
        """The graph of a call, which runs once; ``precise`` are the places of ops that the device has in float32.

        Raises:
            UsageError: the model raised, or no graph of it gives one of its outputs.
        """
        keeper = AotKeeper()
        with torch.no_grad():
            execution = call.execute(Backend("aot", keeper), ComparisonConfig())
        if execution.error:
            raise UsageError(f"the model raised {execution.error}")
        found = [cls(kept, _outputs_of(kept, execution.values)) for kept in keeper.graphs if kept.args is not None]
        with_outputs = [each for each in found if each.outputs]
        if not with_outputs:
            raise UsageError("no graph of this model gives one of its outputs as it is")
        largest = max(with_outputs, key=lambda each: len(each.kept.graph_module.graph.nodes))
        notes = (f"{len(found) - 1} other graphs of the model are not in it",) if len(found) > 1 else ()
        kept = {node.name for node in nodes_at(largest.kept.graph_module.graph, precise)} if precise else ()
        return cls(largest.kept, largest.outputs, notes, frozenset(kept))

    def run(
        self,
        arithmetic: Arithmetic,
        exactly: Collection[str] = (),
        *,
        products_round: bool = False,
        other: tuple[Arithmetic, Collection[str]] | None = None,
    ) -> list[Any]:
        """The graph's outputs in that arithmetic.

        Args:
            arithmetic: of the ops.
            exactly: nodes that are computed as in eager mode; what reads them reads them unrounded.
            products_round: products round them nevertheless.
            other: another arithmetic, and the nodes that are computed in it.
        """
        with torch.no_grad():
            interpreter = _InArithmetic(
                self.kept.graph_module, arithmetic, self.precise.union(exactly), products_round, other
            )
            return list(interpreter.run(*map(copied, self.kept.args or ())))

    def run_with_error(self, node: torch.fx.Node, errors: list[torch.Tensor]) -> list[Any]:
        """The graph's outputs, exact but for errors that are added to the floating-point results of one node."""
        with torch.no_grad():
            interpreter = _WithOneError(self.kept.graph_module, node, errors)
            return list(interpreter.run(*map(copied, self.kept.args or ())))


def _outputs_of(kept: KeptGraph, values: Mapping[str, Any]) -> dict[str, int]:
    """The floating-point outputs of the model that a graph gives as they are, and at which position."""
    with torch.no_grad():
        made = list(kept.graph_module(*map(copied, kept.args or ())))
    tensors = {path: value for path, value in values.items() if isinstance(value, torch.Tensor)}
    return {
        path: at
        for path, value in tensors.items()
        if value.is_floating_point()
        for at, each in enumerate(made)
        if isinstance(each, torch.Tensor) and each.shape == value.shape and same_values(each, value)
    }


class _WithOneError(torch.fx.Interpreter):
    def __init__(self, graph_module: torch.fx.GraphModule, node: torch.fx.Node, errors: list[torch.Tensor]) -> None:
        super().__init__(graph_module)
        self._node = node
        self._added = errors

    def run_node(self, n: torch.fx.Node) -> Any:
        """One node, and the errors where it is the one."""
        value = super().run_node(n)
        if n is not self._node:
            return value
        errors = iter(self._added)
        return map_tensors(lambda each: each + next(errors).to(each.dtype) if each.is_floating_point() else each, value)


class _InArithmetic(torch.fx.Interpreter):
    def __init__(
        self,
        graph_module: torch.fx.GraphModule,
        arithmetic: Arithmetic,
        exactly: Collection[str],
        products_round: bool,
        other: tuple[Arithmetic, Collection[str]] | None,
    ) -> None:
        super().__init__(graph_module)
        self._arithmetic = arithmetic
        self._other = dict.fromkeys(other[1], other[0]) if other is not None else {}
        self._products_round = products_round
        self._exactly = frozenset(exactly)
        self._exact_nodes: set[torch.fx.Node] = set()

    def run_node(self, n: torch.fx.Node) -> Any:
        """One node, as the device computes it unless it is to be exact."""
        if not rounds(n) or n.name in self._exactly:
            value = super().run_node(n)
            if n.name in self._exactly or (self._exact_nodes and self._exact_nodes.issuperset(n.all_input_nodes)):
                self._exact_nodes.add(n)
            return value
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        rounds_all = self._products_round and bare_op(n.target) in OPERANDS
        exact = {id(self.env[each]) for each in n.all_input_nodes if each in self._exact_nodes and not rounds_all}
        return self._other.get(n.name, self._arithmetic).compute(
            n.target, args, kwargs, lambda value: id(value) in exact
        )


def rounds(node: torch.fx.Node) -> bool:
    """Whether a node is an ATen op that rounds."""
    return node.op == "call_function" and is_aten(node.target) and not rounds_nothing(node.target, node.args)


def copied(value: Any) -> Any:
    """A copy of a tensor, without its history; anything else as it is."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
