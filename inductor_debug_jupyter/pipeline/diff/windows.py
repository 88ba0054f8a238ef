"""Parts of a graph as graphs of their own, whose every value is an output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.torch_compat.graphs import mutated_inputs, node_value, target_name

BUDGET: Final = 256 << 20
"""Bytes of values that one part may have."""
MOST_NODES: Final = 400

Compiler = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Some nodes of a graph, in order, and the nodes outside whose values they start from."""

    nodes: tuple[torch.fx.Node, ...]
    starts: tuple[torch.fx.Node, ...]

    @property
    def op(self) -> torch.fx.Node:
        """Its first node that computes."""
        return next((node for node in self.nodes if node.op != "get_attr"), self.nodes[0])

    def around(self, chosen: Callable[[torch.fx.Node], bool]) -> list[Window]:
        """The same nodes in order, in parts: each op that is chosen is one by itself. Itself when there is no other."""
        runs: list[list[torch.fx.Node]] = []
        before_alone = True
        for group in _groups(self.nodes):
            alone = any(map(chosen, group))
            if alone or before_alone:
                runs.append([])
            runs[-1] += group
            before_alone = alone
        return [self] if len(runs) == 1 else [window_of(run) for run in runs]

    def smaller(self, op: str = "") -> list[Window]:
        """Parts of it, in order: around its first node that calls ``op``, else halves; itself when it has one op."""
        groups = _groups(self.nodes)
        if len(groups) == 1:
            return [self]
        first = next((node for node in self.nodes if op and target_name(node) == op), None)
        if first is not None:
            return self.around(lambda node: node is first)
        cuts = groups[: len(groups) // 2], groups[len(groups) // 2 :]
        return [window_of([node for group in cut for node in group]) for cut in cuts]

    def graph_module(
        self, root: torch.fx.GraphModule, outputs: Collection[torch.fx.Node] | None = None, *, copied: bool = False
    ) -> tuple[torch.fx.GraphModule, tuple[torch.fx.Node, ...]]:
        """The graph of it, and which nodes its outputs are: all that are tensors, unless it is said which.

        With ``copied`` the outputs are copies, made in the graph: no output is a view of an input then.
        """
        graph = torch.fx.Graph()
        copies: dict[torch.fx.Node, torch.fx.Node] = {}
        for start in self.starts:
            copies[start] = graph.placeholder(start.name)
            copies[start].meta = dict(start.meta)
        for node in self.nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            copies[node].meta = dict(node.meta)
        given = tuple(node for node in self.nodes if isinstance(node_value(node), torch.Tensor))
        given = given if outputs is None else tuple(node for node in given if node in outputs)
        if copied:
            copies |= {node: copy_of(graph, copies[node]) for node in given}
        graph.output(tuple(copies[node] for node in given))
        return torch.fx.GraphModule(root, graph), given

    def run(
        self,
        root: torch.fx.GraphModule,
        known: Mapping[str, Any],
        compiler: Compiler,
        outputs: Collection[torch.fx.Node] | None = None,
        *,
        copied: bool = False,
    ) -> dict[str, torch.Tensor]:
        """Compile it and run it once from known values; its outputs by node."""
        graph_module, given = self.graph_module(root, outputs, copied=copied)
        inputs = [known[start.name] for start in self.starts]
        with torch.no_grad():
            made = compiler(graph_module, inputs)(*inputs)
        return {node.name: value for node, value in zip(given, made, strict=True) if isinstance(value, torch.Tensor)}


def copy_of(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node:
    """A new node that copies the value of one."""
    made = graph.call_function(torch.ops.aten.clone.default, (node,))
    made.meta = dict(node.meta)
    return made


def window_of(nodes: Sequence[torch.fx.Node]) -> Window:
    """These nodes, and what they start from."""
    inside = set(nodes)
    starts = dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in inside)
    return Window(tuple(nodes), tuple(starts))


def windows(graph_module: torch.fx.GraphModule, budget: float = BUDGET, most: int = MOST_NODES) -> Iterator[Window]:
    """A graph's computing nodes in parts whose values fit the budget; results of one op stay together."""
    part: list[torch.fx.Node] = []
    size = 0
    for node in graph_module.graph.nodes:
        if node.op in {"placeholder", "output"} or (not node.users and mutated_inputs(node)):
            continue
        full = size > budget or len(part) >= most
        if full and part and not _takes_a_result(node):
            yield window_of(part)
            part, size = [], 0
        part.append(node)
        fake = node_value(node)
        if isinstance(fake, torch.Tensor) and all(isinstance(each, int) for each in fake.shape):
            size += fake.numel() * fake.element_size()
    if part:
        yield window_of(part)


def _groups(nodes: Sequence[torch.fx.Node]) -> list[list[torch.fx.Node]]:
    """Nodes that cannot be parted: an op, the constants before it, and what takes one of its results."""
    groups: list[list[torch.fx.Node]] = []
    waiting: list[torch.fx.Node] = []
    for node in nodes:
        if node.op == "get_attr":
            waiting.append(node)
            continue
        producers = node.all_input_nodes[:1] if _takes_a_result(node) else []
        home = next((at for at, group in enumerate(groups) if producers and producers[0] in group), len(groups))
        groups[home:] = [[each for group in groups[home:] for each in group] + [*waiting, node]]
        waiting = []
    if waiting:
        groups[-1:] = [[*(groups[-1] if groups else []), *waiting]]
    return groups


def _takes_a_result(node: torch.fx.Node) -> bool:
    """Whether a node picks one of several results."""
    return getattr(node.target, "__name__", "") == "getitem"
