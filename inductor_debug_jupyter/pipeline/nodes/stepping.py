"""Run a graph up to some of its nodes, and let go of every value after its last use.

Only what the wanted nodes are computed from is run, and what draws random numbers or writes somewhere before them:
those must happen in their order, or later values were others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch.fx.node import map_arg

from inductor_debug_jupyter.pipeline.nodes.values import NodeValues, OpCall, own_copies
from inductor_debug_jupyter.pipeline.torch_compat.graphs import drops_nothing, mutated_inputs, node_value, tensors_of


def nodes_to_run(
    graph_module: torch.fx.GraphModule, wanted: Collection[str], *, everything: bool = False
) -> list[torch.fx.Node]:
    """The nodes to run, in order, so that the wanted ones have their values.

    With ``everything``, all that stands before them, as a Dynamo graph needs it: its nodes write into each other and
    change the state of torch (``with torch.autocast``). What ends such a state after the wanted nodes is run too.
    """
    order = list(graph_module.graph.nodes)
    last = max(at for at, node in enumerate(order) if node.name in wanted)
    before = order[: last + 1]
    if everything:
        states = {node for node in before if _is_of_state(node)}
        after = [node for node in order[last + 1 :] if _is_of_state(node) and states.issuperset(node.all_input_nodes)]
        return [*before, *after]
    needed: set[torch.fx.Node] = set()
    waiting = [node for node in before if node.name in wanted or _acts(node)]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting.extend(node.all_input_nodes)
    return [node for node in before if node in needed]


def _acts(node: torch.fx.Node) -> bool:
    """Whether a node does something beside its result."""
    effects = set(mutated_inputs(node))
    return bool(effects - {"<rng>"} if drops_nothing(node) else effects)


def _is_of_state(node: torch.fx.Node) -> bool:
    """Whether a node may be there for the state of torch: it calls something that makes no tensor."""
    return node.op == "call_function" and not tensors_of(node_value(node))


class Stepper:
    """One graph, run node by node.

    Args:
        graph_module: the graph.
        args: its arguments; the list is emptied, so that what is not needed can go.
        wanted: nodes whose inputs and output are kept.
    """

    def __init__(self, graph_module: torch.fx.GraphModule, args: list[Any], wanted: Collection[str]) -> None:
        self.found: dict[str, NodeValues] = {}
        self._module = graph_module
        self._interpreter = torch.fx.Interpreter(graph_module)
        self._wanted = frozenset(wanted)
        placeholders = graph_module.graph.find_nodes(op="placeholder")
        self._args = {node.name: value for node, value in zip(placeholders, args, strict=True)}
        args.clear()

    def reach(self, *, everything: bool = False) -> None:
        """Run as far as the wanted nodes."""
        self._run(nodes_to_run(self._module, self._wanted, everything=everything))

    def finish(self) -> Any:
        """Run all of it; what the graph returns."""
        return self._run(list(self._module.graph.nodes))

    def _run(self, nodes: Sequence[torch.fx.Node]) -> Any:
        uses = Counter(each for node in nodes for each in node.all_input_nodes)
        needed = {node.name for node in nodes}
        self._args = {name: value for name, value in self._args.items() if name in needed}
        values: dict[torch.fx.Node, Any] = {}
        result: Any = None
        for node in nodes:
            if node.op == "output":
                result = map_arg(node.args[0], values.__getitem__)
                break
            values[node] = self._value(node, values.__getitem__)
            for each in node.all_input_nodes:
                uses[each] -= 1
            for each in {node, *node.all_input_nodes}:
                if uses[each] <= 0:
                    values.pop(each, None)
        return result

    def _value(self, node: torch.fx.Node, look_up: Callable[[torch.fx.Node], Any]) -> Any:
        wanted = node.name in self._wanted
        if node.op == "placeholder":
            value = self._args.pop(node.name)
            if wanted:
                own = own_copies(value)
                self.found[node.name] = NodeValues({}, own, None, outputs={node.name: own})
            return value
        args, kwargs = map_arg((node.args, node.kwargs), look_up)
        call, inputs = None, {}
        if wanted and node.op != "get_attr":
            call = OpCall.of(node, self._module)
            nodes = {each.name: each for each in node.all_input_nodes}
            inputs = own_copies(call.inputs(lambda name: look_up(nodes[name])))  # before: the op may write into them
        value = getattr(self._interpreter, node.op)(node.target, args, kwargs)
        if wanted:
            function = None if call is None else call.function()
            output = own_copies(value)
            self.found[node.name] = NodeValues(inputs, output, function, outputs={node.name: output})
        return value
