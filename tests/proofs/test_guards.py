"""``guards`` on a tiny model, and what a failure says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.proofs import guards
from tests.proofs.__main__ import main
from tests.proofs.guards import InspectionCost, synthetic_guards


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("backends", [["eager"], pytest.param(["aot_eager", "inductor"], marks=pytest.mark.long)])
def test_a_tiny_model(
    backends: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "_BACKENDS", backends)
    monkeypatch.setattr(guards, "MOST_TABLE", float("inf"))  # a busy machine
    assert main(["guards", "--small", "--json", "figures.json"]) == 0
    out, _ = capsys.readouterr()
    assert "All gates hold" in out
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [cost["backend"] for cost in figures["costs"]] == backends
    assert all(cost["guards"] > 3 and cost["ratio"] > 0 for cost in figures["costs"])
    assert figures["table"]["view"] > 0


def test_a_gate_that_fails_is_told() -> None:
    dear = InspectionCost("inductor", 0, (1.0, 1.0), (1.5, 1.5))
    cheap = InspectionCost("eager", 3, (1.0,), (1.5,))
    assert guards._failures([dear, cheap], {"view": 0.9}, judge_cost=True) == [
        "inspecting costs 1.500 of the inductor compile, over 1.05",
        "no guards were found with inductor",
        "the view of 5,000 guards takes 0.90 s, over 0.5 s",
    ]


def test_the_synthetic_guards_are_all_different() -> None:
    made = synthetic_guards(100).guards
    assert len({(guard.expression, guard.kind) for guard in made}) == 100
