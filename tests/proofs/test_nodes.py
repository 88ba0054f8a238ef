"""``proofs nodes`` on a tiny model."""

from __future__ import annotations

import pytest

from tests.proofs import nodes
from tests.proofs.__main__ import main

Capsys = pytest.CaptureFixture[str]


@pytest.mark.long
def test_questions_about_a_small_bert(capsys: Capsys) -> None:
    assert main(["nodes", "--small", "--questions", "2"]) == 0
    said = capsys.readouterr().out
    rows = {line.split()[1]: line.split() for line in said.splitlines() if line.startswith("bert-2l")}
    assert set(rows) == {"forward", "backward"}
    assert "The same bits as traced anew, within the budget." in said


def test_an_answer_that_differs_ends_in_1(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = nodes._Asked("net", "forward", 9, 1.0, [0.1], [1.2], 5, ["net forward mm is another value"])
    monkeypatch.setattr(nodes, "_ask", lambda *_: [asked])
    assert main(["nodes", "--small"]) == 1
    assert "FAILED: net forward mm is another value" in capsys.readouterr().out


def test_an_unknown_model_is_one_line(capsys: Capsys) -> None:
    assert main(["nodes", "--model", "gpt"]) == 2
    assert "allowed: bert-2l, bert, resnet, mamba" in capsys.readouterr().err
    assert main(["nodes", "--questions", "1"]) == 2
    assert "--questions: '1' is not allowed" in capsys.readouterr().err
