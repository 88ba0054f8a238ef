"""Transfers and kernel specs of any adapter: in the session, in its text and JSON, and in the log of a script."""

import json
import subprocess
import sys

import pytest
import torch
from stub_adapters import SilentAdapter
from torch import nn

from inductor_debug_jupyter import CompilationResult, DebugSession, StickAdapter, capture
from inductor_debug_jupyter.pipeline.adapters import device_log
from inductor_debug_jupyter.pipeline.adapters.device_log import DeviceLog, listening
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import KernelSpec, Transfer
from inductor_debug_jupyter.pipeline.views.transfers import kernel_json, transfers_view

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

CLONE_LINE = "copy_to_device: shape=[65] dtype=float16 device_layout=[2, 64] device_dtype=float16 bytes=256"


class Telling(SilentAdapter):
    """An adapter of a third party: a spec with things that JSON does not know, and a transfer of its own."""

    name = "telling"

    def compile(self, gm, inputs):
        def run(*args):
            self.tell(Transfer("copy_to_device", "x", (3,), "float32", (4,), bytes=16, adapter=self.name))
            return gm(*args)

        return CompilationResult(
            True, run, kernel_specs=({"op": "all\nof it", "dtype": torch.float32, "tiles": (1, 2)},)
        )


def stick(**options):
    return StickAdapter(faults=(), check=False, **options).as_backend(fallback=False)


def test_they_are_records_of_the_session_and_outlive_it(tmp_path):
    with capture() as session:
        torch.compile(lambda x: x.clone(), backend=stick())(torch.arange(65, dtype=torch.float16))
    assert [transfer.direction for transfer in session.transfers] == ["copy_to_device", "copy_from_device"]
    (kernel,) = session.kernel_specs
    assert kernel.spec["copy_range"] == [2, 64]
    assert kernel.compile_id == session.transfers[0].compile_id == session.captures[0].compile_id
    text = str(session)
    assert "Transfers (2)" in text
    assert CLONE_LINE in text
    assert "kernel: op=aten.clone.default node=clone inputs=[2, 64] outputs=[2, 64] copy_range=[2, 64]" in text
    loaded = DebugSession.load(session.save(tmp_path / "session.json"))
    assert loaded.transfers == session.transfers
    assert loaded.kernel_specs == session.kernel_specs


def test_a_session_without_an_adapter_says_nothing_of_them():
    with capture() as session:
        torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))
    assert session.transfers == session.kernel_specs == ()
    assert "Transfers" not in str(session)
    assert transfers_view(session.record) == {"summary": "", "transfers": [], "kernels": [], "left_out": 0}


def test_a_comparison_tells_of_its_candidate():
    model = nn.Linear(70, 5)
    with capture(keep_inputs=True, eager=True, lower="dynamo") as session:
        model(torch.randn(2, 70))
    assert session.transfers == ()
    report = session.diff("eager", StickAdapter("float32", faults=(), check=False))
    assert report.passed
    assert len(session.transfers) == 4
    assert {kernel.op for kernel in session.kernel_specs} >= {"aten.addmm.default"}


def test_any_adapter_can_tell():
    with capture() as session:
        torch.compile(lambda x: x + 1, backend=Telling().as_backend())(torch.ones(3))
    (kernel,) = session.kernel_specs
    assert kernel.spec == {"op": "all\nof it", "dtype": "torch.float32", "tiles": [1, 2]}
    assert (kernel.adapter, kernel.op) == ("telling", "all\nof it")
    assert session.transfers[0].bytes == 16
    assert "kernel: op=all�of it (telling" in str(session)


def test_the_view_has_rows_and_a_summary():
    with capture() as session:
        torch.compile(lambda x: x.clone(), backend=stick(values=True))(torch.arange(65, dtype=torch.float16))
    view = json.loads(json.dumps(transfers_view(session.record)))
    assert view["summary"] == "1 transfer to the device (256 B), 1 transfer back (256 B), 1 kernel"
    first = view["transfers"][0]
    assert (first["padding"], first["size"]) == ("49%", "256 B")
    assert "values=[0, 1, 2, 3, 4, 5, 6, 7, …]" in first["line"]
    assert json.loads(view["kernels"][0]["spec"])["copy_range"] == [2, 64]
    assert first["line"].startswith(CLONE_LINE)


def test_a_spec_is_readable_json():
    spec = {"shape": [2, 64], "inputs": [{"range": [1, 2]}], "names": ["a, b", "c"], "none": []}
    text = kernel_json(KernelSpec("mm", spec=spec))
    assert json.loads(text) == spec
    assert '"shape": [2, 64],' in text
    assert '"names": ["a, b", "c"],' in text


