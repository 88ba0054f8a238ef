"""The KernelDiff tab's Python half; a browser draws the rest."""

from __future__ import annotations

import torch

from inductor_debug_jupyter.jupyter.panels.debug import DebugPanel
from inductor_debug_jupyter.jupyter.panels.diff_charts import DiffCharts
from inductor_debug_jupyter.jupyter.panels.kernel_diff import KernelDiffPanel
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.records import (
    Culprit,
    DiffRecord,
    Heatmap,
    LocalizationRecord,
    NodeError,
    OutputDiff,
    SessionRecord,
)

OUTPUT = OutputDiff(
    "logits",
    "mismatch",
    "far off",
    shape=(4, 6),
    max_absolute_error=0.5,
    mismatch_percentage=4.0,
    max_error_indices=(0, 4),
    heatmap=Heatmap(2, 2, (0.0, 0.5, 0.0, 0.25), 4, 6),
)
RECORD = DiffRecord("m", "eager", "inductor", "mismatch", (OutputDiff("fine", "match"), OUTPUT))


def test_it_opens_on_the_worst_output() -> None:
    panel = KernelDiffPanel(RECORD)
    assert panel.chosen == "logits"
    assert [output["path"] for output in panel.view["outputs"]] == ["logits", "fine"]
    assert panel.tabs == ["diff"]
    assert panel.tab == "diff"
    assert KernelDiffPanel(RECORD, tab="overview").tab == "overview"


def test_a_pick_is_answered_with_the_elements() -> None:
    panel = KernelDiffPanel(RECORD)
    heard: list[dict[str, object]] = []
    panel.observe(lambda change: heard.append(change["new"]), names="place")
    panel.picked = {"path": "logits", "row": 1, "column": 1}
    assert heard == [{"path": "logits", "row": 1, "column": 1, "first": [2, 3], "last": [3, 5], "error": 0.25}]
    assert panel.error == ""


def test_a_pick_that_makes_no_sense_shows_up() -> None:
    panel = KernelDiffPanel(RECORD)
    panel.picked = {"path": "logits", "row": 9, "column": 9}
    assert "no such cell" in panel.error
    assert panel.place == {}
    panel.picked = {"path": "logits"}
    assert panel.error == "KeyError: 'row'"
    panel.picked = {"path": "logits", "row": 0, "column": 0}
    assert panel.error == ""


def test_without_outputs_there_is_still_a_panel() -> None:
    panel = KernelDiffPanel(DiffRecord("m", "eager", "inductor", "not_compared", notes=("it raised",)))
    assert panel.chosen == ""
    assert panel.view["summary"] == "NOTHING WAS COMPARED"
    assert panel.view["notes"] == ["it raised"]


def test_without_widgets_there_is_text() -> None:
    data, _ = KernelDiffPanel(RECORD)._repr_mimebundle_()
    assert data["text/plain"].startswith("✗ m: eager against inductor")
    assert "application/vnd.jupyter.widget-view+json" in data


def test_a_live_output_is_looked_at_from_any_side() -> None:
    reference = torch.zeros(2, 3, 40, 50)
    candidate = reference.clone()
    candidate[1, 2, 30, 44] = 5.0
    output = OutputDiff("y", "mismatch", shape=(2, 3, 40, 50), max_error_indices=(1, 2, 30, 44), mismatch_percentage=1)
    record = DiffRecord("m", "eager", "inductor", "mismatch", (output,))
    panel = KernelDiffPanel(record, LivePairs({"y": (reference, candidate)}))
    assert panel.live == ["y"]
    panel.wanted = {"path": "y", "asked": 1}
    assert panel.part["at"] == [1, 2, 30, 44]
    assert max(panel.part["values"]) == 5.0
    panel.wanted = {"path": "y", "asked": 2, "measure": "signed", "window": [28, 40, 5, 8], "at": [1, 2, 0, 0]}
    assert [30, 44, "0", "5"] in panel.part["elements"]
    panel.wanted = {"path": "y", "asked": 3, "measure": "odd"}
    assert "measure='odd'" in panel.error


def test_the_curve_chooses_nodes_and_the_histogram_follows_the_output() -> None:
    nodes = (
        NodeError("forward", "erf", "aten.erf.default", "introduced", 0.1, 1e-6, 0.1, 1e-6),
        NodeError("forward", "mul", "aten.mul.Tensor", "amplified", 1e-7, 1e-6, 0.4, 1e-6),
    )
    localization = LocalizationRecord("m", "inductor", (Culprit("aten.erf.default", "erf", "forward"),), nodes)
    output = OutputDiff("y", "mismatch", mismatch_percentage=1.0, histogram=((0.0, 0.0, 7), (0.5, 1.0, 3)))
    record = DiffRecord("m", "eager", "inductor", "mismatch", (output, OutputDiff("z", "match")))
    panel = KernelDiffPanel(record, localization=localization)
    assert panel.view["culprits"][0]["op"] == "aten.erf.default"
    chosen: list[tuple[str, str]] = []
    charts = DiffCharts(panel, localization, lambda graph, node: chosen.append((graph, node)))
    assert charts.children == ()
    charts.enter()
    assert len(charts.children) == 2
    charts._clicked(None, {"data": {"index": 1}})
    assert chosen == [("forward", "mul")]
    assert "amplified from upstream" in charts._caption.value
    panel.chosen = "z"
    assert len(charts.children) == 1


def test_a_search_alone_has_its_tab_too() -> None:
    nodes = (NodeError("forward", "erf", "aten.erf.default", "introduced", 0.1, 1e-6),)
    found = LocalizationRecord("m", "inductor", (Culprit("aten.erf.default", "erf", "forward"),), nodes)
    record = SessionRecord("s", "2026", "m", "default", False, "2.13", "0.1", localization=found)
    panel = DebugPanel(record)
    assert [tab["id"] for tab in panel.header.view["tabs"] if tab["kind"] == "error"] == ["diff"]
    assert "session.diff()" in panel.kernel_diff.view["notes"][0]
    panel.header.tab = "diff"
    assert panel.charts is not None
    assert len(panel.charts.children) == 1
