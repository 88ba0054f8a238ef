"""Run a graph up to one of its nodes; every value is freed after its last use.

Only the nodes that the wanted one depends on run, and earlier nodes that draw random numbers or write in place: their
order decides later values. With checkpoints (a :class:`GraphRun`), nodes whose values are kept from an earlier run of
the same graph do not run again.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx.node import map_arg

from inductor_debug_jupyter.pipeline.nodes.checkpoints import GraphRun, storages
from inductor_debug_jupyter.pipeline.nodes.values import NodeCall, NodeValues, own_copies
from inductor_debug_jupyter.pipeline.rerun.copies import clone_inputs
from inductor_debug_jupyter.pipeline.torch_compat.graphs import (
    has_zero_dropout,
    is_aten,
    mutated_inputs,
    node_value,
    tensors_of,
)


class ReachedError(Exception):
    """Stops a call: all wanted values are known."""


def as_it_is(graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
    """Run a whole graph; arguments are freed after their last use."""
    return torch.fx.Interpreter(graph_module).boxed_run(args)


def nodes_to_run(graph_module: torch.fx.GraphModule, wanted: str, *, everything: bool) -> list[torch.fx.Node]:
    """The nodes to run, in order, so that the wanted one has its value.

    With ``everything``, all nodes before it, for a Dynamo graph: its nodes write in place and change the state of
    torch (``with torch.autocast``). Nodes behind the wanted one that end such a state run, too.
    """
    order = list(graph_module.graph.nodes)
    last = next(at for at, node in enumerate(order) if node.name == wanted)
    before = order[: last + 1]
    if everything:
        states = {node for node in before if _is_of_state(node)}
        after = [node for node in order[last + 1 :] if _is_of_state(node) and states.issuperset(node.all_input_nodes)]
        return [*before, *after]
    acting = [node for node in before if node is order[last] or _writes(node) or _draws(node)]
    needed = _with_all_before(acting, lambda node: node.all_input_nodes)
    return [node for node in before if node in needed]


def _with_all_before(
    nodes: Iterable[torch.fx.Node], before: Callable[[torch.fx.Node], Iterable[torch.fx.Node]]
) -> set[torch.fx.Node]:
    """These nodes, those that ``before`` names for each of them, and so on."""
    needed: set[torch.fx.Node] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting.extend(before(node))
    return needed


def resumable(graph_module: torch.fx.GraphModule, wanted: str) -> bool:
    """Whether every value up to the wanted node can be computed again at any time.

    It can if no node writes in place, and random numbers come from the CPU's generator, whose state is kept.
    """
    for node in graph_module.graph.nodes:
        devices = {tensor.device.type for tensor in tensors_of(node_value(node))}
        if _writes(node) or (_draws(node) and devices != {"cpu"}):
            return False
        if node.name == wanted:
            break
    return True


def nodes_to_resume(
    graph_module: torch.fx.GraphModule, wanted: str, known: Collection[str], run: GraphRun
) -> list[torch.fx.Node]:
    """The nodes to run, in order, so that the wanted one has its value, if those of ``known`` have theirs."""
    order = list(graph_module.graph.nodes)
    draws = [node for node in order if _draws(node)]
    draw_before = dict(zip(draws[1:], draws, strict=False))

    def before(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
        yield from (each for each in node.all_input_nodes if each.name not in known)
        if node in draw_before and run.state(node.name) is None:
            yield draw_before[node]  # leaves the generator in the state that this node needs

    needed = _with_all_before((node for node in order if node.name == wanted), before)
    return [node for node in order if node in needed]


def _draws(node: torch.fx.Node) -> bool:
    return "<rng>" in mutated_inputs(node) and not has_zero_dropout(node)


def _writes(node: torch.fx.Node) -> bool:
    return bool(set(mutated_inputs(node)) - {"<rng>"})


def _is_of_state(node: torch.fx.Node) -> bool:
    """Whether a node may change the state of torch: it calls a function that makes no tensor."""
    return node.op == "call_function" and not tensors_of(node_value(node))


class Stepper:
    """One graph, run node by node.

    Args:
        graph_module: the graph.
        args: its arguments; the list is emptied, so that arguments can be freed.
        wanted: the node whose inputs and output are kept.
        borrowed: whether the arguments are the user's: they are copied if a node may write into them.
    """

    def __init__(
        self, graph_module: torch.fx.GraphModule, args: list[Any], wanted: str, *, borrowed: bool = False
    ) -> None:
        self._found: NodeValues | None = None
        self._module = graph_module
        self._interpreter = torch.fx.Interpreter(graph_module)
        self._wanted = wanted
        self._borrowed = borrowed
        placeholders = graph_module.graph.find_nodes(op="placeholder")
        self._args = {node.name: value for node, value in zip(placeholders, args, strict=True)}
        args.clear()

    def reach(self, *, everything: bool = False) -> NodeValues:
        """Run up to the wanted node; returns its values."""
        return self._run(nodes_to_run(self._module, self._wanted, everything=everything))

    def resume(self, run: GraphRun) -> NodeValues:
        """Run to the wanted node from the values kept in ``run``, and keep more of them.

        The graph must be :func:`resumable`, and the generator in its state at the beginning of ``run``.
        """
        known = run.known()
        nodes = nodes_to_resume(self._module, self._wanted, known, run)
        read = {each for node in nodes for each in node.all_input_nodes}.difference(nodes)
        run.used(each.name for each in read)
        keeper = _Keeper(self._module, run, known, self._args)
        return self._run(nodes, {each: known[each.name] for each in read}, keeper)

    def _run(
        self,
        nodes: Sequence[torch.fx.Node],
        known: Mapping[torch.fx.Node, Any] | None = None,
        keeper: _Keeper | None = None,
    ) -> NodeValues:
        uses = Counter(each for node in nodes for each in node.all_input_nodes)
        needed = {node.name for node in nodes}
        self._args = {name: value for name, value in self._args.items() if name in needed}
        if self._borrowed and any(map(_may_write, nodes)):
            self._args = clone_inputs(self._args)
        values: dict[torch.fx.Node, Any] = dict(known or {})
        for node in nodes:
            if keeper is not None:
                keeper.before(node, values)
            values[node] = self._value(node, values.__getitem__)
            uses.subtract(node.all_input_nodes)
            _free_unused(node, uses, values)
        assert self._found is not None, "the wanted node is one of those to run"
        return self._found

    def _value(self, node: torch.fx.Node, look_up: Callable[[torch.fx.Node], Any]) -> Any:
        wanted = node.name == self._wanted
        if node.op == "placeholder":
            value = self._args.pop(node.name)
            if wanted:
                own = own_copies(value)
                self._found = NodeValues({}, own, None, outputs={node.name: own})
            return value
        args, kwargs = map_arg((node.args, node.kwargs), look_up)
        call, inputs = None, {}
        if wanted and node.op != "get_attr":
            call = NodeCall.of(node, self._module)
            nodes = {each.name: each for each in node.all_input_nodes}
            inputs = own_copies(call.inputs(lambda name: look_up(nodes[name])))  # before: the op may write into them
        value = getattr(self._interpreter, node.op)(node.target, args, kwargs)
        if wanted:
            function = None if call is None else call.function()
            output = own_copies(value)
            self._found = NodeValues(inputs, output, function, outputs={node.name: output})
        return value


def _free_unused(node: torch.fx.Node, uses: Mapping[torch.fx.Node, int], values: dict[torch.fx.Node, Any]) -> None:
    for each in (node, *node.all_input_nodes):
        if uses[each] <= 0:
            values.pop(each, None)


def _may_write(node: torch.fx.Node) -> bool:
    """Whether a node may write into its operands: only ATen ops declare that they do not."""
    if not node.op.startswith("call_") or node.target is operator.getitem:
        return False
    return _writes(node) or not is_aten(node.target)


class _Keeper:
    """Makes checkpoints while a graph runs.

    Args:
        graph_module: the graph.
        run: keeps them.
        known: the values that it keeps already.
        args: the graph's arguments.
    """

    def __init__(
        self, graph_module: torch.fx.GraphModule, run: GraphRun, known: Mapping[str, Any], args: Mapping[str, Any]
    ) -> None:
        order = list(graph_module.graph.nodes)
        self._at = {node: at for at, node in enumerate(order)}
        self._apart = max(1, math.isqrt(len(order)))
        self._run = run
        self._known = set(known)
        self._arguments = storages(list(args.values())).keys()
        self._place = 0

    def before(self, node: torch.fx.Node, values: Mapping[torch.fx.Node, Any]) -> None:
        """Make a checkpoint of ``values`` if one is due before this node; set the generator's state for its draw."""
        place = self._at[node] // self._apart
        if place > self._place:
            self._place = place
            kept = {each.name: value for each, value in values.items() if self._is_worth_keeping(each, value)}
            if kept and self._run.keep(place, kept):
                self._known |= kept.keys()
        if _draws(node):
            state = self._run.state(node.name)
            if state is None:  # the generator has the state that the draw before left, or that at the beginning
                self._run.keep_state(node.name)
            else:
                torch.set_rng_state(state)

    def _is_worth_keeping(self, node: torch.fx.Node, value: Any) -> bool:
        if node.op in {"placeholder", "get_attr"} or node.name in self._known:
            return False
        return all(key >= 0 and key not in self._arguments for key in storages(value))