def test_choosing_a_row_selects_its_node():
    model = nn.Linear(64, 64)
    with capture(keep_inputs=True) as session:
        torch.compile(model, backend=stick())(torch.randn(2, 64)).sum().backward()
    view = transfers_view(session.record)
    chosen = [(row["selection"]["stage"], row["selection"]["node"], row["line"]) for row in view["transfers"]]
    assert any((stage, node) == ("forward", "primals_1") and "name=primals_1" in line for stage, node, line in chosen)
    assert any(
        (stage, node) == ("backward", "tangents_1") and "name=tangents_1" in line for stage, node, line in chosen
    )
    (addmm,) = (row["selection"] for row in view["kernels"] if "node=addmm " in row["line"])
    assert addmm["line"] == session.captures[0].graph("forward").node("addmm").source.line
    # A comparison compiles again, under an id that was not captured: the same op of the same name is meant.
    before = len(session.kernel_specs)
    session.diff("eager", StickAdapter(faults=(), check=False))
    again = transfers_view(session.record)["kernels"][before:]
    assert any("op=aten.addmm.default" in row["line"] for row in again)
    assert all(row["selection"]["compile_id"] == "0/0" for row in again if row["selection"])
    assert any(row["selection"] for row in again)


def test_no_more_rows_are_made_than_asked_for_and_the_rest_is_counted():
    with capture() as session:
        torch.compile(nn.Linear(64, 64), backend=stick())(torch.randn(2, 64))
    view = transfers_view(session.record, limit=2)
    left = len(session.transfers) + len(session.kernel_specs) - len(view["transfers"]) - len(view["kernels"])
    assert (len(view["transfers"]), view["left_out"]) == (2, left)
    assert view["summary"].startswith(f"{len(session.transfers) - 1} transfers to the device")


def test_no_more_is_kept_than_a_session_can_hold(monkeypatch):
    monkeypatch.setattr(device_log, "MOST_EVENTS", 3)
    with capture() as session:
        doubled = torch.compile(lambda x: x * 2, backend=stick())
        for _ in range(4):
            doubled(torch.ones(2))
    assert len(session.transfers) == 3
    assert "transfers: 5 transfers or kernels more were not kept: 3 of each are" in str(session)


def test_a_kernel_that_is_told_twice_is_kept_once():
    log = DeviceLog()
    with listening(log):
        for _ in range(2):
            device_log.tell(KernelSpec("mm", spec={"op": "mm"}))
    assert len(log.kernels) == 1


SCRIPT = """
import torch
from inductor_debug_jupyter import StickAdapter
backend = StickAdapter(check=False).as_backend(fallback=False)
torch.compile(lambda x: x.clone(), backend=backend)(torch.arange(65, dtype=torch.float16))
"""


def test_a_script_logs_them_when_told_to(monkeypatch):
    monkeypatch.setenv("INDUCTOR_DEBUG_TRANSFERS", "1")
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=True)
    assert CLONE_LINE in done.stderr
    assert "copy_from_device: shape=[65]" in done.stderr
    assert "copy_range=[2, 64]" in done.stderr
    assert "values=" not in done.stderr
    assert done.stdout == ""


def test_the_log_is_off_unless_asked_for_and_a_bad_value_is_one_line(monkeypatch, caplog):
    with caplog.at_level("INFO", "inductor_debug_jupyter.transfers"):
        torch.compile(lambda x: x.clone(), backend=stick())(torch.ones(2))
        assert "copy_to_device" not in caplog.text
        monkeypatch.setenv("INDUCTOR_DEBUG_TRANSFERS", "1")
        torch.compile(lambda x: x.clone(), backend=stick())(torch.ones(2))
        assert "copy_to_device: shape=[2]" in caplog.text
        assert "values=" not in caplog.text
        monkeypatch.setenv("INDUCTOR_DEBUG_TRANSFERS", "values")
        torch.compile(lambda x: x.clone(), backend=stick())(torch.ones(2))
        assert "values=[1, 1]" in caplog.text
    monkeypatch.setenv("INDUCTOR_DEBUG_TRANSFERS", "maybe")
    with pytest.raises(
        OptionError, match="INDUCTOR_DEBUG_TRANSFERS: 'maybe' is not allowed; allowed: 1 or 0, or values"
    ):
        device_log.logging_mode()
