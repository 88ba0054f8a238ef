"""The KernelDiff tab's Python half; a browser draws the rest."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from panel_requests import ask, open_tab

from inductor_debug_jupyter.jupyter.panel import DebugPanel
from inductor_debug_jupyter.jupyter.panel.diff_charts import powers_of_ten
from inductor_debug_jupyter.jupyter.panel.live_parts import LiveParts
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    Culprit,
    DiffRecord,
    GraphRecord,
    Heatmap,
    LocalizationRecord,
    NodeError,
    NodeRecord,
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


def opened(diff: DiffRecord | None, live: LiveParts | None = None, **more: Any) -> DebugPanel:
    record = SessionRecord("s", "2026", "m", "default", False, "2.13", "0.1", diff=diff, **more)
    panel = DebugPanel(record, live or LiveParts())
    open_tab(panel, "diff")
    return panel


def test_it_opens_on_the_worst_output() -> None:
    panel = opened(RECORD)
    assert panel.diff_shown == "logits"
    assert [output["path"] for output in panel.diff["outputs"]] == ["logits", "fine"]
    assert ask(panel, "show_output", path="fine") == ""
    assert panel.diff_shown == "fine"
    assert ask(panel, "show_output", path="none") == "the comparison has no output 'none'"


def test_a_pick_is_answered_with_the_elements() -> None:
    panel = opened(RECORD)
    assert ask(panel, "pick_diff_cell", path="logits", row=1, column=1) == ""
    assert panel.diff_place == {"path": "logits", "row": 1, "column": 1, "first": [2, 3], "last": [3, 5], "error": 0.25}


def test_a_pick_that_makes_no_sense_shows_up() -> None:
    panel = opened(RECORD)
    assert "no such cell" in ask(panel, "pick_diff_cell", path="logits", row=9, column=9)
    assert panel.diff_place == {}
    assert "missing required field `row`" in ask(panel, "pick_diff_cell", path="logits")


def test_without_outputs_there_is_still_a_tab() -> None:
    panel = opened(DiffRecord("m", "eager", "inductor", "not_compared", notes=("it raised",)))
    assert panel.diff_shown == ""
    assert panel.diff["summary"] == "NOTHING WAS COMPARED"
    assert panel.diff["notes"] == ["it raised"]


def test_without_widgets_there_is_text() -> None:
    data, _ = opened(RECORD)._repr_mimebundle_()
    assert "KernelDiff: 1 output differs" in data["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in data


def test_a_live_output_is_looked_at_from_any_side() -> None:
    reference = torch.zeros(2, 3, 40, 50)
    candidate = reference.clone()
    candidate[1, 2, 30, 44] = 5.0
    output = OutputDiff("y", "mismatch", shape=(2, 3, 40, 50), max_error_indices=(1, 2, 30, 44), mismatch_percentage=1)
    record = DiffRecord("m", "eager", "inductor", "mismatch", (output,))
    panel = opened(record, LiveParts(pairs=LivePairs({"y": (reference, candidate)})))
    assert panel.diff["live"] == ["y"]
    assert panel.diff_slice["at"] == [1, 2, 30, 44]
    assert max(panel.diff_slice["values"]) == 5.0
    window = {"measure": "signed", "window": [28, 40, 5, 8], "at": [1, 2, 0, 0]}
    assert ask(panel, "show_diff_slice", path="y", **window) == ""
    assert [30, 44, "0", "5"] in panel.diff_slice["elements"]
    assert "measure='odd'" in ask(panel, "show_diff_slice", path="y", measure="odd")


def test_the_curve_chooses_nodes_and_the_histogram_follows_the_output() -> None:
    nodes = (
        NodeError("forward", "erf", "aten.erf.default", "introduced", 0.1, 1e-6, 0.1, 1e-6),
        NodeError("forward", "mul", "aten.mul.Tensor", "amplified", 1e-7, 1e-6, 0.4, 1e-6),
    )
    localization = LocalizationRecord("m", "inductor", (Culprit("aten.erf.default", "erf", "forward"),), nodes)
    output = OutputDiff("y", "mismatch", mismatch_percentage=1.0, histogram=((0.0, 0.0, 7), (0.5, 1.0, 3)))
    record = DiffRecord("m", "eager", "inductor", "mismatch", (output, OutputDiff("z", "match")))
    drawn = (
        NodeRecord("erf", "call_function", "aten.erf.default"),
        NodeRecord("mul", "call_function", "aten.mul.Tensor", ("erf",)),
    )
    graph = GraphRecord("forward", drawn)
    captures = (CompileCapture("0/0", graphs={"forward": graph}),)
    panel = opened(record, localization=localization, captures=captures)
    assert panel.diff["culprits"][0]["op"] == "aten.erf.default"
    assert set(panel.widgets) == {"histogram", "error_curve"}
    dots = panel.widgets["error_curve"].marks[-1]
    dots._handle_custom_msgs(dots, {"event": "element_click", "data": {"index": 1}})
    assert (panel.selection["stage"], panel.selection["node"]) == ("forward", "mul")
    assert "amplified from upstream" in panel.diff_point
    histogram = panel.widgets["histogram"]
    ask(panel, "show_output", path="z")
    assert set(panel.widgets) == {"error_curve"}
    assert histogram.comm is None, "a chart that is not shown any more is closed"


def test_a_search_alone_has_its_tab_too() -> None:
    nodes = (NodeError("forward", "erf", "aten.erf.default", "introduced", 0.1, 1e-6),)
    found = LocalizationRecord("m", "inductor", (Culprit("aten.erf.default", "erf", "forward"),), nodes)
    panel = opened(None, localization=found)
    assert [tab["id"] for tab in panel.header["tabs"] if tab["kind"] == "error"] == ["diff"]
    assert "session.diff()" in panel.diff["notes"][0]
    assert set(panel.widgets) == {"error_curve"}


@pytest.mark.parametrize(
    ("values", "ticks"),
    [([1, 7], [1, 10]), ([1, 512], [1, 10, 100, 1000]), ([3e-7, 2e4], [1e-7, 1e-4, 1e-1, 1e2]), ([5.0], [10.0])],
)
def test_ticks_of_a_logarithmic_axis_are_few_powers_of_ten(values: list[float], ticks: list[float]) -> None:
    assert powers_of_ten(values) == pytest.approx(ticks)
