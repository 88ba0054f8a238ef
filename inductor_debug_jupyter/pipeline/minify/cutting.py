"""Cut a set of nodes out of a graph: values that they read from other nodes become inputs.

The graph is run once, op by op, and a copy of each op's result is kept, so that later writes in place do not change it;
if a value was written to before a node reads it, also a copy of what that node read. A tuple's ``getitem`` stays with
the op that makes the tuple. Numbers become constants of the graph.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.repro.values import copy_of
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copied_graph, module_around

_NUMBERS = (bool, int, float, complex, str, torch.dtype, torch.device, torch.Size)


class _Recording(torch.fx.Interpreter):
    """Runs a graph and keeps a copy of every value, and the name of the node that raised.

    ``seen_by`` has the values that were written to before a node read them: (reader, value) → a copy.
    """

    def __init__(self, gm: torch.fx.GraphModule, *, gradients: bool) -> None:
        super().__init__(gm, garbage_collect_values=False)
        self.extra_traceback = False
        self.gradients = gradients
        self.values: dict[str, Any] = {}
        self.seen_by: dict[tuple[str, str], Any] = {}
        self.raised_at: str | None = None
        self._versions: dict[str, int | None] = {}

    def run_node(self, node: torch.fx.Node) -> Any:
        for operand in node.all_input_nodes:
            value = self.env.get(operand)
            if _version(value) != self._versions.get(operand.name):
                self.seen_by[node.name, operand.name] = _copies(value, gradients=self.gradients)
        try:
            value = super().run_node(node)
        except Exception:
            self.raised_at = node.name
            raise
        if node.op != "output":
            self.values[node.name] = _copies(value, gradients=self.gradients)
            self._versions[node.name] = _version(value)
        return value


def _version(value: Any) -> int | None:
    """How often a tensor was written to; None for anything else, and for inference tensors."""
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else None


def _copies(value: Any, *, gradients: bool) -> Any:
    """Copies that are leaves; with ``gradients`` they require one where the value did."""
    if isinstance(value, torch.Tensor):
        if value.is_leaf or not value.requires_grad:
            return copy_of(value)
        return copy_of(value.detach()).requires_grad_(gradients)
    if type(value) in (tuple, list):
        return type(value)(_copies(part, gradients=gradients) for part in value)
    return value


class GraphCutter:
    """Makes graphs of subsets of one graph's nodes.

    Args:
        gm: the whole graph; it is only read.
        inputs: its inputs.
        hoist_attributes: whether the module's attributes become inputs, too.
        gradients: whether new inputs require a gradient where their value did.
        open_sizes: whether whole numbers that a node computes become inputs, too, instead of constants.
    """

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        *,
        hoist_attributes: bool,
        gradients: bool = False,
        open_sizes: bool = False,
    ) -> None:
        self.gm = gm
        self._open_sizes = open_sizes
        self.hoist_attributes = hoist_attributes
        placeholders = gm.graph.find_nodes(op="placeholder")
        if len(placeholders) != len(inputs):
            raise UsageError(f"the graph takes {len(placeholders)} inputs, {len(inputs)} were given")
        recording = _Recording(gm, gradients=gradients)
        try:
            with torch.random.fork_rng(), torch.set_grad_enabled(gradients or torch.is_grad_enabled()):
                recording.run(*map(copy_of, inputs))
        except Exception:  # the failure that is to be reduced
            if recording.raised_at is None:
                raise
        self.values = recording.values
        self._seen_by = recording.seen_by
        self.values.update(zip((node.name for node in placeholders), inputs, strict=True))
        self.raised_at = recording.raised_at
        self.candidates: list[str] = [
            node.name
            for node in gm.graph.nodes
            if node.op.startswith("call_") and not self._takes_item(node)
            if node.name in self.values or node.name == self.raised_at  # those behind it have no value
        ]

    def cut(self, kept: Iterable[str]) -> tuple[torch.fx.GraphModule, list[Any]]:
        """The graph of these nodes, and its inputs."""
        graph = copied_graph(self.gm)
        keep = set(kept)
        self._keep_tuple_items(graph, keep)
        was_output = {node.name for out in graph.find_nodes(op="output") for node in out.all_input_nodes}
        for out in graph.find_nodes(op="output"):
            graph.erase_node(out)
        hoisted = self._hoist(graph, keep)
        for node in reversed(list(graph.nodes)):
            if node.name in keep or node.name in hoisted.values() or node.users:
                continue
            graph.erase_node(node)
        results = [node for node in graph.nodes if node.name in keep and (not node.users or node.name in was_output)]
        graph.output(tuple(part for node in results for part in self._tensors_of(graph, node)))
        names = {new: old for old, new in hoisted.items()}
        inputs = [self._value_of(node, names.get(node.name, node.name)) for node in graph.find_nodes(op="placeholder")]
        graph.lint()
        return module_around(graph, self.gm), inputs

    def without_ops(self) -> tuple[torch.fx.GraphModule, list[Any]]:
        """The graph that returns its inputs and computes nothing."""
        graph = torch.fx.Graph()
        inputs = [copy_of(self.values[node.name]) for node in self.gm.graph.find_nodes(op="placeholder")]
        graph.output(tuple(graph.placeholder(f"input_{number}") for number in range(len(inputs))))
        return torch.fx.GraphModule(torch.nn.Module(), graph), inputs

    def path(self, first: str, last: str) -> list[str]:
        """The nodes that can be kept on a shortest path of data between two of them; empty when there is none."""
        readers = {node.name: [user.name for user in node.users] for node in self.gm.graph.nodes}
        kept = set(self.candidates)
        return [name for name in shortest_path(readers, first, last) if name in kept]

    def _value_of(self, placeholder: torch.fx.Node, name: str) -> Any:
        """An input's value as its first reader read it, since a write before that may have been cut off."""
        first = next((node.name for node in placeholder.graph.nodes if node in placeholder.users), "")
        return copy_of(self._seen_by.get((first, name), self.values[name]))

    def _keep_tuple_items(self, graph: torch.fx.Graph, keep: set[str]) -> None:
        for node in graph.nodes:
            if self._takes_item(node) and node.all_input_nodes[0].name in keep:
                keep.add(node.name)

    def _takes_item(self, node: torch.fx.Node) -> bool:
        """Whether a node takes an item of a tuple; indexing a tensor is an op."""
        if node.op != "call_function" or node.target is not operator.getitem:
            return False
        source = node.args[0]
        return isinstance(source, torch.fx.Node) and type(self.values.get(source.name)) in (tuple, list)

    def _hoist(self, graph: torch.fx.Graph, keep: set[str]) -> dict[str, str]:
        """Replace every operand that is not kept by a placeholder or a number; old name → placeholder."""
        hoisted: dict[str, str] = {}
        first = next(iter(graph.nodes))
        for node in list(graph.nodes):
            readers = [user for user in node.users if user.name in keep]
            if node.name in keep or node.op == "placeholder" or not readers:
                continue
            value = self.values.get(node.name)
            if node.op == "get_attr" and not (self.hoist_attributes and isinstance(value, torch.Tensor)):
                keep.add(node.name)
            elif self._is_constant(value):
                _replace_by_number(node, value, readers)
            else:
                with graph.inserting_before(first):
                    hoisted[node.name] = _replace_by_input(graph, node, readers)
        return hoisted

    def _is_constant(self, value: Any) -> bool:
        """Whether a value goes into the arguments of its readers instead of becoming an input."""
        return value is None or (isinstance(value, _NUMBERS) and not (self._open_sizes and type(value) is int))

    def _tensors_of(self, graph: torch.fx.Graph, node: torch.fx.Node) -> list[torch.fx.Node]:
        """The tensors of a node to return: itself, or the items of a tuple that no node reads."""
        value = self.values.get(node.name)
        if not isinstance(value, (tuple, list)):
            return [node]
        if node.users:
            return []
        places = [place for place, part in enumerate(value) if isinstance(part, torch.Tensor)]
        return [graph.call_function(operator.getitem, (node, place)) for place in places]


