"""``analyze`` says what was captured, from each point of view."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inductor_debug_jupyter.pipeline.records import DiffRecord, GraphBreak, Guard, Recompile, SourceLine
from inductor_debug_jupyter.pipeline.store import ArtifactStore

from .conftest import make_session

Cli = Callable[..., Any]
LINE = SourceLine("/tmp/m.py", 7, "    y = x.item()", "forward", "In [2]")


@pytest.fixture
def rich_store(folder: Path) -> ArtifactStore:
    """An empty session's successor with guards, a break, a recompile and a comparison."""
    store = ArtifactStore(folder / "debug_artifacts")
    store.save_session(make_session("first-1"))
    guards = tuple(Guard("0/0", "EQUALS_MATCH", f"L['n{n}']", (f"L['n{n}'] == {n}",), LINE) for n in range(30))
    store.save_session(
        replace(
            make_session("second-2", "Net"),
            guards=guards,
            graph_breaks=(GraphBreak("0/0", "Tensor.item", LINE, ("Keep it a tensor.",)),),
            recompiles=(Recompile("0/1", ("L['n0'] == 0",), LINE),),
            diff=DiffRecord("Net", "eager", "inductor", "mismatch"),
        )
    )
    return store


def test_guards_of_the_last_session(cli: Cli, rich_store: ArtifactStore) -> None:
    out = cli("analyze", "--type", "guards", "--limit", "5").out
    assert out.startswith("Session second-2\n")
    assert "n0" in out
    assert "n4" in out
    assert "n5" not in out
    assert "… and 25 more" in out
    assert "Tensor.item" in out
    assert "In [2], line 7" in out
    assert "Recompiles (1)" in out
    assert "n29" in cli("analyze", "--type", "guards", "--limit", "all").out


def test_guards_as_json(cli: Cli, rich_store: ArtifactStore) -> None:
    data = json.loads(cli("analyze", "--type", "guards", "--format", "json").out)
    assert (data["session"], data["model"], data["total_graphs"]) == ("second-2", "Net", 1)
    assert len(data["guards"]) == 30
    assert data["graph_breaks"][0]["source"]["line"] == 7
    assert data["recompiles"][0]["reasons"] == ["L['n0'] == 0"]


def test_no_guards_is_not_good_news(cli: Cli, store: ArtifactStore) -> None:
    assert "No guards were recorded in this session" in cli("analyze", "--type", "guards", "first").out


def test_constraints(cli: Cli, rich_store: ArtifactStore) -> None:
    result = cli("analyze", "--type", "constraints", "first-1")
    assert result.code == 0
    rows = result.out.splitlines()
    assert "✗ 1 error" in rows[0]
    (row,) = [row for row in rows if row.startswith("error")]
    assert row.split()[:3] == ["error", "align.innermost", "1"]
    assert "30 is not a multiple of 64" in row
    data = json.loads(cli("analyze", "--type", "constraints", "--format", "json").out)
    assert data["checked"] is True
    assert data["constraints"][0]["rule_id"] == "align.innermost"


def test_constraints_when_nothing_was_captured_are_not_fine(cli: Cli, store: ArtifactStore) -> None:
    store.save_session(replace(make_session("empty"), captures=(), findings=()))
    assert "NOTHING CHECKED" in cli("analyze", "--type", "constraints").out
    assert json.loads(cli("analyze", "--type", "constraints", "--format", "json").out)["checked"] is False


def test_summary_is_the_default(cli: Cli, rich_store: ArtifactStore) -> None:
    result = cli("analyze")
    assert result.out == cli("analyze", "--type", "summary", "last").out
    assert "KernelDiff: mismatch (eager against inductor)" in result.out
    assert "Guards: 30" in result.out
    assert "torch.relu ×1" in result.out
    assert "debug_artifacts: 2 sessions, 2 findings, 0 benchmarks" in result.out
    assert "nothing was compared" in cli("analyze", "first").out
    data = json.loads(cli("analyze", "--format", "json").out)
    assert data["summary"] == {
        "total_graphs": 1,
        "graph_breaks": 1,
        "recompiles": 1,
        "constraint_violations": 1,
        "kernel_diff_passed": False,
    }
    assert data["graphs"][0]["top_ops"] == {"torch.relu": 1}


def test_a_session_that_is_not_there(cli: Cli, rich_store: ArtifactStore) -> None:
    result = cli("analyze", "zzz")
    assert (result.code, result.out) == (3, "")
    assert "no session 'zzz'" in result.err
    assert cli("analyze", "--artifacts", "nowhere").code == 3


def test_names_cannot_steer_the_terminal(cli: Cli, store: ArtifactStore) -> None:
    evil = "\x1b[31m[red]\nnext"
    record = make_session("evil", evil)
    finding = replace(record.findings[0], title=evil, rule_id=evil)
    store.save_session(replace(record, findings=(finding,), guards=(Guard("0/0", evil, evil, (evil,)),)))
    for kind in ("guards", "constraints", "summary"):
        assert "\x1b" not in cli("analyze", "--type", kind).out
