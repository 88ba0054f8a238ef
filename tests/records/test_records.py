"""Records save and load; what cannot be read says why."""

import json

import pytest

from inductor_debug_jupyter.pipeline.errors import RecordError
from inductor_debug_jupyter.pipeline.records import (
    SCHEMA_VERSION,
    CompileCapture,
    GraphRecord,
    NodeRecord,
    SessionRecord,
    SourceLine,
    TensorSpec,
    dump_session,
    load_session,
)


def session():
    line = SourceLine("cell.py", 3, "h = self.up(h)", "forward", "In [4]")
    node = NodeRecord(
        "addmm", "call_function", "aten.addmm.default", ("x",), (TensorSpec(("s0", 64), "float32"),), source=line
    )
    graph = GraphRecord("forward", (node,), {"s0": "[2, 512]"})
    return SessionRecord(
        "id",
        "now",
        "Net",
        "default",
        False,
        "2.13",
        "0.1",
        captures=(CompileCapture("0/0", graphs={"forward": graph}),),
    )


def test_a_session_survives_saving_and_loading():
    assert load_session(dump_session(session())) == session()


def test_symbolic_sizes_have_no_number_of_elements():
    assert TensorSpec(("s0", 64), "float32", itemsize=4).nbytes is None
    assert TensorSpec((2, 64), "float32", itemsize=4).nbytes == 512


def test_a_newer_version_is_refused_with_what_to_do():
    data = json.loads(dump_session(session()))
    data["schema_version"] = SCHEMA_VERSION + 1
    with pytest.raises(RecordError, match="Upgrade inductor-debug-jupyter"):
        load_session(json.dumps(data).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"schema_version": 1, "session": {"id": 3}}', b"\xff\xfe"])
def test_damaged_data_is_refused(data):
    with pytest.raises(RecordError):
        load_session(data)
