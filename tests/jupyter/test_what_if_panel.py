"""The What if tab without a browser: what the form offers, what is tried, and what goes wrong in one line."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.jupyter.display import make_panel
from inductor_debug_jupyter.jupyter.panels import DebugPanel
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.store import ArtifactStore

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(70, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(nn.functional.gelu(self.up(x)), 1)


def opened(**options: Any) -> tuple[DebugSession, DebugPanel]:
    with capture(eager=True, lower="aot", target="stick128", **options) as session, torch.no_grad():
        Net()(torch.randn(2, 70))
    panel = make_panel(session)
    assert panel.trying.form == {}, "filled when it is first looked at"
    panel.header.tab = "what_if"
    assert panel.header.error == ""
    return session, panel


def ask(panel: DebugPanel, **asked: Any) -> None:
    """What the browser does."""
    panel.trying.asked = {**asked, "at": len(panel.trying.trials) + 1}


def test_the_form_says_what_can_be_changed_and_what_it_is() -> None:
    _, panel = opened(keep_inputs=True)
    form = panel.trying.form
    assert form["target"] == "stick128"
    assert {"default", "stick128", "systolic128"} <= set(form["targets"])
    assert (form["alignment"], form["dtype"], form["max_memory"]) == ("64", "float32", "119 GiB")
    assert form["batch"] == {"size": 2, "where": "dimension 0 of x", "why": ""}
    assert form["sequence"]["size"] is None
    assert "cannot be told" in form["sequence"]["why"]
    refused = {"addmm": "on the CPU"}  # 70 is not aligned
    assert {op["op"]: op["now"] for op in form["ops"]} == {
        **dict.fromkeys(("gelu", "cumsum"), "on the target"),
        **refused,
    }
    assert {op["op"]: op["parts"] for op in form["ops"]}["gelu"] == "erf, mul, add"
    assert form["why_not"] == ""


def test_trials_are_listed_with_before_and_after_and_can_be_saved() -> None:
    session, panel = opened(keep_inputs=True)
    ask(panel, changes={"batch": "64", "target": ""})
    pane = panel.trying
    assert (pane.error, pane.busy, pane.shown) == ("", "", 0)
    (trial,) = pane.trials
    assert trial["title"] == "batch 2 → 64 (dimension 0 of x)"
    assert trial["summary"] == "changes transfers and memory"
    changed = [row for row in trial["figures"] if row["kind"] != "same"]
    assert [row["name"] for row in changed][-1:] == ["peak memory"]
    assert {(row["sign"], row["kind"]) for row in changed} == {("▲", "worse")}
    assert [row["kind"] for row in trial["findings"]] == ["same"]
    ask(panel, changes={"fallback": ["cumsum"], "decompose": {"gelu": True}, "alignment": "32"})
    assert pane.trials[1]["title"] == "alignment 64 → 32, gelu in parts: erf, mul, add, cumsum on the CPU"
    assert pane.shown == 1
    assert [each.title for each in session.trials] == [each["title"] for each in pane.trials]
    pane.wanted = {"save": 0, "at": 1}
    assert pane.trials[0]["saved"] == session.trials[0].session.id
    assert pane.shown == 0
    assert {saved.id for saved in ArtifactStore("debug_artifacts").sessions()} == {
        session.id,
        session.trials[0].session.id,
    }
    again = make_panel(session)
    again.header.tab = "what_if"
    assert len(again.trying.trials) == 2, "another panel of the session lists them too"


def test_a_chosen_node_is_tried_alone() -> None:
    session, panel = opened()
    graph = session.captures[0].graph("forward")
    node = next(each.name for each in graph.calls if "gelu" in each.target)
    place = {"node": node, "compile_id": session.captures[0].compile_id, "stage": "forward"}
    ask(panel, node={**place, "do": "cpu"})
    assert panel.trying.error == ""
    assert panel.trying.trials[0]["title"] == f"node {node} on the CPU"
    ask(panel, node={**place, "do": "parts"})
    assert panel.trying.trials[1]["title"] == "gelu in parts: erf, mul, add"
    ask(panel, node={**place, "node": "nobody", "do": "cpu"})
    assert "forward has no node 'nobody'" in panel.trying.error


def test_what_goes_wrong_is_one_line_in_the_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    session, panel = opened()
    assert panel.trying.form["why_not"].startswith("no model call was kept")
    for changes, told in (
        ({}, "nothing to try; allowed: target="),
        ({"batch": "many"}, "batch='many'; allowed: a whole number from 1 up"),
        ({"batch": "3"}, "no model call was kept to run again"),
        ({"alignment": "x"}, "alignment: 'x' is not allowed"),
    ):
        ask(panel, changes=changes)
        assert told in panel.trying.error
        assert panel.trying.busy == ""
    ask(panel, changes={"alignment": "32"})
    assert panel.trying.error == "", "what was wrong before is gone"
    monkeypatch.setattr(session, "try_out", lambda **changes: 1 / 0)
    panel.trying.asked = {"changes": {"alignment": "16"}, "at": 99}
    assert panel.trying.error == "ZeroDivisionError: division by zero"
    assert panel.header.error == ""


def test_somebody_who_waits_is_told_what_is_being_done() -> None:
    _, panel = opened(keep_inputs=True)
    told: list[str] = []
    panel.trying.observe(lambda change: told.append(change["new"]), names="busy")
    ask(panel, changes={"batch": "4"})
    assert told[0] == "Trying …"
    assert any("tracing Python" in each for each in told)
    assert told[-1] == ""


def test_without_a_session_there_is_no_such_tab() -> None:
    session, panel = opened()
    assert [tab["id"] for tab in panel.header.view["tabs"]][-1] == "what_if"
    alone = DebugPanel(session.record)
    assert "what_if" not in [tab["id"] for tab in alone.header.view["tabs"]]


def test_in_a_kernel_after_the_magic(kernel: Any) -> None:
    cell = """%%inductor_debug --lower aot --target stick128 --diff --candidate aot_eager --no-panel --as session
net = torch.nn.Linear(70, 64)
with torch.no_grad():
    net(torch.ones(1, 70))"""
    assert not kernel.run(cell).error
    assert kernel.value("str(session.try_out(batch=64).changes)") == "'changes memory and nothing else'"
    told = kernel.run("print(session.trials[0])").stdout
    assert "What if: batch 1 → 64 (dimension 0 of input)" in told
