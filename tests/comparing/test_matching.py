"""Nodes of two programs are matched by what they compute and where they stand, not by their names."""

from __future__ import annotations

import pytest

from inductor_debug_jupyter.pipeline.comparing.matching import Program, match
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, TensorSpec


def graph(ops: list[str], batch: int = 8, modules: bool = True) -> GraphRecord:
    """A chain of ops from one input, in blocks of ten; every third also reads the op three before it."""
    spec = (TensorSpec((batch, 64), "float32", itemsize=4),)
    nodes = [NodeRecord("x", "placeholder", "x", outputs=spec, role="input")]
    for number, op in enumerate(ops):
        inputs = [nodes[-1].name] + ([nodes[-3].name] if number % 3 == 2 else [])
        module = f"layers.{number // 10}" if modules else ""
        nodes.append(NodeRecord(f"{op}_{number}", "call_function", op, tuple(inputs), spec, module))
    nodes.append(NodeRecord("output", "output", "output", (nodes[-1].name,)))
    return GraphRecord("forward", tuple(nodes))


def chain(ops: list[str]) -> GraphRecord:
    """A chain of ops, each of which reads the one before; no modules."""
    nodes = [NodeRecord("x", "placeholder", "x", role="input")]
    for number, op in enumerate(ops):
        nodes.append(NodeRecord(f"n{number}", "call_function", op, (nodes[-1].name,)))
    nodes.append(NodeRecord("output", "output", "output", (nodes[-1].name,)))
    return GraphRecord("forward", tuple(nodes))


def unmatched(before: GraphRecord, after: GraphRecord) -> tuple[list[str], list[str]]:
    """Names of nodes that are gone, and that are new."""
    one, other = Program([before]), Program([after])
    found = match(one, other)
    assert all(found.before[mate] == at for at, mate in enumerate(found.after) if mate >= 0)
    return (
        [one.nodes[at].name for at, mate in enumerate(found.after) if mate < 0],
        [other.nodes[at].name for at, mate in enumerate(found.before) if mate < 0],
    )


OPS = ["linear", "gelu", "mul", "add", "norm"]


@pytest.mark.parametrize("length", [50, 10_000])
def test_the_same_program_is_the_same_whatever_its_nodes_are_called(length):
    ops = [OPS[number % 5] for number in range(length)]
    after = graph(ops)
    renamed = {node.name: f"other_{at}" for at, node in enumerate(after.nodes)}
    after = GraphRecord(
        "forward",
        tuple(
            NodeRecord(
                renamed[node.name] if node.op == "call_function" else node.name,
                node.op,
                node.target,
                tuple(renamed[name] if name != "x" else name for name in node.inputs),
                node.outputs,
                node.module_path,
                role=node.role,
            )
            for node in after.nodes
        ),
    )
    assert unmatched(graph(ops), after) == ([], [])


def test_other_sizes_are_the_same_nodes():
    ops = [OPS[number % 5] for number in range(200)]
    assert unmatched(graph(ops, 8), graph(ops, 16)) == ([], [])


@pytest.mark.parametrize("places", [(3,), (3, 77), (0, 50, 99)])
def test_inserted_nodes_are_new_and_nothing_else_is(places):
    ops = [OPS[number % 5] for number in range(100)]
    longer = list(ops)
    for place in reversed(places):
        longer.insert(place, "inverse")
    gone, new = unmatched(chain(ops), chain(longer))
    assert gone == []
    assert new == [f"n{place + shift}" for shift, place in enumerate(places)]
    assert unmatched(chain(longer), chain(ops)) == (new, [])


def test_one_more_of_the_same_op_is_one_new_node():
    gone, new = unmatched(chain(["relu"] * 9), chain(["relu"] * 10))
    assert (gone, len(new)) == ([], 1)


def test_an_op_that_was_replaced_is_a_pair():
    before, after = chain(["linear", "gelu", "norm"]), chain(["linear", "relu", "norm"])
    assert unmatched(before, after) == ([], [])


def test_a_divided_program_has_the_same_nodes():
    ops = [OPS[number % 5] for number in range(20)]
    one, other = Program([chain(ops)]), Program([chain(ops[:9]), chain(ops[9:])])
    found = match(one, other)
    calls = [at for at, node in enumerate(one.nodes) if node.is_call]
    assert [other.nodes[found.after[at]].target for at in calls] == ops
    assert [other.graph_of[found.after[at]] for at in calls] == [0] * 9 + [1] * 11
