"""What the Code tab is given: documents as pieces of text, nodes with their lines and kernels."""

from __future__ import annotations

import pytest

from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphRecord,
    KernelRecord,
    NodeRecord,
    SessionRecord,
    SourceLine,
)
from inductor_debug_jupyter.pipeline.views import code
from inductor_debug_jupyter.pipeline.views.places import Lookup

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def record() -> SessionRecord:
    line = SourceLine("cell.py", 3, "h = relu(x)", "forward", "In [4]")
    relu = NodeRecord("relu_1", "call_function", "aten.relu.default", ("x",), source=line, origins=("relu",))
    where = NodeRecord("where", "call_function", "aten.where.self", ("x",), source=line, origins=("relu",))
    dynamo = NodeRecord("relu", "call_function", "torch.relu", ("x",), source=line)
    capture = CompileCapture(
        "0/0",
        graphs={
            "dynamo": GraphRecord("dynamo", (dynamo,)),
            "post_grad": GraphRecord("post_grad", (relu,)),
            "post_grad:backward": GraphRecord("post_grad:backward", (where,)),
        },
        texts={"ir_pre_fusion": "op0: SchedulerNode", "code": f"# {HOSTILE}\nx = 1\n", "code:backward": "y = 2"},
        kernels=(
            KernelRecord("cpp_fused_relu_0", "void kernel() {\n  // one\n}", "cpp", "forward", (("relu_1",),)),
            KernelRecord("cpp_fused_where_0", "int x;", "cpp", "backward", (("where",), ("where",))),
        ),
    )
    return SessionRecord("id", "now", "net", "default", False, "2.13", "0", captures=(capture,))


def test_documents_are_kernels_then_ir_then_code(record):
    entries = code.documents_view(record)
    assert [(entry["id"], entry["title"], entry["backward"]) for entry in entries] == [
        ("0/0|kernel|0", "cpp_fused_relu_0", False),
        ("0/0|kernel|1", "cpp_fused_where_0 ×2", True),
        ("0/0|ir_pre_fusion", "IR before fusion", False),
        ("0/0|code", "wrapper code", False),
        ("0/0|code:backward", "wrapper code, backward", True),
    ]
    assert entries[0]["nodes"] == ["relu_1"]
    assert entries[1]["lines"] == ["In [4]:3"]


def test_a_document_is_pieces_of_text_that_join_to_the_text(record):
    for document, text in (("0/0|code", f"# {HOSTILE}\nx = 1\n"), ("0/0|kernel|0", record.captures[0].kernels[0].code)):
        view = code.document_view(record, document)
        assert "\n".join("".join(piece for _, piece in line) for line in view["lines"]) == text
    assert view["note"] == "computes relu_1"
    assert ["comment", "// one"] in view["lines"][1]


def test_nodes_know_their_line_and_their_kernels_in_every_graph(record):
    lookup = Lookup(record)
    for stage, name, documents in (
        ("dynamo", "relu", ["0/0|kernel|0", "0/0|kernel|1"]),
        ("post_grad", "relu_1", ["0/0|kernel|0"]),
        ("post_grad:backward", "where", ["0/0|kernel|1"]),
    ):
        (row,) = code.node_list_view(lookup, "0/0", stage)["rows"]
        assert (row["name"], row["lines"], row["documents"]) == (name, ["In [4]:3"], documents)


def test_a_long_document_is_cut_and_says_so(record, monkeypatch):
    monkeypatch.setattr(code, "MAX_LINES", 2)
    view = code.document_view(record, "0/0|kernel|0")
    assert len(view["lines"]) == 2
    assert view["note"] == "computes relu_1 · the first 2 of 3 lines"


def test_what_is_not_there_is_said(record):
    for document in ("9/9|code", "0/0|nope", "0/0|kernel|7", "0/0|kernel|x", ""):
        with pytest.raises(NotFoundError):
            code.document_view(record, document)
    with pytest.raises(NotFoundError, match="has no 'joint' graph"):
        code.node_list_view(Lookup(record), "0/0", "joint")
    assert Lookup(record).find(kernel="cpp_fused_where_0")["kernel"] == "0/0|kernel|1"
    with pytest.raises(NotFoundError, match="no captured kernel is called 'nope'"):
        Lookup(record).find(kernel="nope")
