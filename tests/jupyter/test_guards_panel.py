"""The Guards tab without a browser: the timeline is drawn when it is opened, and "what if" is answered in Python."""

from __future__ import annotations

import pytest
import torch
from panel_requests import ask, open_tab

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.jupyter.display import make_panel
from inductor_debug_jupyter.pipeline.session import DebugSession

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@torch.compile(backend="eager")
def scale(x, n):
    return x * n


def seen():
    with capture(lower="dynamo") as session:
        scale(torch.ones(4, 3), 2)
        scale(torch.ones(7, 3), 2)
    return session


def test_the_timeline_is_drawn_when_the_tab_is_opened_and_a_bar_selects():
    session = seen()
    panel = make_panel(session)
    assert (panel.widgets, panel.guards["rows"]) == ({}, [])
    open_tab(panel, "guards")
    assert len(panel.guards["rows"]) > 1
    bars = panel.widgets["timeline"].marks[0]
    names = [f"{each.compile_id} · call {at}" for at, each in enumerate(session.captures, 1)]
    assert list(bars.x) == [names[0], *(f"↻ {name}" for name in names[1:])]
    assert all(seconds > 0 for seconds in bars.y)
    bars._handle_custom_msgs(bars, {"event": "element_click", "data": {"index": 1}})
    assert session.selection["compile_id"] == session.captures[1].compile_id
    assert session.selection["line"] == session.recompiles[0].source.line


def test_what_if_is_answered_and_bad_text_is_told():
    panel = make_panel(seen())
    assert panel.guard_inputs == {
        "function": "scale",
        "functions": ["scale"],
        "texts": {"x": "float32[4, 3]", "n": "2"},
    }

    def answer(changes, grad=True):
        assert ask(panel, "would_recompile", function="scale", changes=changes, grad=grad) == ""
        return panel.guard_answer

    assert answer({})["answer"] == "no"
    told = answer({"n": "3"})
    assert (told["answer"], told["reason"], told["code"]) == ("yes", "n was 2, now 3", "return x * n")
    assert "torch.tensor(2)" in told["hint"]
    assert answer({}, grad=False)["reason"] == "grad_mode was True, now False"
    assert "is not allowed" in ask(panel, "would_recompile", function="scale", changes={"n": "oops"})
    assert panel.guard_answer == {}


def test_a_loaded_session_has_nobody_to_ask(tmp_path):
    loaded = DebugSession.load(seen().save(tmp_path / "s.json"))
    panel = make_panel(loaded)
    assert panel.guard_inputs == {}
    open_tab(panel, "guards")
    assert list(panel.widgets) == ["timeline"]
    assert "there are no guards to ask" in ask(panel, "would_recompile", function="scale")
