"""Hand-made records: small enough to read, with every name as hostile as a program can make it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphBreak,
    GraphRecord,
    NodeRecord,
    Note,
    Place,
    Recompile,
    SessionRecord,
    SourceLine,
    TensorSpec,
    Violation,
)

EVIL = '<img src=x onerror=alert(1)>"\\N\n\x1b[31m&lt;'
LABEL = "In [4]"
SOURCE = "\n".join(
    [
        "class MLP(nn.Module):",
        "    def forward(self, x):",
        "        h = self.ln(x)",
        "        h = self.up(h)",
        "        return h  # <img src=x onerror=alert(1)>",
        "print('break')",
    ]
)


def line(number: int) -> SourceLine:
    return SourceLine("/tmp/cell.py", number, SOURCE.splitlines()[number - 1], "forward", LABEL)


def call(name: str, target: str, *inputs: str, path: str = "", at: int = 3) -> NodeRecord:
    spec = TensorSpec((8, 784), "float16", (784, 1), itemsize=2)
    return NodeRecord(name, "call_function", target, inputs, (spec,), path, "", line(at), line(at))


def small_graph(stage: str = "forward") -> GraphRecord:
    return GraphRecord(
        stage,
        (
            NodeRecord("x", "placeholder", "x"),
            NodeRecord("w", "placeholder", "w"),
            call("norm", "aten.native_layer_norm.default", "x", path="ln", at=3),
            call("mm", "aten.mm.default", "norm", "w", path="up", at=4),
            call("evil", EVIL, "mm", "w", path=EVIL, at=5),
            NodeRecord("output", "output", "output", ("evil",)),
        ),
    )


def place(node: str, at: int, *, stage: str = "forward", compile_id: str = "0/0") -> Place:
    return Place(compile_id, stage, node, "aten.mm.default", "up", line(at), line(at))


@pytest.fixture
def make_record() -> Callable[..., SessionRecord]:
    """A session with a warning, an error of two places, and an info on the evil node; fields can be replaced."""

    def build(**changes: object) -> SessionRecord:
        findings = (
            Violation(
                "layout.strided", "warning", "read with stride", (place("mm", 4),), hints=("Store it transposed.",)
            ),
            Violation(
                "align.innermost",
                "error",
                "784 is not a multiple of 64",
                (place("norm", 3), place("mm", 4)),
                observed="784",
                allowed="multiples of 64",
                explanation="Sticks hold 64.",
                hints=("Pad to 832.",),
            ),
            Violation("name.evil", "info", EVIL, (Place("0/0", "forward", "evil", EVIL, EVIL, line(5), line(5)),)),
        )
        captures = (
            CompileCapture(
                "0/0",
                "MLP",
                line(1),
                {"dynamo": small_graph("dynamo"), "forward": small_graph()},
                missing={"backward": "nothing required a gradient"},
            ),
        )
        values: dict[str, object] = {
            "id": "s1",
            "created": "2026-01-01T00:00:00",
            "name": "MLP",
            "target": "stick128",
            "strict": True,
            "torch_version": "2.13",
            "tool_version": "0",
            "captures": captures,
            "findings": findings,
            "graph_breaks": (GraphBreak("0/0", "print was called", line(6), ("Remove the print.",)),),
            "recompiles": (Recompile("0/1", ("size of x changed",), line(2)),),
            "notes": (Note("kernels", "one was unreadable"),),
            "sources": {LABEL: SOURCE},
            "seconds": 1.43,
            "peak_memory": 38 * 2**20,
            "memory_limit": 16 * 2**30,
        }
        return SessionRecord(**(values | changes))  # type: ignore[arg-type]

    return build
