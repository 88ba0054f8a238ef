"""``proofs first_answer`` on a tiny model."""

from __future__ import annotations

import pytest

from tests.proofs import first_answer
from tests.proofs.__main__ import main


@pytest.mark.long
def test_the_same_findings_and_stages_in_the_end() -> None:
    times = first_answer._timed("gpt2", True, 1)
    assert times.failures == []
    plain, findings, whole, at_once = times.medians()
    assert min(plain, findings, whole, at_once) > 0


def test_a_goal_that_is_missed_ends_in_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    slow = first_answer._Times("vit", [1.0], [1.1], [5.0], [3.0])
    monkeypatch.setattr(first_answer, "_timed", lambda *_: slow)
    assert main(["first_answer", "--model", "vit"]) == 1
    said = capsys.readouterr().out
    assert "FAILED: vit: findings / at once is 0.37, goal 0.3" in said
    assert "FAILED: vit: with the rest / at once is 1.67, goal 1.05" in said
    assert "plain is" not in said
