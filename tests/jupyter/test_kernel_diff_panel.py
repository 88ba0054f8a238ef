"""The KernelDiff tab's Python half; a browser draws the rest."""

from __future__ import annotations

from inductor_debug_jupyter.jupyter.panels.kernel_diff import KernelDiffPanel
from inductor_debug_jupyter.pipeline.records import DiffRecord, Heatmap, OutputDiff

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
