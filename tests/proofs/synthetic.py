"""A graph of any size that no model has: to see how the time of checking grows."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord, NodeRecord, SourceLine, TensorSpec

_OPS = ("aten.mm.default", "aten.add.Tensor", "aten.view.default", "aten.gelu.default", "aten.sort.default")


def synthetic_capture(nodes: int, *, hidden: int = 100) -> CompileCapture:
    """A capture whose forward graph has about so many nodes: layers of a matmul, an add, a view, a GELU and a sort."""
    weight = TensorSpec((hidden, hidden), "float32", (hidden, 1), itemsize=4, storage=0, storage_bytes=4 * hidden**2)
    made = [NodeRecord("w", "placeholder", "w", outputs=(weight,), role="parameter", origin="w")]
    made.append(NodeRecord("x", "placeholder", "x", outputs=(_activation(1, hidden),), role="input", origin="x"))
    last, storage = "x", 1
    for number in range(nodes - 3):
        target = _OPS[number % len(_OPS)]
        if target != "aten.view.default":
            storage += 1
        inputs = (last, "w") if target == "aten.mm.default" else (last,)
        layer = number // len(_OPS)
        line = SourceLine("model.py", 10 + number % len(_OPS), "h = self.block(h)", "forward", "model.py")
        name = f"n{number}"
        made.append(
            NodeRecord(
                name,
                "call_function",
                target,
                inputs,
                (_activation(storage, hidden),),
                f"layers.{layer}",
                "Block",
                line,
                mutates=(last,) if number % 97 == 1 else (),
            )
        )
        last = name
    made.append(NodeRecord("output", "output", "output", (last,)))
    return CompileCapture("0/0", "synthetic", graphs={"forward": GraphRecord("forward", tuple(made))})


def _activation(storage: int, hidden: int) -> TensorSpec:
    return TensorSpec((30, hidden), "float32", (hidden, 1), itemsize=4, storage=storage, storage_bytes=120 * hidden)
