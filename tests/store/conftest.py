"""A session record with every stage, made by hand: no torch needed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphRecord,
    KernelRecord,
    NodeRecord,
    SessionRecord,
    TensorSpec,
)

MakeRecord = Callable[..., SessionRecord]


def make_session(session_id: str = "s1", extra: str = "") -> SessionRecord:
    spec = TensorSpec((4, 8), "float32", (8, 1), itemsize=4)
    graph = GraphRecord(
        "dynamo",
        (
            NodeRecord("x", "placeholder", "x", outputs=(spec,)),
            NodeRecord("relu", "call_function", "torch.relu", ("x",), (spec,)),
            NodeRecord("relu_1", "call_function", "torch.relu", ("relu",), (spec,)),
            NodeRecord("output", "output", "output", ("relu_1",)),
        ),
    )
    texts = {
        "dynamo": f"def forward(x): return relu(relu(x))  # {extra}",
        "forward": "aten.relu(x)",
        "backward": "aten.threshold_backward(g)",
        "post_grad": "post grad",
        "ir_pre_fusion": "buf0",
        "ir_post_fusion": "fused",
        "code": "import torch",
    }
    capture = CompileCapture(
        "0/0", graphs={"dynamo": graph}, texts=texts, kernels=(KernelRecord("cpp_fused_relu_0", "void kernel() {}"),)
    )
    return SessionRecord(
        id=session_id,
        created="2026-01-02T03:04:05+00:00",
        name="In [4]",
        target="default",
        strict=False,
        torch_version="2.13.0",
        tool_version="0.1.0",
        captures=(capture,),
    )


@pytest.fixture
def make_record() -> MakeRecord:
    return make_session


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can look into (pytest's own are for nobody else)."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
