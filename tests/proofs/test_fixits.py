"""``proofs fixits`` on a tiny model."""

from __future__ import annotations

import pytest

from tests.proofs import fixits
from tests.proofs.__main__ import main

TINY = """import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU()).eval()
out = model(torch.randn(1, 3, 8, 8))
"""


@pytest.mark.parametrize("cell", [TINY, pytest.param("", marks=pytest.mark.long)], ids=["one layer", "resnet"])
def test_a_small_model_is_accepted(
    cell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if cell:
        monkeypatch.setattr(fixits, "cell", lambda model, small: cell)
    assert main(["fixits", "--model", "resnet", "--small"]) == 0
    said = capsys.readouterr().out
    assert "stick128" in said
    assert "→ 0" in said
    assert "lay images out with channels innermost" in said


def test_an_unknown_model_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fixits", "--model", "gpt"]) == 2
    assert "allowed: bert, resnet, mamba" in capsys.readouterr().err
