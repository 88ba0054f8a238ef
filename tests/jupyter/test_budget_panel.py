"""The Error budget tab's Python half."""

from __future__ import annotations

from typing import Any

from panel_requests import ask, open_tab

from inductor_debug_jupyter.jupyter.panel import DebugPanel
from inductor_debug_jupyter.jupyter.panel.live_parts import LiveParts
from inductor_debug_jupyter.pipeline.records import (
    BudgetShare,
    CompileCapture,
    ErrorBudget,
    GraphRecord,
    NodeRecord,
    Prescription,
    SessionRecord,
    SourceLine,
    TensorSpec,
)

LINE = SourceLine("model.py", 7, "h = self.first(x) + 300")
SHARES = (
    BudgetShare("aten.add.Tensor", "add", 0.9, 3e-3, 3.1e-3, "", LINE, 1e-3),
    BudgetShare("aten.relu.default", "gone", 0.07, 8e-4),
    BudgetShare("aten.mul.Tensor", "mul", 0.03, 5e-4, module_path="encoder.layer.1"),
)
BUDGET = ErrorBudget("logits", "bfloat16 throughout, float32 sums", 3.16e-3, 4e-3, 1.0, SHARES, ("one note",))


def spec() -> tuple[TensorSpec, ...]:
    return (TensorSpec((4,), "float32", (1,), "cpu"),)


def opened(**more: Any) -> DebugPanel:
    nodes = (
        NodeRecord("x", "placeholder", "x", outputs=spec()),
        NodeRecord("add", "call_function", "aten.add.Tensor", inputs=("x",), outputs=spec(), source=LINE),
        NodeRecord("mul", "call_function", "aten.mul.Tensor", inputs=("add",), outputs=spec()),
        NodeRecord("gone", "call_function", "aten.sin.default", inputs=("mul",), outputs=spec()),
    )
    captures = (CompileCapture("0/0", graphs={"forward": GraphRecord("forward", nodes)}),)
    record = SessionRecord(
        "s", "2026", "m", "default", False, "2.13", "0.1", captures=captures, error_budget=BUDGET, **more
    )
    panel = DebugPanel(record, LiveParts())
    open_tab(panel, "budget")
    return panel


def test_the_ops_are_ranked_with_lines_and_what_was_seen() -> None:
    panel = opened()
    assert [tab["title"] for tab in panel.header["tabs"]][-1] == "Error budget"
    head = panel.budget["head"]
    assert head[0].startswith("logits is off by 0.004")
    assert "in bfloat16 throughout, float32 sums; the ops below add up to" in head[0]
    assert "38% of the variance is not explained" in head[0]
    assert head[1] == "1 of 3 ops makes half of it, 1 makes 90%"
    first, second, third = panel.budget["rows"]
    assert (first["op"], first["share"], first["bar"]) == ("add", "90.0%", 100.0)
    assert first["facts"] == "alone 0.003 → 0.0031 · without it 0.000999 → 0.001"
    assert "model.py, line 7" in first["where"]
    assert first["code"] == "h = self.first(x) + 300"
    assert second["facts"] == "alone 0.0008"
    assert third["where"] == "encoder.layer.1"
    assert panel.budget["notes"] == ["one note"]


def test_the_graph_is_coloured_by_it_and_the_largest_is_chosen() -> None:
    panel = opened()
    assert panel.graph_paint["title"] == "Share of the error"
    assert [entry["text"] for entry in panel.graph_paint["legend"]] == ["≤ 5.0%", "> 20%"]
    assert panel.selection["node"] == "add"
    assert ask(panel, "select", selection=panel.budget["rows"][2]["selection"]) == ""
    assert panel.selection["node"] == "mul"


def test_an_op_that_no_graph_has_is_not_linked() -> None:
    assert opened().budget["rows"][1]["selection"] is None, "a node of that name is another op"


def test_a_prescription_stands_with_it() -> None:
    found = Prescription("logits", "bfloat16", 3, SHARES[:1], 9.0, 0.9, 1.1, 64, (), (":add",), 1, 128, "bfloat16")
    lines = opened(prescription=found).budget["prescription"]
    assert any("1 of 3 ops in float32 0.9×" in line for line in lines)
    assert any('keep_precise=[":add"]' in line for line in lines)
