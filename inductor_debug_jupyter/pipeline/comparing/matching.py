"""Match the nodes of two programs, in time linear in their nodes and edges.

A program is one or several graphs that are looked at as one list of nodes: a function that a new graph break divides is
two graphs afterwards, and its nodes are still the same. Names do not decide: one more op renumbers all names behind it.

Two nodes are alike by their label, which is strict first (op, shapes, dtypes, arguments), then loose (op and module),
then looser (op). With each label these steps run:

- forward: a node whose inputs are matched is matched with the one that reads the same, at the same positions;
- backward: the inputs of a matched pair are matched when they are alike, from the outputs up;
- anchors: what is unique on both sides by its label and those of its neighbours is matched, and the first two steps run
  again from there;
- at the end the k-th remaining node of an op and module, or alike on one line, is matched with the other side's k-th.

What still remains is a pair again if it stands between the same neighbours: a node that became another op. The others
are gone or new.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import chain

from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord

Label = Callable[[NodeRecord], Hashable]

_NAME = re.compile(r"%?[A-Za-z_]\w*")
_ROUNDS = 3
"""How often the steps are repeated with one label while they find something."""


class Program:
    """The nodes of several graphs as one list; a node is its position in it."""

    def __init__(self, graphs: Sequence[GraphRecord]) -> None:
        self.nodes: list[NodeRecord] = []
        self.graph_of: list[int] = []
        self.inputs: list[tuple[int, ...]] = []
        self.readers: list[list[int]] = []
        for number, graph in enumerate(graphs):
            position = {}
            for node in graph.nodes:
                position[node.name] = index = len(self.nodes)
                self.nodes.append(node)
                self.graph_of.append(number)
                self.inputs.append(tuple(position[name] for name in node.inputs if name in position))
                self.readers.append([])
                for read in set(self.inputs[index]):
                    self.readers[read].append(index)

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True)
class Matching:
    """Which node of one program is which of the other: ``after`` by position before, and ``before`` by position after.

    -1 stands for a node that the other program does not have.
    """

    after: list[int]
    before: list[int]


def strict(node: NodeRecord) -> Hashable:
    """What a node computes: op, arguments, shapes and dtypes."""
    if node.op == "placeholder":
        return node.op, node.role, node.origin or node.name, _specs(node)
    return node.op, node.target, arguments_of(node), _specs(node)


def arguments_of(node: NodeRecord) -> str:
    """The arguments with the names of other nodes blotted out: they change when a node is put in before."""
    names = set(node.inputs)
    return _NAME.sub(lambda match: "·" if match[0].lstrip("%") in names else match[0], node.arguments)


def _specs(node: NodeRecord) -> Hashable:
    return tuple((spec.shape, spec.dtype) for spec in node.outputs)


def _in_module(node: NodeRecord) -> Hashable:
    return node.op, node.origin or node.target if node.op == "placeholder" else node.target, node.module_path


def _by_op(node: NodeRecord) -> Hashable:
    return node.op, node.role if node.op == "placeholder" else node.target


def _on_line(node: NodeRecord) -> Hashable:
    line = node.source or node.cell
    return strict(node), (line.function, line.text.strip()) if line else node.name


_LABELS: tuple[Label, ...] = (strict, _in_module, _by_op)


def match(before: Program, after: Program) -> Matching:
    """Match two programs."""
    matcher = _Matcher(before, after)
    for label in _LABELS:
        matcher.settle(label)
    for label in (_in_module, _on_line):
        matcher.in_order(label)
    matcher.settle(_by_op)
    matcher.replaced()
    return matcher.found


class _Matcher:
    def __init__(self, before: Program, after: Program) -> None:
        self.before = before
        self.after = after
        self.found = Matching([-1] * len(before), [-1] * len(after))

    def pair(self, one: int, other: int) -> None:
        self.found.after[one] = other
        self.found.before[other] = one

    def settle(self, label: Label) -> None:
        """The steps with one label, as long as they find something."""
        ours = [label(node) for node in self.before.nodes]
        theirs = [label(node) for node in self.after.nodes]
        for _ in range(_ROUNDS):
            count = self.found.after.count(-1)
            self._forward(ours, theirs)
            self._backward(ours, theirs)
            self._anchors(ours, theirs)
            if self.found.after.count(-1) == count:
                return

    def _forward(self, ours: list[Hashable], theirs: list[Hashable]) -> None:
        open_after: dict[Hashable, deque[int]] = defaultdict(deque)
        for index, mate in enumerate(self.found.before):
            if mate < 0:
                open_after[theirs[index], self.after.inputs[index]].append(index)
        for index, mate in enumerate(self.found.after):
            if mate >= 0:
                continue
            mapped = tuple(self.found.after[read] for read in self.before.inputs[index])
            if -1 not in mapped and (queue := open_after.get((ours[index], mapped))):
                self.pair(index, queue.popleft())

    def _backward(self, ours: list[Hashable], theirs: list[Hashable]) -> None:
        for index in range(len(self.before) - 1, -1, -1):
            mate = self.found.after[index]
            if mate < 0:
                continue
            reads, other_reads = self.before.inputs[index], self.after.inputs[mate]
            if len(reads) != len(other_reads):
                continue
            for one, other in zip(reads, other_reads, strict=True):
                is_open = self.found.after[one] < 0 and self.found.before[other] < 0
                if is_open and ours[one] == theirs[other]:
                    self.pair(one, other)

    def _anchors(self, ours: list[Hashable], theirs: list[Hashable]) -> None:
        """Match what is unique on both sides among the open nodes, by itself and its neighbours."""
        mine = self._unique(self.before, ours, self.found.after)
        other = self._unique(self.after, theirs, self.found.before)
        for key, index in mine.items():
            if index >= 0 and other.get(key, -1) >= 0:
                self.pair(index, other[key])

    @staticmethod
    def _unique(program: Program, labels: list[Hashable], mates: list[int]) -> dict[Hashable, int]:
        """Neighbourhood → the one open node that has it, or -1 if several do."""
        found: dict[Hashable, int] = {}
        for index, mate in enumerate(mates):
            if mate < 0:
                around = (
                    program.nodes[index].module_path,
                    labels[index],
                    tuple(labels[read] for read in program.inputs[index]),
                    tuple(labels[reader] for reader in program.readers[index]),
                )
                found[around] = -1 if around in found else index
        return found

    def in_order(self, label: Label) -> None:
        """Match the k-th open node of a label with the k-th of the other side."""
        queues: dict[Hashable, deque[int]] = defaultdict(deque)
        for index, mate in enumerate(self.found.before):
            if mate < 0:
                queues[label(self.after.nodes[index])].append(index)
        for index, mate in enumerate(self.found.after):
            if mate < 0 and (queue := queues.get(label(self.before.nodes[index]))):
                self.pair(index, queue.popleft())

    def replaced(self) -> None:
        """Match open calls that stand between the same neighbours: the op was replaced."""
        places: dict[Hashable, deque[int]] = defaultdict(deque)
        for index, mate in enumerate(self.found.before):
            if mate < 0 and self.after.nodes[index].is_call:
                places[self.after.inputs[index], tuple(self.after.readers[index])].append(index)
        for index, mate in enumerate(self.found.after):
            if mate >= 0 or not self.before.nodes[index].is_call:
                continue
            reads = tuple(self.found.after[read] for read in self.before.inputs[index])
            readers = tuple(self.found.after[reader] for reader in self.before.readers[index])
            around = chain(reads, readers)
            if -1 not in around and (queue := places.get((reads, readers))):
                self.pair(index, queue.popleft())
