"""The suite ``numerics`` on its smallest model."""

from __future__ import annotations

import pytest

from tests.proofs.__main__ import main


def test_every_arithmetic_is_named_right_or_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["numerics", "--small"]) == 0
    said = capsys.readouterr().out
    assert "0 named wrong" in said
    assert "2 of 2 predictions are within 1.3 times" in said