def shortest_path(readers: Mapping[str, Sequence[str]], first: str, last: str) -> list[str]:
    """The nodes of a shortest path of data from one node to another, both included; empty when there is none."""
    came_from: dict[str, str] = {first: ""}
    pending = deque([first])
    while pending and last not in came_from:
        name = pending.popleft()
        for reader in readers.get(name, ()):
            if reader not in came_from:
                came_from[reader] = name
                pending.append(reader)
    if last not in came_from:
        return []
    found = [last]
    while came_from[found[-1]]:
        found.append(came_from[found[-1]])
    return found[::-1]


def _replace_by_number(old: torch.fx.Node, value: Any, readers: Iterable[torch.fx.Node]) -> None:
    number = tuple(value) if isinstance(value, torch.Size) else value
    for reader in readers:
        reader.args = torch.fx.map_arg(reader.args, lambda node: number if node is old else node)
        reader.kwargs = torch.fx.map_arg(reader.kwargs, lambda node: number if node is old else node)


def _replace_by_input(graph: torch.fx.Graph, old: torch.fx.Node, readers: Iterable[torch.fx.Node]) -> str:
    """Have the readers of a node read a new placeholder; returns its name."""
    new = graph.placeholder(f"{old.name}_value")
    new.meta = {key: old.meta[key] for key in ("val", "example_value", "tensor_meta") if key in old.meta}
    for reader in readers:
        reader.replace_input_with(old, new)
    return new.name
