"""The panel's Python half; what a browser does with it is in ``tests/browser``."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import ipywidgets
import pytest
from comm import DummyComm
from panel_requests import ask, open_tab

import inductor_debug_jupyter.jupyter.panel.widget as widget
import inductor_debug_jupyter.pipeline.drawing.graph_view as graph_view
from inductor_debug_jupyter.jupyter.panel import DebugPanel, wire
from inductor_debug_jupyter.jupyter.panel.code import BEING_MADE, NOT_MADE
from inductor_debug_jupyter.jupyter.panel.live_parts import LiveParts
from inductor_debug_jupyter.jupyter.panel.widget import STOPPED
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    Culprit,
    GraphBreak,
    GraphRecord,
    LocalizationRecord,
    NodeRecord,
    Place,
    SessionRecord,
    SourceLine,
    Violation,
)
from inductor_debug_jupyter.pipeline.records.deferred_texts import DeferredTexts
from inductor_debug_jupyter.pipeline.session import DebugSession

STATIC = Path(widget.__file__).parents[1] / "static" / "panel"
LABEL = "In [1]"


def record(**changes: Any) -> SessionRecord:
    at = SourceLine("c", 2, "y = x + 1", label=LABEL)

    def graph(stage: str) -> GraphRecord:
        nodes = (
            NodeRecord("x", "placeholder", "x"),
            NodeRecord("add", "call_function", "aten.add.Tensor", ("x",), source=at),
        )
        return GraphRecord(stage, nodes)

    values: dict[str, Any] = {
        "captures": (
            CompileCapture("0/0", graphs={"dynamo": graph("dynamo"), "forward": graph("forward")}),
            CompileCapture("0/1", graphs={"forward": graph("forward")}),
        ),
        "findings": (
            Violation("b", "warning", "second", (Place("0/1", "forward", "add", source=at),)),
            Violation("a", "error", "first", (Place("0/0", "forward", "add", source=at),)),
        ),
        "sources": {LABEL: "x = 1\ny = x + 1\n"},
    }
    fixed = {
        "id": "s",
        "created": "",
        "name": "m",
        "target": "t",
        "strict": False,
        "torch_version": "",
        "tool_version": "",
    }
    return SessionRecord(**(fixed | values | changes))


def shown(panel: DebugPanel) -> tuple[str, str]:
    return panel.graph["compile_id"], panel.graph["stage"]


def test_it_opens_on_the_worst_finding_with_its_graph() -> None:
    panel = DebugPanel(record())
    assert panel.tab == "findings"
    assert panel.selection["finding"] == 1
    assert shown(panel) == ("0/0", "forward")
    assert panel.node["node"] == "add"


def test_a_click_tells_python_and_draws_the_other_graph() -> None:
    heard: list[dict[str, Any]] = []
    panel = DebugPanel(record(), LiveParts(on_select=heard.append))
    clicked = panel.findings[1]["selection"]
    assert ask(panel, "select", selection=clicked) == ""
    assert heard == [clicked]
    assert panel.selection == clicked
    assert shown(panel) == ("0/1", "forward")
    assert panel.trouble == ""


def test_python_selects_the_same_way() -> None:
    heard: list[dict[str, Any]] = []
    panel = DebugPanel(record(), LiveParts(on_select=heard.append))
    panel.select(finding=0)
    assert shown(panel) == ("0/1", "forward")
    panel.select(node="add")
    assert panel.selection["compile_id"] == "0/1"
    panel.select(line=2)
    assert panel.selection == heard[-1]
    assert panel.selection["line"] == 2


def test_two_panels_that_follow_each_other_agree_and_stop() -> None:
    heard: list[dict[str, Any]] = []
    one, two = DebugPanel(record()), DebugPanel(record(), LiveParts(on_select=heard.append))
    one.panes.on_select, two_hears = two.follow, heard.append

    def both(selection: dict[str, Any]) -> None:
        two_hears(selection)
        one.follow(selection)

    two.panes.on_select = both
    one.select(finding=0)
    assert two.selection == one.selection == heard[0]
    assert len(heard) == 1
    assert shown(two) == ("0/1", "forward")


def test_a_wrong_selection_is_refused() -> None:
    panel = DebugPanel(record())
    with pytest.raises(UsageError, match="exactly one"):
        panel.select()
    with pytest.raises(UsageError, match="exactly one"):
        panel.select(node="add", line=2)
    with pytest.raises(NotFoundError, match="nobody"):
        panel.select(node="nobody")


def test_an_error_in_a_callback_is_shown() -> None:
    def broken(selection: dict[str, Any]) -> None:
        raise ValueError("my callback is broken")

    panel = DebugPanel(record(), LiveParts(on_select=broken))
    assert ask(panel, "select", selection=panel.findings[1]["selection"]) == "ValueError: my callback is broken"
    assert panel.selection == panel.findings[1]["selection"], "it is chosen all the same"
    assert panel.trouble == ""
    panel.select(finding=1)
    assert panel.trouble == "ValueError: my callback is broken", "nobody asked in the page: the header says it"
    assert ask(panel, "dismiss") == ""
    assert panel.trouble == ""


def test_a_graph_that_cannot_be_drawn_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = DebugPanel(record())

    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr(graph_view, "place", fail)
    assert ask(panel, "show_graph", compile_id="0/0", stage="dynamo") == "RuntimeError: no ink"
    assert shown(panel) == ("0/0", "forward")
    assert panel.graph["answers"] == {"compile_id": "0/0", "stage": "dynamo"}
    assert "could not be drawn" in panel.graph["note"]


def test_each_graph_is_laid_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    real = graph_view.place

    def counted(drawing: Any, **options: Any) -> Any:
        calls.append(drawing)
        return real(drawing, **options)

    monkeypatch.setattr(graph_view, "place", counted)
    panel = DebugPanel(record())
    for finding in (0, 1, 0, 1):
        panel.select(finding=finding)
    assert len(calls) == 2


def layers(*findings: Violation) -> SessionRecord:
    nodes = tuple(
        NodeRecord(
            f"op_{number}", "call_function", f"aten.op{number % 7}.default", (f"op_{number - 1}",), (),
            f"layers.{number // 100}.part{number // 10 % 10}",
        )
        for number in range(1_000)
    )  # fmt: skip
    capture = CompileCapture("0/0", graphs={"forward": GraphRecord("forward", nodes)})
    return record(captures=(capture,), findings=findings)


def boxes(panel: DebugPanel) -> list[str]:
    return [node["box"] for node in panel.graph["nodes"].values() if node["kind"] == "group"]


def act(panel: DebugPanel, what: str, **more: Any) -> None:
    """What the browser does."""
    assert ask(panel, "graph_action", do=what, **more) == ""


def test_a_box_opens_and_closes_and_python_can_do_the_same() -> None:
    session = DebugSession.of_record(layers())
    panel = DebugPanel(session.record, LiveParts(views=session.graph_views))
    open_tab(panel, "graph")
    act(panel, "collapse_all")
    act(panel, "expand", box="layers.3")
    assert "layers.3.part2" in boxes(panel)
    assert panel.graph["anchor"] == "layers.3"
    act(panel, "collapse", box="layers.3")
    assert "layers.3" in boxes(panel)
    session.graph_views.of().expand("layers.4.part1")
    assert "op_415" in [node["node"] for node in panel.graph["nodes"].values()], "the panel follows"
    act(panel, "expand_all")
    assert len(panel.graph["nodes"]) >= 1_000
    assert "Invalid enum value 'fly'" in ask(panel, "graph_action", do="fly")


def test_a_finding_in_a_closed_box_opens_it() -> None:
    far = Violation("a", "error", "far", (Place("0/0", "forward", "op_950"),))
    near = Violation("b", "error", "near", (Place("0/0", "forward", "op_250"),))
    panel = DebugPanel(layers(far, near))
    for finding, node in ((0, "op_950"), (1, "op_250")):
        panel.select(finding=finding)
        (lit,) = panel.graph_lit["ids"]
        assert panel.graph["nodes"][lit]["names"] == [node]
    assert panel.trouble == ""


def test_search_and_colours_are_answered() -> None:
    panel = DebugPanel(layers())
    open_tab(panel, "graph")
    assert ask(panel, "search_graph", text="op_77") == ""
    assert panel.graph_found["count"] == 11
    assert ask(panel, "select_node", node="op_777") == ""
    assert panel.selection["node"] == "op_777"
    (lit,) = panel.graph_lit["ids"]
    assert panel.graph_found["of"][lit] == 1, "what was found is told again for the new picture"
    panel = DebugPanel(record(findings=()))
    open_tab(panel, "graph")
    assert panel.graph["colours"] == [["nothing", "Findings only"]], "these nodes have no tensors"


def test_without_findings_no_graph_is_laid_out_before_its_tab_opens() -> None:
    panel = DebugPanel(record(findings=()))
    assert panel.tab == "overview"
    assert panel.graph["svg"] == ""
    open_tab(panel, "graph")
    assert "<svg" in panel.graph["svg"]


def test_an_empty_session_has_a_panel() -> None:
    panel = DebugPanel(record(captures=(), findings=(), sources={}))
    assert "NOTHING WAS CHECKED" in panel.overview["verdict"]
    assert [tab["id"] for tab in panel.header["tabs"]] == ["overview"]


def test_show_displays_the_widget_and_then_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs: list[Any] = []
    monkeypatch.setattr(widget, "display", lambda shown, **options: outputs.append(shown))
    panel = DebugPanel(record())
    panel.show()
    assert outputs[0] is panel
    assert "Static snapshot" in outputs[1].data


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("select", "Expected `object`, got `str`"),
        ({"id": 7}, "Object missing required field `ask`"),
        ({"ask": "fly", "id": 7}, "Invalid value 'fly' - at `$.ask`"),
        ({"ask": "open_tab", "id": 7}, "Object missing required field `tab`"),
        ({"ask": "open_tab", "id": 7, "tab": "moon"}, "there is no tab 'moon'; there are overview, findings, graph"),
        ({"ask": "open_tab", "id": 7, "tab": "graph", "now": 1}, "Object contains unknown field `now`"),
        ({"ask": "select", "id": 7, "selection": {"node": 3}}, "Expected `str`, got `int` - at `$.selection.node`"),
        ({"ask": "try_out", "id": 7}, "this session has nothing that could answer TryOut"),
        ({"ask": "bind_node", "id": 7, "compile_id": "", "stage": "", "node": "x"}, "there is no model to run"),
    ],
)
def test_what_makes_no_sense_is_answered_in_one_line(message: Any, line: str) -> None:
    panel = DebugPanel(record())
    answer = panel.answer(message)
    assert isinstance(answer, wire.Failed)
    assert line in answer.error
    assert "\n" not in answer.error
    assert wire.written(answer) == {"answer": "failed", "id": 7 * isinstance(message, dict), "error": answer.error}


def test_a_panel_is_one_widget_and_its_first_message_has_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("comm.create_comm", DummyComm)  # another test may have loaded ipykernel's
    sent: list[dict[str, Any]] = []
    real = widget.DebugPanel._send

    def counted(self: Any, message: dict[str, Any], buffers: Any = None) -> None:
        if self.comm is not None:
            sent.append(message)
        real(self, message, buffers)

    monkeypatch.setattr(widget.DebugPanel, "_send", counted)
    panel = DebugPanel(record())
    assert sent == [], "nothing is sent after the comm's first message"
    assert {name for name, value in panel.get_state().items() if isinstance(value, ipywidgets.Widget)} == set()
    ask(panel, "select", selection=panel.findings[1]["selection"])
    (message,) = sent  # all that a click changes
    assert message["method"] == "update"
    assert {"selection", "graph", "node"} <= set(message["state"])


def test_the_front_end_is_offline_and_never_parses_data_as_html() -> None:
    for path in STATIC.glob("*.js"):
        code = path.read_text(encoding="utf-8").replace('"http://www.w3.org/2000/svg"', "")
        code = re.sub(r"^\s*//.*$", "", re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL), flags=re.MULTILINE)
        assert len(code) > 500
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "http", "import("):
            assert forbidden not in code, f"{path.name}: {forbidden}"
    for path in STATIC.glob("*.css"):
        assert not re.search(r"@import|url\(", path.read_text(encoding="utf-8")), path.name


def test_a_rules_page_is_sent_when_it_is_asked_for_and_a_rule_of_ones_own_has_none() -> None:
    panel = DebugPanel(
        record(findings=(Violation("align.innermost", "error", "x", ()), Violation("mine", "error", "y", ())))
    )
    assert [finding["has_page"] for finding in panel.findings] == [True, False]
    assert panel.page["blocks"] == []
    assert ask(panel, "explain_rule", rule_id="align.innermost") == ""
    assert panel.page["title"].startswith("align.innermost: ")
    assert "no rule is called 'mine'" in ask(panel, "explain_rule", rule_id="mine")


def test_a_report_is_written_by_the_session_and_a_record_alone_has_none(tmp_path: Path) -> None:
    assert "only its record" in ask(DebugPanel(record()), "write_report")
    page = tmp_path / "page.html"
    page.write_text("<p>all of it ✓</p>", encoding="utf-8")
    panel = DebugPanel(record(), LiveParts(report=lambda: page, variable="mine"))
    assert ask(panel, "write_report") == ""
    assert panel.report == {"path": str(page), "name": "page.html", "text": "<p>all of it ✓</p>"}
    assert panel.header["variable"] == "mine"


def test_without_findings_the_culprit_or_the_first_break_is_chosen() -> None:
    at = SourceLine("c", 1, "x = 1", label=LABEL)
    broken = GraphBreak("0/0", "print", at)
    panel = DebugPanel(record(findings=(), graph_breaks=(broken,)))
    assert (panel.selection["node"], panel.selection["label"], panel.selection["line"]) == ("", LABEL, 1)
    found = LocalizationRecord("m", "chip", (Culprit("aten.add.Tensor", "add", "forward"),))
    panel = DebugPanel(record(findings=(), graph_breaks=(broken,), localization=found))
    assert (panel.selection["compile_id"], panel.selection["stage"], panel.selection["node"]) == (
        "0/0",
        "forward",
        "add",
    )
    assert DebugPanel(record(findings=())).selection["line"] == 0


class _ToBeMade:
    """What Inductor has not made yet."""

    def make(self) -> Any:
        raise AssertionError("the session makes it, not the panel")


def _unfinished(complete: Any) -> DebugPanel:
    done = record().captures[0]
    texts = DeferredTexts({"code": "def call(): pass"}, _ToBeMade())
    return DebugPanel(record(captures=(replace(done, texts=texts),), findings=()), LiveParts(complete=complete))


def test_generated_code_is_being_made_and_an_interrupt_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def interrupted() -> None:
        seen.append(panel.code_document["note"])
        raise KeyboardInterrupt

    panel = _unfinished(interrupted)
    progress: list[Any] = []
    monkeypatch.setattr(panel, "send", progress.append)
    assert ask(panel, "open_tab", tab="code") == STOPPED
    assert seen == [BEING_MADE], "said before it is made"
    assert [each["text"] for each in progress] == [BEING_MADE], "and where the page waits"
    assert panel.code_document["note"] == NOT_MADE, "nothing claims to be on its way"
    assert ask(panel, "open_tab", tab="overview") == ""
    assert ask(panel, "open_tab", tab="code") == STOPPED, "it is tried again"


def test_generated_code_that_cannot_be_made_is_an_error_in_the_panel() -> None:
    def failing() -> None:
        raise OSError("no compiler")

    panel = _unfinished(failing)
    assert "no compiler" in ask(panel, "open_tab", tab="code")
    assert panel.code_document["note"] == NOT_MADE
