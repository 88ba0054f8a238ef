"""``matching`` on small programs, and what a failure says."""

from __future__ import annotations

import pytest

from tests.proofs import matching
from tests.proofs.__main__ import main
from tests.proofs.matching import Matched, goals


def test_every_new_op_is_found(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MOST_GROWTH", float("inf"))  # times are no matter of a test
    monkeypatch.setattr(matching, "MOST_SECONDS", float("inf"))
    assert main(["matching", "--sizes", "300,1000"]) == 0
    assert "✓ every goal is met" in capsys.readouterr().out


def test_what_is_missed_is_told() -> None:
    slow, slower = Matched(1_000, 1.0, 10, 0), Matched(10_000, 30.0, 98, 3)
    assert goals([slow, slower]) == [
        "10,000 nodes take 30.00 s, 2 are allowed",
        "a node takes 3.0 times as long in a larger program",
        "10,000 nodes: 98 new ops found, 3 others",
    ]
