"""``benchmarks fixits`` on a tiny model."""

from __future__ import annotations

import pytest

from inductor_debug_jupyter.benchmarks.__main__ import main


def test_a_small_resnet_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fixits", "--model", "resnet", "--small"]) == 0
    said = capsys.readouterr().out
    assert "stick128" in said
    assert "→ 0" in said
    assert "lay images out with channels innermost" in said


def test_an_unknown_model_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fixits", "--model", "gpt"]) == 2
    assert "allowed: bert, resnet, mamba" in capsys.readouterr().err
