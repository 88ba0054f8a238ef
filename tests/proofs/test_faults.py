"""The suite of planted faults in small; it says so when the answer is not right."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
import torch

from tests.proofs import fault_cases, fault_peers, fault_searches, faults
from tests.proofs.__main__ import main


@pytest.mark.long
def test_faults_of_dynamo_and_of_a_pass_are_found_and_reduced(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "--sample"]) == 0, capsys.readouterr().out
    assert "✓ 2 faults" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("model", ["mlp", "odd-mlp", "bert-2l"])
def test_every_fault_is_found_and_reduced(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the larger models are for the command: they take half an hour."""
    chosen = [f"--only={case.name}" for case in fault_cases.CASES if case.model == model]
    assert main(["faults", *chosen]) == 0, capsys.readouterr().out


@pytest.mark.long
@pytest.mark.timeout(900)
def test_torchs_own_tools_are_given_the_same_faults(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--only", "mlp/lowering", "--only", "mlp/backend/compile-error"]
    assert main(["faults", *chosen, "--peers", "fx_minifier,bisector"]) == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    assert said.count(" fx_minifier ") == 2
    assert "lowerings #" in said


@pytest.mark.long
@pytest.mark.timeout(900)
def test_searches_in_a_large_graph_end_with_what_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "--searches"]) == 0, capsys.readouterr().out


def test_a_search_that_leaves_too_much_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ((graph, inputs),) = fault_peers.aten_graphs(fault_cases.MODELS["mlp"]())
    monkeypatch.setattr(fault_searches, "large_graph", lambda: (graph, inputs))
    tests = [fault_searches.Search("all", lambda _: True), fault_searches.Search("tanh", _has_tanh, most_ops=0)]
    monkeypatch.setattr(fault_searches, "searches", lambda _: tests)
    every, tanh = fault_searches.run_searches()
    assert "every graph fails" in every
    assert tanh.startswith("tanh: 1 ops after")


def _has_tanh(graph: torch.fx.GraphModule) -> bool:
    return any(node.target is torch.ops.aten.tanh.default for node in graph.graph.nodes)


def test_what_is_left_running_is_noted() -> None:
    problems: list[str] = []
    with fault_cases.nothing_left(problems):
        left = subprocess.Popen(["sleep", "30"])
        subprocess.run(["sleep", "0"], check=True)
    left.kill()
    left.wait()
    assert problems == ["left running: sleep 30"]


def test_what_is_not_right_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = faults.chosen_cases(["mlp/Dynamo"], sample=False)
    monkeypatch.setattr(faults, "CASES", (replace(case, rung="aot", op="erf"),))
    assert main(["faults", "--only", "mlp/Dynamo"]) == 1
    said = capsys.readouterr().out
    assert "the rung is dynamo, not aot" in said
    assert "bisect blames torch.tanh" in said


def test_each_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in fault_cases.CASES]
    assert len(set(names)) == len(names)
    assert set(faults.SAMPLE) <= set(names)
