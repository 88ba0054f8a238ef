"""The suite ``panel``; that it works in a browser is seen in ``test_in_a_browser``."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tests.proofs import panel
from tests.proofs.__main__ import main
from tests.proofs.panel import Goal, Result, _print
from tests.proofs.panel_page import Panel
from tests.proofs.panel_peers import ModelExplorer, plain_dot
from tests.proofs.synthetic import synthetic_capture

FAST = Panel(usable=0.5, tab=0.1, click=0.02, told=0.1, box=0.1, notebook_bytes=20_000, nodes=900, shapes=20)


def test_bad_arguments_get_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["panel", "--graphs", "bert,many"]) == 2
    assert "--graphs: 'many' is not allowed; allowed: bert, or a number of nodes from 10 up" in capsys.readouterr().err
    assert main(["panel", "--lower", "dynamo"]) == 2
    assert "--lower: 'dynamo' is not allowed; allowed: aot, inductor" in capsys.readouterr().err


def test_what_is_missing_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(panel, "find_chromium", lambda: None)
    assert main(["panel", "--graphs", "100"]) == 2
    assert "this suite needs Chromium: apt-get install -y chromium" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["panel"]) == 2
    assert "needs playwright and transformers: pip install playwright transformers" in capsys.readouterr().err


def test_the_table_says_which_goals_hold_and_how_others_compare(capsys: pytest.CaptureFixture[str]) -> None:
    slow = Panel(usable=1.2, tab=0.1, click=0.02, told=0.1, box=0.1, notebook_bytes=20_000, nodes=900, shapes=20)
    good = Result("good", FAST, Goal(usable=1.0), 5.0, "gave up after 60 s")
    bad = Result("bad", slow, Goal(usable=1.0), "no dot here", 2.4)
    assert (good.held, bad.held) == (True, False)
    _print([good, bad])
    told = capsys.readouterr().out
    assert "0.50 ✓ (≤ 1)" in told
    assert "1.20 ✗ (≤ 1)" in told
    assert "5.0 (10.0×)" in told
    assert "2.4 (2.0×)" in told
    assert "gave up after 60 s" in told
    assert "Goals missed: bad" in told


def test_plain_dot_draws_every_node_or_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = synthetic_capture(30).graphs["forward"]
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert plain_dot(graph, 30) == "no dot here"
    (tmp_path / "dot").write_text("#!/bin/sh\nexec sleep $SECONDS_TO_TAKE\n")
    (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{path}")
    monkeypatch.setenv("SECONDS_TO_TAKE", "0")
    assert isinstance(plain_dot(graph, 30), float)
    monkeypatch.setenv("SECONDS_TO_TAKE", "30")
    assert plain_dot(graph, 0.05) == "gave up after 0.05 s"


def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "nobody"))
    explorer = ModelExplorer(tmp_path, "chromium")
    assert explorer.why_not.startswith("not installed: ")
    assert explorer.seconds(synthetic_capture(30).graphs["forward"], 1) == explorer.why_not


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.parametrize("nodes", ["200", "2000"])
def test_in_a_browser(nodes: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # Times are no matter of a test: a busy machine would miss them.
    monkeypatch.setattr(panel, "Goal", lambda usable: Goal(usable=1e6, told=1e6))
    assert main(["panel", "--graphs", nodes, "--no-peers", "--many", "0"]) == 0
    told = capsys.readouterr().out
    assert f"{int(nodes):,} nodes" in told
    assert "cell end → panel usable" in told
    assert "Every goal holds." in told
