"""The What if tab without a browser: what the form offers, what is tried, and what goes wrong in one line."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from panel_requests import ask, open_tab
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.jupyter.display import make_panel
from inductor_debug_jupyter.jupyter.panel import DebugPanel
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
    assert panel.what_if == {}, "filled when it is first looked at"
    open_tab(panel, "what_if")
    return session, panel


def test_the_form_says_what_can_be_changed_and_what_it_is() -> None:
    _, panel = opened(keep_inputs=True)
    form = panel.what_if
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
    assert ask(panel, "try_out", changes={"batch": "64", "target": ""}) == ""
    assert panel.trial_shown == 0
    (trial,) = panel.trials
    assert trial["title"] == "batch 2 → 64 (dimension 0 of x)"
    assert trial["summary"] == "changes transfers and memory"
    changed = [row for row in trial["figures"] if row["kind"] != "same"]
    assert [row["name"] for row in changed][-1:] == ["peak memory"]
    assert {(row["sign"], row["kind"]) for row in changed} == {("▲", "worse")}
    assert [row["kind"] for row in trial["findings"]] == ["same"]
    assert ask(panel, "try_out", changes={"fallback": ["cumsum"], "decompose": {"gelu": True}, "alignment": "32"}) == ""
    assert panel.trials[1]["title"] == "alignment 64 → 32, gelu decomposed into erf, mul, add, cumsum on the CPU"
    assert panel.trial_shown == 1
    assert [each.title for each in session.trials] == [each["title"] for each in panel.trials]
    assert ask(panel, "save_trial", trial=0) == ""
    assert panel.trials[0]["saved"] == session.trials[0].session.id
    assert panel.trial_shown == 0
    assert ask(panel, "show_trial", trial=1) == ""
    assert panel.trial_shown == 1
    assert "no what-if number 9" in ask(panel, "save_trial", trial=9)
    assert {saved.id for saved in ArtifactStore("debug_artifacts").sessions()} == {
        session.id,
        session.trials[0].session.id,
    }
    again = make_panel(session)
    open_tab(again, "what_if")
    assert len(again.trials) == 2, "another panel of the session lists them too"


def test_a_chosen_node_is_tried_alone() -> None:
    session, panel = opened()
    graph = session.captures[0].graph("forward")
    node = next(each.name for each in graph.calls if "gelu" in each.target)
    place = {"node": node, "compile_id": session.captures[0].compile_id, "stage": "forward"}
    assert ask(panel, "try_out", node={**place, "do": "cpu"}) == ""
    assert panel.trials[0]["title"] == f"node {node} on the CPU"
    assert ask(panel, "try_out", node={**place, "do": "parts"}) == ""
    assert panel.trials[1]["title"] == "gelu decomposed into erf, mul, add"
    assert "forward has no node 'nobody'" in ask(panel, "try_out", node={**place, "node": "nobody", "do": "cpu"})


def test_what_goes_wrong_is_one_line_in_the_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    session, panel = opened()
    assert panel.what_if["why_not"].startswith("no model call was kept")
    for changes, told in (
        ({}, "nothing to try; allowed: target="),
        ({"batch": "many"}, "batch='many'; allowed: a whole number from 1 up"),
        ({"batch": "3"}, "no model call was kept to run again"),
        ({"alignment": "x"}, "alignment: 'x' is not allowed"),
    ):
        assert told in ask(panel, "try_out", changes=changes)
    assert ask(panel, "try_out", changes={"alignment": "32"}) == "", "what was wrong before is gone"
    monkeypatch.setattr(session, "try_out", lambda **changes: 1 / 0)
    assert ask(panel, "try_out", changes={"alignment": "16"}) == "ZeroDivisionError: division by zero"
    assert panel.trouble == ""


def test_somebody_who_waits_is_told_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    _, panel = opened(keep_inputs=True)
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(panel, "send", told.append)
    assert ask(panel, "try_out", changes={"batch": "4"}) == ""
    assert {(each["answer"], each["id"]) for each in told} == {("progress", 7)}
    assert any("tracing Python" in each["text"] for each in told)


def test_without_a_session_there_is_no_such_tab() -> None:
    session, panel = opened()
    assert [tab["id"] for tab in panel.header["tabs"]][-1] == "what_if"
    alone = DebugPanel(session.record)
    assert "what_if" not in [tab["id"] for tab in alone.header["tabs"]]


def test_in_a_kernel_after_the_magic(kernel: Any) -> None:
    cell = """%%inductor_debug --lower aot --target stick128 --diff --candidate aot_eager --no-panel --as session
net = torch.nn.Linear(70, 64)
with torch.no_grad():
    net(torch.ones(1, 70))"""
    assert not kernel.run(cell).error
    assert kernel.value("str(session.try_out(batch=64).changes)") == "'changes memory and nothing else'"
    told = kernel.run("print(session.trials[0])").stdout
    assert "What if: batch 1 → 64 (dimension 0 of input)" in told
