"""Searches in one large graph by a test alone, without a compiler: what the strategy finds, and what each answer costs.

The graph is the ATen graph of a BERT of twelve layers. A failure needs one op, two that need not be joined, or two of
which the second reads what the first made; or the test never fails, always, or one time in three. ``fx_minifier`` gets
the same graph and the same tests.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from inductor_debug_jupyter.benchmarks.printing import print_table
from inductor_debug_jupyter.pipeline.errors import FlakyFailureError, UsageError
from inductor_debug_jupyter.pipeline.minify import Minifier
from tests.proofs.fault_cases import MODELS
from tests.proofs.fault_peers import aten_graphs, reduced_by_fx_minifier

MOST_EVALUATIONS = 72
"""Of two ops that fail only together."""
_COLUMNS = ("What fails", "Ours", "Evaluations", "fx_minifier", "Its evaluations", "Right")
Fails = Callable[[GraphModule], bool]


@dataclass(frozen=True)
class Search:
    """One test of a graph.

    Args:
        name: for the table.
        fails: the test.
        most_ops: so many ops may be left.
        most_evaluations: so many tests it may take.
        answer: what must be said where there is nothing to reduce.
    """

    name: str
    fails: Fails
    most_ops: int = 1
    most_evaluations: int = 2000
    answer: str = ""


def large_graph() -> tuple[GraphModule, list[Any]]:
    """The graph, with its inputs."""
    torch.manual_seed(0)
    ((graph, inputs),) = aten_graphs(MODELS["bert-12l"]())
    for number, node in enumerate(_calls(graph)):
        node.meta["number"] = number
    return graph, inputs


def _calls(graph: GraphModule) -> list[Node]:
    return [node for node in graph.graph.nodes if node.op == "call_function"]


def _numbers(graph: GraphModule) -> set[int]:
    """Which of the whole graph's ops are left; a tool may have renamed them, or made inputs of them."""
    return {node.meta["number"] for node in _calls(graph) if "number" in node.meta}


def both(*needed: Node) -> Fails:
    """Fails with these ops in the graph, joined or not."""
    numbers = {node.meta["number"] for node in needed}
    return lambda graph: numbers <= _numbers(graph)


def joined(first: Node, last: Node) -> Fails:
    """Fails when the last op reads, over others or not, what the first made."""
    start, end = first.meta["number"], last.meta["number"]

    def fails(graph: GraphModule) -> bool:
        reached: set[Node] = set()
        for node in _calls(graph):
            number = node.meta.get("number")
            if number == start or reached & set(node.all_input_nodes):
                reached.add(node)
            if number == end and node in reached:
                return True
        return False

    return fails


def by_hand(first: Node, last: Node) -> int:
    """How many ops the shortest path between two has, both included: fewer cannot join them."""
    pending, steps = deque([first]), {first: 1}
    while pending and last not in steps:
        node = pending.popleft()
        for user in node.users:
            if user.op == "call_function" and user not in steps:
                steps[user] = steps[node] + 1
                pending.append(user)
    return steps[last]


def searches(graph: GraphModule) -> list[Search]:
    """The tests."""
    gelu = [node for node in _calls(graph) if node.target is torch.ops.aten.gelu.default]
    products = [node for node in _calls(graph) if node.target is torch.ops.aten.addmm.default]
    chance = random.Random(1)
    return [
        Search("one op", both(gelu[7]), 1, 15),
        Search("two ops, far apart", both(gelu[2], products[60]), 2, MOST_EVALUATIONS),
        Search("two ops, side by side", both(gelu[5], products[33]), 2, MOST_EVALUATIONS),
        Search("three ops", both(gelu[1], products[40], gelu[10]), 3, 3 * MOST_EVALUATIONS),
        Search("two ops, joined, a layer apart", joined(gelu[4], gelu[5]), by_hand(gelu[4], gelu[5]) + 1),
        Search("two ops, joined, four layers apart", joined(gelu[2], gelu[6]), by_hand(gelu[2], gelu[6]) + 1),
        Search("nothing", lambda _: False, answer="the whole graph does not fail"),
        Search("everything", lambda _: True, answer="every graph fails"),
        Search("one time in three, at random", lambda _: chance.random() < 1 / 3, answer="comes and goes"),
    ]


def run_searches() -> list[str]:
    """Print the table; what is not right."""
    graph, inputs = large_graph()
    rows, problems = [], []
    for search in searches(graph):
        ours, evaluations, wrong = _ours(search, graph, inputs)
        theirs, their_evaluations = _theirs(search, graph, inputs)
        if not search.answer and not wrong and evaluations > their_evaluations:
            wrong.append(f"fx_minifier takes {their_evaluations} evaluations, ours {evaluations}")
        problems += [f"{search.name}: {each}" for each in wrong]
        right = "✗" if wrong else "✓"
        rows.append((search.name, ours, str(evaluations), theirs, str(their_evaluations), right))
    nodes = f"A graph of {len(graph.graph.nodes)} nodes, {len(_calls(graph))} of them ops: what fails"
    print_table((nodes, *_COLUMNS[1:]), rows, right=(_COLUMNS[2], _COLUMNS[4]))
    return problems


def _ours(search: Search, graph: GraphModule, inputs: Sequence[Any]) -> tuple[str, int, list[str]]:
    """Our answer, the tests that it took, and what is not right."""
    asked = 0

    def fails(candidate: GraphModule, _: Sequence[Any]) -> bool:
        nonlocal asked
        asked += 1
        return search.fails(candidate)

    try:
        found = Minifier(graph, inputs, fails=fails).minify()
    except (UsageError, FlakyFailureError) as error:
        said = str(error)
        wrong = [] if search.answer and search.answer in said else [f"it is said: {said}"]
        return f"no repro: {search.answer if not wrong else said[:60]}", asked, wrong
    problems = []
    if search.answer:
        problems.append(f"a repro of {found.ops} ops, though there is none")
    elif found.ops > search.most_ops or found.evaluations > search.most_evaluations:
        problems.append(f"{found.ops} ops after {found.evaluations} evaluations, not {search.most_ops}")
    return f"{found.ops} ops", found.evaluations, problems


def _theirs(search: Search, graph: GraphModule, inputs: Sequence[Any]) -> tuple[str, int]:
    asked = 0

    def fails(candidate: GraphModule, _: Sequence[Any]) -> bool:
        nonlocal asked
        asked += 1
        return search.fails(candidate)

    with torch.no_grad():
        answer, _ = reduced_by_fx_minifier(graph, inputs, fails)
    return answer, asked
