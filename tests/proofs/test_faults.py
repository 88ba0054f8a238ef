"""The suite of planted faults in small; it says so when the answer is not right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.proofs import fault_cases, faults
from tests.proofs.__main__ import main


def test_faults_of_dynamo_and_of_a_pass_are_found_and_reduced(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "--sample"]) == 0, capsys.readouterr().out
    assert "✓ 2 faults" in capsys.readouterr().out


@pytest.mark.long
def test_every_fault_is_found_and_reduced(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults"]) == 0, capsys.readouterr().out


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
