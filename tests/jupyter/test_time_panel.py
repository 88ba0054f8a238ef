"""The Time tab's Python half, and ``--profile``."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from panel_requests import ask, open_tab

from inductor_debug_jupyter.jupyter import extension
from inductor_debug_jupyter.jupyter.panel import DebugPanel
from inductor_debug_jupyter.jupyter.panel.live_parts import LiveParts
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphRecord,
    KernelTime,
    ModuleTime,
    NodeRecord,
    Roofs,
    SessionRecord,
    SourceLine,
    TensorSpec,
    TimingRecord,
)

LINE = SourceLine("model.py", 7, "y = x @ w")
SPEC = (TensorSpec((4,), "float32", (1,), "cpu"),)


def kernel(name: str, nodes: tuple[str, ...], seconds: float, start: float, **more: Any) -> KernelTime:
    return KernelTime(name, "forward", "0/0", nodes, ("aten.mm.default",), start, seconds, seconds, seconds, **more)


TIMING = TimingRecord(
    "Net",
    False,
    20,
    1e-3,
    2e-3,
    0.001,
    (
        kernel("cpp_fused_relu_0", ("relu",), 1e-4, 0.0, flops=4, nbytes=32, roof=0.5, bound="memory"),
        kernel(
            "extern_kernels.mm", ("mm",), 8e-4, 1e-4, flops=10**6, nbytes=10**4, roof=0.9, bound="compute", source=LINE
        ),
        kernel("cpp_fused_1", ("gone",), 1e-5, 9e-4),
    ),
    (ModuleTime("up", "Linear", 1e-4, 9e-4), ModuleTime("act", "ReLU", 1e-6, 1e-6)),
    Roofs(9e10, {"float32": 2e11}, 2),
    ("one note",),
)


def opened() -> DebugPanel:
    nodes = (
        NodeRecord("x", "placeholder", "x", outputs=SPEC),
        NodeRecord("relu", "call_function", "aten.relu.default", inputs=("x",), outputs=SPEC),
        NodeRecord("mm", "call_function", "aten.mm.default", inputs=("relu",), outputs=SPEC, source=LINE),
    )
    captures = (CompileCapture("0/0", graphs={"post_grad": GraphRecord("post_grad", nodes)}),)
    panel = DebugPanel(
        SessionRecord("s", "2026", "m", "", False, "2.13", "0.1", captures, kernel_times=TIMING), LiveParts()
    )
    open_tab(panel, "time")
    return panel


def test_the_slowest_kernel_stands_first_and_is_chosen_in_a_graph_coloured_by_time() -> None:
    panel = opened()
    assert panel.header["tabs"][-1]["title"] == "Time"
    assert "1 ms a call" in [figure["text"] for figure in panel.header["figures"]]
    head = panel.time["head"]
    assert head[0] == "Net: one call takes 1 ms compiled, 2 ms eager (2.00× as fast as eager; medians of 20 runs)"
    assert head[1].startswith("91% of it is in 3 calls of kernels; 2 of them make 90% of that: mm 88% (×1), fused")
    first, second, third = panel.time["rows"]
    assert (first["op"], first["share"], first["bar"]) == ("extern_kernels.mm", "87.9%", 100.0)
    assert first["facts"] == "800 µs · 90% of the product roof · 1.25 GFLOP/s, 0.0125 GB/s of 9.77 KiB"
    assert "model.py, line 7" in first["where"]
    assert panel.selection["node"] == "mm"
    assert panel.graph_paint["title"] == "Share of the time"
    assert ask(panel, "select", selection=second["selection"]) == ""
    assert panel.selection["node"] == "relu"
    assert third["selection"] is None, "no graph has its node"
    assert [module["path"] for module in panel.time["modules"]] == ["up"]
    assert panel.time["modules"][0]["is_slower"]
    assert panel.time["notes"] == ["one note"]


@pytest.mark.usefixtures("fresh_dynamo")
def test_profile_on_the_magics_line_times_the_cells_model() -> None:
    shell = InteractiveShell()
    extension.load(shell)
    shell.run_cell("import torch\nmodel = torch.nn.Linear(8, 8)")
    shell.run_cell("%%inductor_debug --profile --no-panel --as session\nout = model(torch.randn(4, 8))")
    timing = shell.user_ns["session"].record.kernel_times
    assert timing is not None
    assert timing.kernels
    extension.unload(shell)
