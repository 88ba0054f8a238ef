"""A violation and its capture → one script that shows it to a reader who has torch but not this package.

The script contains the captured graph as Python source, cut down to the violating op where possible, makes inputs of
the recorded shapes and dtypes, runs the graph on the CPU, and looks for the violation's evidence in every op that torch
dispatches. Nothing is pickled and nothing of this package is imported. Exit code 0: the violation shows; 1: it does
not.

:func:`single_op` cuts a recorded graph down to one node, from its record and its text alone. The node's operands become
inputs of the recorded shapes. If an operand cannot (it is no tensor, such as the tuple that ``getitem`` reads), the op
that makes it stays as well. Nothing is run here, since the live graph is gone when a strict session ends; a rule's
evidence is about one op with its operands and results, so these are enough.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import replace
from string import Template
from typing import Final

from inductor_debug_jupyter.pipeline.errors import ReproError
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphRecord,
    NodeRecord,
    Severity,
    TensorSpec,
    Violation,
)
from inductor_debug_jupyter.pipeline.repro.graph_script import comment

_SCRIPT = Template('''\
"""$title

Target: $target. Rule: $rule. Seen: $observed. Allowed: $allowed.
Where:  $where
Size:   $size
Captured with torch $torch_version. Needs torch only. Exit code 0: $finding shows; 1: it does not.
"""

import sys
import weakref

import torch
from torch import device, inf, nan  # noqa: F401 - names that generated code may use
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def dense(shape, stride, dtype):
    size = 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if all(shape) else 0
    is_number = dtype.is_floating_point or dtype.is_complex
    flat = torch.randn(size).to(dtype) if is_number else torch.zeros(size, dtype=dtype)
    return flat.as_strided(shape, stride)


$graph


def make_inputs():
    torch.manual_seed(0)
    return [
$inputs
    ]


def bare(op):
    parts = op.split(".")
    return parts[1] if parts[0] in ("aten", "prims") and len(parts) > 1 else parts[-1].lower()


_alive = {}


def alive():
    """Bytes of all tensors that still exist, views counted once."""
    storages = {}
    for reference in list(_alive.values()):
        if (tensor := reference()) is not None:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return sum(storages.values())


def shows(op, tensors):
    return $evidence


found = []


def look(op, values):
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
    for tensor in tensors:
        _alive[id(tensor)] = weakref.ref(tensor)
    if shows(op, tensors):
        found.append(f"{op}({', '.join(f'{t.dtype}{list(t.shape)}' for t in tensors)})")


def watched(name, func, args, kwargs):
    try:
        result = func(*args, **kwargs)
    except Exception:  # the inputs are made up: an op may not like them
        look(name, (args, kwargs))
        raise
    look(name, (args, kwargs, result))
    return result


class WatchOps(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return watched(str(func), func, args, kwargs or {})


class WatchFunctions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if isinstance(func, torch._ops.OpOverload):  # those, WatchOps sees
            return func(*args, **(kwargs or {}))
        return watched("torch." + getattr(func, "__name__", str(func)), func, args, kwargs or {})


def main():
    graph = Graph()
    inputs = make_inputs()
    look("inputs", inputs)
    stopped = None
    try:
        with torch.no_grad(), WatchFunctions(), WatchOps():
            graph(*inputs)
    except Exception as error:
        stopped = error
    if not found:
        print("$finding does NOT show")
        if stopped is not None:
            print(f"  the graph stopped: {type(stopped).__name__}: {stopped}")
        return 1
    print($headline)
    for line in dict.fromkeys(found):
        print("  " + line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
''')


_SAYS: Final[dict[Severity, str]] = {
    "error": "refuses this",
    "warning": "warns of this",
    "info": "remarks on this",
}
"""What a target does with a finding; it refuses only errors."""
_FINDINGS: Final[dict[Severity, str]] = {"error": "the violation", "warning": "the warning", "info": "the remark"}


def violation_script(capture: CompileCapture, violation: Violation, *, target: str, torch_version: str) -> str:
    """The script for the first place of a violation.

    Raises:
        ReproError: the graph was not captured, or cannot be written as a script.
    """
    if not violation.places or not violation.evidence:
        raise ReproError(f"{violation.rule_id}: the rule does not say what a script should look for")
    place = violation.places[0]
    graph, text = capture.graph(place.stage), capture.text(place.stage)
    if graph is None or text is None:
        raise ReproError(f"{violation.rule_id}: the {place.stage} graph of {capture.compile_id} was not captured")
    text = _as_class(text)
    whole = graph
    if "alive()" not in violation.evidence and (reduced := single_op(graph, text, place.node)) is not None:
        graph, text = reduced
    line = place.line
    lines = []
    for node in graph.nodes:
        if node.op == "placeholder":
            if node.tensor is None:
                raise ReproError(f"input {node.name} is not a tensor of known shape")
            lines.append(f"        {_tensor(node.tensor)},  # {comment(node.origin or node.name)}")
    return _SCRIPT.substitute(
        title=comment(violation.title),
        target=comment(target),
        rule=comment(violation.rule_id),
        observed=comment(violation.observed),
        allowed=comment(violation.allowed),
        where=comment(f"{line}: {line.text.strip()}" if line else f"node {place.node}"),
        size=f"{len(graph.calls)} of the graph's {len(whole.calls)} ops",
        torch_version=comment(torch_version),
        graph=_graph_class(graph, text),
        inputs="\n".join(lines),
        evidence=violation.evidence,
        headline=repr(f"{target} {_SAYS[violation.severity]}: {violation.title}"),
        finding=_FINDINGS[violation.severity],
    )


def _tensor(spec: TensorSpec) -> str:
    shape = [size if isinstance(size, int) else 2 for size in spec.shape]
    if spec.stride is None or any(isinstance(step, str) for step in spec.stride) or shape != list(spec.shape):
        stride = [math.prod(max(size, 1) for size in shape[at + 1 :]) for at in range(len(shape))]
    else:
        stride = [int(step) for step in spec.stride]
    return f"dense({shape}, {stride}, torch.{spec.dtype})"


def _as_class(text: str) -> str:
    """The graph's text as a class that runs: torch prints a class, but its name is not always an identifier."""
    body = re.sub(r"\x1b\[[0-9;]*m", "", text).strip("\n")
    body, replaced = re.subn(r"^class [^\n]*\(torch\.nn\.Module\):", "class Graph(torch.nn.Module):", body, count=1)
    if not replaced:
        raise ReproError("the captured graph's text does not start with a class")
    try:
        compile(body, "<repro>", "exec")
    except SyntaxError as error:
        raise ReproError(f"the captured graph's text is not Python ({error.msg})") from None
    return body


def _graph_class(graph: GraphRecord, body: str) -> str:
    """The class with an ``__init__`` that makes the graph's constants."""
    constants = [node for node in graph.nodes if node.op == "get_attr"]
    if any("." in node.target or not node.target.isidentifier() or node.tensor is None for node in constants):
        raise ReproError("the captured graph holds submodules, which a standalone script cannot")
    if constants:
        lines = [f"        self.{node.target} = {_tensor(node.tensor)}" for node in constants if node.tensor]
        init = "\n".join(["    def __init__(self):", "        super().__init__()", *lines])
        head, _, rest = body.partition("\n")
        body = f"{head}\n{init}\n\n{rest}"
    return body


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
        if node is None or value is None or not node.is_call:
            return None
        names = [part.id for part in ast.walk(value) if isinstance(part, ast.Name)]
        if "self" in names:
            return None
        kept.add(current)
        for operand in filter(None, map(graph.node, dict.fromkeys(names))):
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
