"""Whose fault a wrong value is, where it is not that of the op that made it.

An op search looks at every value of a part of a graph as an output of that part. Two faults look like another op's:

- A view that is wrong. AOTAutograd makes an output that is a view of an input anew from the input, so the compiled
  view is never seen, only what reads it. The view is compiled once more with a copy behind it, which is no view.
- An op that writes over its input. Its input's value is wrong then, though the op that made it is right by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff.elements import same_values
from inductor_debug_jupyter.pipeline.diff.floors import Spread
from inductor_debug_jupyter.pipeline.diff.judging import judge
from inductor_debug_jupyter.pipeline.diff.replay import Evaluator
from inductor_debug_jupyter.pipeline.diff.windows import Compiler, copy_of, window_of
from inductor_debug_jupyter.pipeline.torch_compat.graphs import is_view, node_value


@dataclass(frozen=True, slots=True)
class Blame:
    """The node that is at fault, and why it is this one."""

    node: torch.fx.Node
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class BlameSearch:
    """Looks behind one wrong value.

    Attributes:
        evaluator: runs nodes eagerly.
        compiler: the candidate.
        known: the candidate's values of the part that the node is in, and what the part started from.
        held_as: the format that the device holds floats in, if it is narrower than the tensors' own.
    """

    evaluator: Evaluator
    compiler: Compiler
    known: Mapping[str, Any]
    held_as: torch.dtype | None = None

    def of(self, node: torch.fx.Node) -> Blame:
        """What is at fault for the value of ``node``, which is wrong on the candidate's own inputs.

        Whatever the candidate raises on such small parts ends the search: the op itself is named then.
        """
        try:
            return self._overwriting(node) or self._wrong_view(node) or Blame(node)
        except Exception as error:  # whatever a backend raises
            return Blame(node, f"what it reads could not be looked into: {type(error).__name__}: {error}")

    def _overwriting(self, node: torch.fx.Node) -> Blame | None:
        """The op behind ``node`` that writes to its value, though by its schema it does not."""
        users = [user for user in node.users if user.name in self.known and not is_view(user)]
        if not users or not all(each.name in self.known for each in node.all_input_nodes):
            return None
        root = self.evaluator.graph_module
        value = window_of([node]).run(root, self._inputs_of(node), self.compiler)[node.name]
        if self._is_wrong(node, value):
            return None
        for user in users:
            inputs = {**self._inputs_of(user), node.name: value.clone()}
            window_of([user]).run(root, inputs, self.compiler)
            if not same_values(value, inputs[node.name]):
                return Blame(user, f"it writes over its input {node.name}")
        return None

    def _wrong_view(self, node: torch.fx.Node) -> Blame | None:
        """The first view on the way to ``node`` that is wrong, if with it ``node`` itself is right."""
        root = self.evaluator.graph_module
        for views in _views_before(node, self.known):
            last = views[-1]
            start = {each.name: self.known[each.name] for each in window_of(views).starts}
            copied = window_of(views).run(root, start, self.compiler, {last}, copied=True)[last.name]
            own = self.evaluator.evaluate(views, start)
            if not self._differs(copied, own):
                continue
            if self._copies_wrongly(last, own) or self._is_wrong(node, self.known[node.name], {last.name: copied}):
                return None
            return Blame(last, "a view that the candidate computes otherwise; what reads it is right")
        return None

    def _inputs_of(self, node: torch.fx.Node) -> dict[str, Any]:
        """Copies of what a node reads."""
        values = {each.name: self.known[each.name] for each in node.all_input_nodes}
        return {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in values.items()}

    def _is_wrong(self, node: torch.fx.Node, value: torch.Tensor, instead: Mapping[str, Any] | None = None) -> bool:
        known = {**self.known, **(instead or {})}
        return self.evaluator.is_wrong(node.name, known, value, self.held_as)

    def _differs(self, value: torch.Tensor, own: torch.Tensor) -> bool:
        """Whether a copy is not what was copied, as far as the device can hold it."""
        if value.shape != own.shape or value.dtype != own.dtype:
            return True
        return judge(value, Spread(own), self.held_as).wrong

    def _copies_wrongly(self, view: torch.fx.Node, own: torch.Tensor) -> bool:
        """Whether the candidate's copy is what is wrong, and not the view before it."""
        graph = torch.fx.Graph()
        value = graph.placeholder(view.name)
        value.meta = dict(view.meta)
        graph.output((copy_of(graph, value),))
        with torch.no_grad():
            (made,) = self.compiler(torch.fx.GraphModule({}, graph), [own])(own)
        return self._differs(made, own)


def _views_before(node: torch.fx.Node, known: Mapping[str, Any]) -> Iterator[list[torch.fx.Node]]:
    """Each view on the way to a node, behind the views that it is taken from."""
    for chain in _chains_of_views(node, known):
        for end, view in enumerate(chain, 1):
            if isinstance(node_value(view), torch.Tensor):  # else several at once: what takes one of them is next
                yield chain[:end]


def _chains_of_views(node: torch.fx.Node, known: Mapping[str, Any]) -> Iterator[list[torch.fx.Node]]:
    """For each view that a node reads: the views before it up to a known value, and itself, in order."""
    for read in node.all_input_nodes:
        chain: list[torch.fx.Node] = []
        while is_view(read) and read.all_input_nodes:
            chain.insert(0, read)
            read = read.all_input_nodes[0]
        if chain and all(each.name in known for each in window_of(chain).starts):
            yield chain
