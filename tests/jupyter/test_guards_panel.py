"""The Guards tab's Python half."""

from __future__ import annotations

import json

from inductor_debug_jupyter.jupyter.panels.asset import Pane
from inductor_debug_jupyter.jupyter.panels.guards import GuardsPanel
from inductor_debug_jupyter.pipeline.records import CompileCapture, Guard, SessionRecord, SourceLine
from inductor_debug_jupyter.pipeline.views.guards import guards_view

RECORD = SessionRecord(
    id="s",
    created="",
    name="f",
    target="",
    strict=False,
    torch_version="",
    tool_version="",
    captures=(CompileCapture("0/0", "f"),),
    guards=(
        Guard("0/0", "CONSTANT_MATCH", "L['n']", ("L['n'] == 2",), SourceLine("c", 2, "<b>x</b>", "f", "In [1]")),
        Guard("0/0", "GRAD_MODE", ""),
    ),
)


def test_it_is_given_the_view_as_json() -> None:
    panel = GuardsPanel(view=dict(guards_view(RECORD)), tab="guards", tabs=["guards"])
    assert isinstance(panel, Pane)
    sent = json.loads(json.dumps(panel.get_state(["view"])))["view"]
    assert [row["trouble"] for row in sent["rows"]] == ["number", "state"]
    assert sent["rows"][0]["code"] == "<b>x</b>"
    assert sent["total"] == 2
    assert sent["graphs"] == {"0/0": "f"}


def test_every_kind_of_trouble_has_a_hint_and_an_icon() -> None:
    view = guards_view(RECORD)
    script = str(GuardsPanel._esm)
    icons = script.split("TROUBLE_ICONS = {")[1].split("}")[0]
    for trouble, hint in view["hints"].items():
        assert hint
        assert f"{trouble}:" in icons
