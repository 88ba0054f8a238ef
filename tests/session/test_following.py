"""Every new record goes through one door, which saves it and tells who follows: panels, and the user's observers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from panel_requests import ask, open_tab
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.jupyter.panel import DebugPanel
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.store import ArtifactStore


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(70, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.up(x))


def off_by_one(graph: Any, inputs: Any) -> Any:
    """A backend that is wrong, and that a script can import."""
    return lambda *values: [out + 1 for out in graph(*values)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> DebugSession:
    torch.manual_seed(0)
    folder = str(tmp_path_factory.mktemp("artifacts"))
    with (
        capture(target="stick128", eager=True, lower="aot", keep_inputs=True, artifacts=folder) as made,
        torch.no_grad(),
    ):
        Net()(torch.randn(2, 70))
    return made


def tabs(panel: DebugPanel) -> dict[str, str]:
    return {each["id"]: each["badge"] for each in panel.header["tabs"]}


STEPS: dict[str, Callable[[DebugSession], Any]] = {
    "diff": lambda session: session.diff(candidate=off_by_one),
    "localize": lambda session: session.localize(),
    "bisect": lambda session: session.bisect(),
    "reproduce": lambda session: session.reproduce(),
    "fix_all": lambda session: session.fix_all(trials=2),
    "fixits": lambda session: session.fixits(0),
    "apply": lambda session: session.apply(*session.fixits(0)),
    "undo": lambda session: session.undo(),
}


def test_observers_and_the_store_get_what_the_session_finds_out(session: DebugSession) -> None:
    store = ArtifactStore(session.settings["artifacts"])
    told: list[Any] = []
    leave = session.on_change(lambda: told.append((session.record, store.load(session.id))))
    for name, step in STEPS.items():
        before = session.record
        told.clear()
        step(session)
        assert session.record is not before, name
        assert told[-1] == (session.record, session.record), (
            f"{name}: it is there, and saved, when observers hear of it"
        )
    before = session.record
    told.clear()
    trial = session.try_out(alignment=10)
    assert session.trials == (trial,)
    assert len(told) == 1
    assert session.record is before, "a what-if is a session of its own"
    leave()


def test_a_panel_on_screen_follows_from_another_cell() -> None:
    torch.manual_seed(0)
    with capture(target="stick128", eager=True, lower="aot", keep_inputs=True) as session, torch.no_grad():
        Net()(torch.randn(2, 70))
    panel = DebugPanel.of(session)
    open_tab(panel, "what_if")
    open_tab(panel, "graph")
    chosen = session.select(node="relu")
    assert "diff" not in tabs(panel)

    session.diff(candidate=off_by_one)
    assert tabs(panel)["diff"] == "✗"
    assert (panel.tab, panel.selection) == ("graph", chosen), "the user looks at something else just now"
    assert panel.graph["stage"] == chosen["stage"]
    assert panel.panes.diff is not None
    assert panel.panes.diff.points == []
    session.localize()
    assert panel.record is session.record
    assert panel.panes.diff.points != []
    session.bisect()
    session.reproduce()
    assert panel.record.bisect is not None
    assert panel.record.repros == session.record.repros

    open_tab(panel, "what_if")
    panes = panel.panes
    session.try_out(alignment=10)
    assert panel.panes is panes, "a what-if is no new record: nothing is drawn anew"
    assert [trial["title"] for trial in panel.trials] == ["alignment 64 → 10"]

    open_tab(panel, "diff")
    assert "error_curve" in panel.widgets
    panes = panel.panes
    session.fix_all(trials=2)
    assert panel.panes is panes, "the findings have other texts, and nothing else is new"
    assert "pad 70 to 128" in panel.findings[0]["fixits"][0]
    assert ask(panel, "check_fixits", finding=0) == ""
    assert len(panel.fixes["offers"]) == 1
    session.apply(*session.fixits(0))
    assert [row["title"] for row in panel.findings] == []
    assert panel.tab == "diff", "what was compared is what the cell ran, with or without fix-its"
    assert panel.fixes["applied"] == ["pad 70 to 128 (+83%)"]
    assert panel.fixes["lines"][0] == "findings   1 error, 0 warnings → 0 errors, 0 warnings"
    assert panel.fixes["offers"] == [], "it was offered beside no other"
    session.undo()
    assert panel.fixes["lines"] == []
    assert [row["title"] for row in panel.findings] == ["70 is not a multiple of 64"]
    assert session.record.diff is not None
    assert session.record.localization is not None
    assert panel.trouble == ""

    panel.close()
    session.diff(candidate="aot_eager")
    assert panel.is_closed


def test_the_tab_that_is_open_is_filled_again(session: DebugSession) -> None:
    panel = DebugPanel.of(session)
    for tab in ("placement", "guards", "memory", "what_if"):
        open_tab(panel, tab)
        session.diff(candidate="aot_eager")
        assert (panel.tab, panel.trouble) == (tab, "")
    assert panel.what_if["target"] == "stick128"
    panel.close()


def test_observers_can_leave_and_one_that_fails_stops_no_other(session: DebugSession) -> None:
    heard: list[str] = []

    def broken() -> None:
        raise ValueError("mine")

    leaves = [session.on_change(broken), session.on_change(lambda: heard.append("after it"))]
    with pytest.raises(ValueError, match="mine"):
        session.diff(candidate="aot_eager")
    assert heard == ["after it"]
    assert session.record.diff is not None
    for leave in (*leaves, *leaves):
        leave()
    session.diff(candidate="aot_eager")
    assert heard == ["after it"]


def test_a_panel_that_cannot_draw_says_so_and_the_answer_is_there(
    session: DebugSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = DebugPanel.of(session)

    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr(panel, "load", fails)
    assert session.diff(candidate="aot_eager").verdict == "match"
    assert panel.trouble == "RuntimeError: no ink"
    panel.close()


def test_a_closed_pane_is_no_observer_of_the_graphs(session: DebugSession) -> None:
    panel = DebugPanel.of(session)
    views = session.graph_views
    for _ in range(3):
        session.diff(candidate="aot_eager")
    assert session.graph_views is views
    assert len(views._observers._observers) == 1
    panel.close()
    assert len(views._observers._observers) == 0


def test_while_it_captures_nothing_is_compared_or_applied() -> None:
    """What runs then would be captured as if the user had run it, and the record would miss what comes after."""
    with capture(target="stick128", eager=True, lower="aot", keep_inputs=True) as session:
        Net()(torch.randn(2, 70))
        for asked in (
            session.diff,
            session.localize,
            session.bisect,
            session.reproduce,
            session.fixits,
            session.fix_all,
        ):
            with pytest.raises(UsageError, match="still capturing"):
                asked()
    assert len(session.captures) == 1


def test_without_a_kept_call_the_reason_comes_first() -> None:
    with capture(eager=True, lower="dynamo") as session:
        nn.Linear(4, 4)(torch.randn(2, 4))
    for step in (session.diff, session.localize, session.bisect, session.reproduce, session.fix_all):
        with pytest.raises(NotFoundError, match="keep_inputs"):
            step()
