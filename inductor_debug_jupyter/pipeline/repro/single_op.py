"""Cut a recorded graph down to one node, from its record and its text alone.

The node's operands become inputs of the recorded shapes. If an operand cannot (it is no tensor, such as the tuple that
``getitem`` reads), the op that makes it stays as well. Nothing is run here, since the live graph is gone when a strict
session ends; a rule's evidence is about one op with its operands and results, so these are enough.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord


def single_op(graph: GraphRecord, class_text: str, name: str) -> tuple[GraphRecord, str] | None:
    """The smallest graph around one node, as a record and as the text of a class; None when it cannot be cut out.

    Args:
        graph: the recorded graph.
        class_text: the graph as a Python class with a ``forward``.
        name: the node.
    """
    made = _statements(class_text)
    kept: set[str] = set()
    hoisted: set[str] = set()
    wanted = [name]
    while wanted:
        current = wanted.pop()
        node, value = graph.node(current), made.get(current)
        if node is None or value is None or not node.is_call or _reads_self(value):
            return None
        kept.add(current)
        for operand in _operands(value, graph):
            if _can_be_input(operand, node):
                hoisted.add(operand.name)
            elif operand.name not in kept:
                wanted.append(operand.name)
    return _rebuild(graph, made, kept, hoisted - kept, name)


def _statements(class_text: str) -> dict[str, ast.expr]:
    """Name → the expression that makes it."""
    made: dict[str, ast.expr] = {}
    for statement in ast.walk(ast.parse(class_text)):
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name) and not (isinstance(value, ast.Constant) and value.value is None):
            made.setdefault(target.id, value)
    return made


def _reads_self(value: ast.expr) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "self" for part in ast.walk(value))


def _operands(value: ast.expr, graph: GraphRecord) -> list[NodeRecord]:
    names = [part.id for part in ast.walk(value) if isinstance(part, ast.Name)]
    return [operand for name in dict.fromkeys(names) if (operand := graph.node(name)) is not None]


def _can_be_input(operand: NodeRecord, reader: NodeRecord) -> bool:
    """Whether a tensor of the recorded shape can stand in for an operand.

    A symbolic size is given a number later; an expression of one (``2*s0``) has to come from the op that makes it.
    """
    if len(operand.outputs) != 1 or (operand.is_call and reader.target.rpartition(".")[2] == "getitem"):
        return False
    return all(isinstance(size, int) or size.isidentifier() for size in operand.outputs[0].shape)


def _rebuild(
    graph: GraphRecord, made: dict[str, ast.expr], kept: set[str], hoisted: set[str], name: str
) -> tuple[GraphRecord, str]:
    inputs = [
        replace(node, op="placeholder", inputs=(), origin=node.origin or node.name)
        for node in graph.nodes
        if node.name in hoisted
    ]
    calls = [node for node in graph.nodes if node.name in kept]
    lines = ["class Graph(torch.nn.Module):"]
    lines.append(f"    def forward({', '.join(['self', *(node.name for node in inputs)])}):")
    lines += [f"        {node.name} = {ast.unparse(made[node.name])}" for node in calls]
    lines.append(f"        return ({name},)")
    return GraphRecord(graph.stage, (*inputs, *calls), graph.symbols), "\n".join(lines)
