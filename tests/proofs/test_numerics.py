"""The suite ``numerics`` on its smallest model."""

from __future__ import annotations

import pytest

from tests.proofs.__main__ import main


def test_every_arithmetic_is_named_right_or_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["numerics", "--small", "--part", "recognise"]) == 0
    assert "0 named wrong" in capsys.readouterr().out


def test_budgets_and_prescriptions_are_what_runs_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["numerics", "--small", "--part", "budget", "--part", "prescription"]) == 0
    said = capsys.readouterr().out
    assert "2 of 2 predictions are within 1.3 times" in said
    assert "2 of 2 have the order of the confirmed effects" in said


@pytest.mark.long
def test_devices_are_left_alone_or_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["numerics", "--small", "--part", "healthy", "--part", "loop"]) == 0
    said = capsys.readouterr().out
    assert "step 7 of 12 is wrong" in said
    assert "the next token flips by rounding alone" in said


@pytest.mark.long
def test_faulty_devices_are_red() -> None:
    assert main(["numerics", "--small", "--part", "faulty"]) == 0
