"""The Compare tab's Python half; what a browser does with it is in ``tests/browser/test_compare_tab.py``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from panel_requests import ask, open_tab

from inductor_debug_jupyter.jupyter.panel import DebugPanel
from inductor_debug_jupyter.jupyter.panel.live_parts import LiveParts
from inductor_debug_jupyter.pipeline.comparing import RunComparison, compare_runs
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord, NodeRecord, SessionRecord, SourceLine
from inductor_debug_jupyter.pipeline.records.deferred_texts import DeferredTexts
from inductor_debug_jupyter.pipeline.reports.comparison_snapshot import comparison_snapshot
from inductor_debug_jupyter.pipeline.reports.snapshot import MAX_BYTES

SIDES = ("before", "after")
FIXED = {"created": "", "target": "t", "strict": False, "torch_version": "", "tool_version": ""}


def graph(stage: str, ops: list[str], *, lowered: bool = False) -> GraphRecord:
    nodes = [NodeRecord("x", "placeholder", "x", role="input")]
    for number, op in enumerate(ops):
        at = SourceLine("c", number + 1, f"x = {op}(x)", label="In [1]")
        name = f"{op}_{number}" if lowered else op
        origins = (op,) if lowered else ()
        target = f"aten.{op}.default" if lowered else op
        nodes.append(NodeRecord(name, "call_function", target, (nodes[-1].name,), source=at, origins=origins))
    return GraphRecord(stage, tuple(nodes))


def run(name: str, ops: list[str]) -> SessionRecord:
    graphs = {"dynamo": graph("dynamo", ops), "forward": graph("forward", ops, lowered=True)}
    graphs["post_grad"] = graph("post_grad", [*ops, "clone"], lowered=True)
    capture = CompileCapture("0/0", graphs=graphs, name="f")
    return SessionRecord(id=name, name=f"{name} run", captures=(capture,), sources={"In [1]": "x"}, **FIXED)


OPS = ["sin", "exp", "cos", "tan"]


def compared() -> RunComparison:
    return compare_runs(run("a", OPS), run("b", ["sin", "exp", "relu", "cos", "tan"]))


def lit(panel: DebugPanel) -> list[Any]:
    return [(panel.comparison_lit[side]["selection"] or {}).get("node") for side in SIDES]


def tabs(panel: DebugPanel) -> list[str]:
    return [each["id"] for each in panel.header["tabs"]]


def test_one_request_compares_two_stages_and_opens_the_tab() -> None:
    panel = DebugPanel(run("a", OPS))
    assert "compare" not in tabs(panel)
    assert ask(panel, "compare_stages", compile_id="0/0", before="forward", after="post_grad") == ""
    assert panel.tab == "compare"
    assert tabs(panel).index("compare") == tabs(panel).index("graph") + 1
    shown = panel.comparison
    assert shown["counts"] == "5 same · 1 new"
    assert shown["pairs"][shown["shown"]].startswith("forward → post_grad · f")
    assert any(title.startswith("dynamo → forward") for title in shown["pairs"]), "the other steps are one click away"
    assert [row["status"] for row in shown["rows"]] == ["new"]
    assert lit(panel) == [None, "clone_4"], "the first difference is chosen"
    assert all(panel.comparison_graphs[side]["svg"].startswith("<svg") for side in SIDES)
    assert panel.selection["node"] == "clone_4", "and in the session, so that other tabs show it"
    assert ask(panel, "show_pair", pair=0) == ""
    assert panel.comparison["heads"] == ["before: dynamo", "after: forward"]


def test_a_choice_in_one_graph_chooses_in_the_other_and_in_the_session() -> None:
    panel = DebugPanel(run("a", OPS))
    ask(panel, "compare_stages", compile_id="0/0", before="forward", after="post_grad")
    pictures = panel.comparison_graphs
    assert ask(panel, "select_node", side="after", compile_id="0/0", stage="post_grad", node="cos_2") == ""
    assert lit(panel) == ["cos_2", "cos_2"]
    assert panel.comparison_lit["told"] == "cos_2: the same on both sides"
    assert panel.comparison_lit["acting"] == "after"
    assert panel.comparison_graphs is pictures, "pictures that did not change are not sent again"
    chosen = panel.selection
    assert (chosen["stage"], chosen["node"], chosen["line"]) == ("post_grad", "cos_2", 3), "the one that was clicked"
    assert ask(panel, "show_difference", difference=0) == ""
    assert panel.comparison_lit["row"] == 0
    open_tab(panel, "graph")
    assert panel.graph["stage"] == "post_grad", "the Graph tab follows when it is opened"
    assert panel.graph_lit["node"] == "clone_4"


def test_search_and_boxes_are_of_both_sides_and_the_graph_tab_keeps_its_own() -> None:
    panel = DebugPanel(run("a", OPS))
    open_tab(panel, "graph")
    ask(panel, "compare_stages", compile_id="0/0", before="dynamo", after="forward")
    assert ask(panel, "search_graph", side="before", text="cos") == ""
    assert [panel.comparison_found[side]["count"] for side in SIDES] == [1, 1]
    assert panel.graph_found["text"] == ""
    assert ask(panel, "graph_action", side="after", do="collapse_all") == ""
    assert ask(panel, "search_graph", text="tan") == ""
    assert panel.graph_found["text"] == "tan"
    assert panel.comparison_found["before"]["text"] == "cos"


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("compare_stages", {"compile_id": "0/0", "before": "forward", "after": "joint"}, "no graph of stage 'joint'"),
        ("compare_stages", {"compile_id": "9/9", "before": "dynamo", "after": "forward"}, "no compile '9/9'"),
        ("show_pair", {"pair": 99}, "no pair 99"),
        ("show_difference", {"difference": 99}, "no difference 99"),
        ("select_node", {"side": "before", "node": "nothing"}, "no node 'nothing'"),
        ("select_node", {"side": "left", "node": "sin"}, "does not understand"),
        ("graph_action", {"side": "before", "do": "colour", "by": "dtype"}, "colours are what changed"),
        ("show_graph", {"side": "after", "compile_id": "0/0", "stage": "post_grad"}, "no graph 0/0 post_grad here"),
    ],
)
def test_wrong_requests_are_a_line(kind: str, fields: dict[str, Any], said: str) -> None:
    panel = DebugPanel(run("a", OPS))
    ask(panel, "compare_stages", compile_id="0/0", before="dynamo", after="forward")
    assert said in ask(panel, kind, **fields)
    assert panel.comparison["heads"] == ["before: dynamo", "after: forward"], "what was there is still there"


def test_without_a_comparison_a_side_is_refused() -> None:
    panel = DebugPanel(run("a", OPS))
    assert "nothing that could answer SearchGraph" in ask(panel, "search_graph", side="before", text="x")
    assert "nothing that could answer ShowPair" in ask(panel, "show_pair", pair=0)


def test_a_comparison_of_runs_is_a_panel_that_opens_on_it() -> None:
    panel = DebugPanel.of_comparison(compared())
    assert (panel.tab, tabs(panel)[0]) == ("compare", "compare")
    shown = panel.comparison
    assert shown["changes"]["headline"].startswith("1 change")
    assert shown["changes"]["changes"][0]["kind"] == "nodes-changed"
    assert shown["heads"][0].startswith("before: a · a run")
    assert "relu" in [row["op"] for row in shown["rows"]]
    chosen = next(at for at, row in enumerate(shown["rows"]) if row["op"] == "relu")
    assert ask(panel, "show_difference", difference=chosen) == ""
    assert lit(panel)[1] is not None
    assert panel.comparison_lit["before"]["near"], "where it would be, on the other side"
    assert ask(panel, "select_node", side="before", node="cos") == ""
    assert lit(panel) == ["cos", "cos"]


def test_equal_runs_say_so() -> None:
    panel = DebugPanel.of_comparison(compare_runs(run("a", OPS), run("b", OPS)))
    assert panel.tab == "compare"
    assert panel.comparison["pairs"] == []
    assert panel.comparison["changes"]["headline"] == "nothing changed in what could be compared"


def test_a_comparison_without_its_runs_says_so() -> None:
    comparison = compared()
    assert "runs" not in comparison.to_dict()
    bare = RunComparison(comparison.before, comparison.after)
    with pytest.raises(UsageError, match="compare the sessions again"):
        DebugPanel.of_comparison(bare)


def test_the_snapshot_has_both_graphs_and_stays_small() -> None:
    html = comparison_snapshot(compared())
    assert html.count("<img ") == 2
    assert "nodes-changed" in html
    assert len(html.encode()) <= MAX_BYTES
    assert "<svg" not in html, "sanitizers take inline SVG away"
    large = compare_runs(run("a", ["sin", "exp"] * 900), run("b", ["sin", "exp", "relu"] * 600))
    assert len(comparison_snapshot(large).encode()) <= MAX_BYTES


class _ToBeMade:
    def make(self) -> Any:
        raise AssertionError("the session makes it, not the panel")


def test_a_stage_that_inductor_has_not_made_is_offered_and_made_when_it_is_asked_for() -> None:
    whole = run("a", OPS)
    graphs = {stage: whole.captures[0].graphs[stage] for stage in ("dynamo", "forward")}
    unfinished = replace(whole.captures[0], graphs=graphs, texts=DeferredTexts({}, _ToBeMade()))
    asked: list[str] = []

    def complete() -> None:
        asked.append(panel.tab)
        panel.panes.show_completed(whole)

    panel = DebugPanel(replace(whole, captures=(unfinished,)), LiveParts(complete=complete))
    assert panel.graphs_to_come == {"0/0": ["post_grad"]}
    assert ask(panel, "compare_stages", compile_id="0/0", before="dynamo", after="forward") == ""
    assert asked == [], "these two are there"
    assert ask(panel, "compare_stages", compile_id="0/0", before="forward", after="post_grad") == ""
    assert len(asked) == 1
    assert panel.comparison["heads"] == ["before: forward", "after: post_grad"]
    assert panel.graphs_to_come == {}
