"""Hand-made graphs of any size."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphView
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphRecord,
    NodeRecord,
    SessionRecord,
    SourceLine,
    TensorSpec,
    Violation,
)
from inductor_debug_jupyter.pipeline.views.places import Lookup


def op(name: str, *inputs: str, path: str = "", target: str = "", size: int = 0) -> NodeRecord:
    """One op; ``aten.<name>.default`` unless told otherwise."""
    outputs = (TensorSpec((size,), "float32", itemsize=4),) if size else ()
    return NodeRecord(name, "call_function", target or f"aten.{name}.default", inputs, outputs, path)


def chain(count: int, layers: int = 10) -> GraphRecord:
    """Ops in one line, in layers of seven kinds of parts."""
    nodes = [NodeRecord("x", "placeholder", "x")]
    for number in range(count):
        path = f"layers.{number * layers // count}.part{number % 7}"
        nodes.append(op(f"op_{number}", nodes[-1].name, path=path, target="aten.relu.default"))
    nodes.append(NodeRecord("output", "output", "output", (nodes[-1].name,)))
    return GraphRecord("forward", tuple(nodes))


LAYER = (("attention.query", "mm"), ("attention.key", "mm"), ("attention", "bmm"), ("attention", "softmax"),
         ("mlp.up", "mm"), ("mlp", "gelu"), ("mlp.down", "mm"), ("mlp.down", "add"), ("", "add"))  # fmt: skip


def transformer(layers: int, *, loose: bool = False, first: int = 0) -> GraphRecord:
    """Layers of nine ops and a mask for each; ``loose`` adds an op between layers, ``first`` some to the first."""
    nodes = [NodeRecord("x", "placeholder", "x"), NodeRecord("mask", "placeholder", "mask")]
    last, modules = "x", {"": "Net", "layers": "ModuleList"}
    for layer in range(layers):
        path = f"layers.{layer}"
        modules |= {path: "Layer", f"{path}.attention": "Attention", f"{path}.mlp": "MLP"}
        parts = [*LAYER, *([("", "view")] * (first if layer == 0 else 0))]
        for number, (inner, kind) in enumerate(parts):
            name = f"l{layer}_{number}_{kind}"
            inputs = (last, "mask") if kind == "softmax" else (last,)
            where = f"{path}.{inner}" if inner else path
            line = SourceLine("net.py", 10 + number, f"h = {kind}(h)", "forward", "net.py")
            spec = TensorSpec((4, 8), "float32", (8, 1), itemsize=4)
            nodes.append(NodeRecord(name, "call_function", f"aten.{kind}.default", inputs, (spec,), where, source=line))
            last = name
        if loose:
            nodes.append(op(f"between_{layer}", last, target="aten.add.Tensor"))
            last = f"between_{layer}"
    return GraphRecord("forward", tuple(nodes), modules=modules)


def session_of(graph: GraphRecord, *findings: Violation) -> SessionRecord:
    """A session with that graph alone."""
    capture = CompileCapture("0/0", graphs={graph.stage: graph})
    return SessionRecord("s", "", "m", "t", False, "", "", captures=(capture,), findings=findings)


def view_of(graph: GraphRecord, *findings: Violation) -> GraphView:
    """A graph as it opens."""
    return GraphView(Lookup(session_of(graph, *findings)), "0/0", graph.stage)
