"""Whatever a session answers with is shown as words in a notebook, never as all its fields."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.lib.pretty import pretty
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.session import DebugSession

ANSWERS = {
    "findings": lambda session: session.findings,
    "captures": lambda session: session.captures,
    "graph": lambda session: session.captures[0].graph("forward"),
    "guards": lambda session: session.guards,
    "memory": lambda session: session.memory,
    "coverage": lambda session: session.coverage,
    "record": lambda session: session.record,
    "fixits": lambda session: session.fixits(),
    "fix_all": lambda session: session.fix_all(trials=2),
    "applied": lambda session: session.apply(session.fixits(0)[0]),
    "try_out": lambda session: session.try_out(target="systolic128"),
    "would_recompile": lambda session: session.would_recompile(torch.randn(64, 64)),
    "diff": lambda session: session.diff(candidate="aot_eager"),
    "localize": lambda session: session.localize("aot_eager"),
    "node": lambda session: session.node("addmm"),
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> DebugSession:
    folder: Path = tmp_path_factory.mktemp("artifacts")
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 64))
    with capture(target="stick128", eager=True, lower="aot", keep_inputs=True, artifacts=str(folder)) as made:
        model(torch.randn(64, 64))
    return made


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_shown_in_words(session: DebugSession, name: str) -> None:
    answer: Any = ANSWERS[name](session)  # type: ignore[no-untyped-call]
    shown = pretty(answer)
    assert len(shown) < 4000
    assert "SourceLine(" not in shown
    assert "Record(" not in shown
    assert shown.strip() not in {"()", ""}
    if name == "applied":
        session.undo()


def test_the_ladder_is_a_table() -> None:
    from inductor_debug_jupyter.pipeline.records import BisectRecord
    from inductor_debug_jupyter.pipeline.records.bisect import Rung

    record = BisectRecord("Net", (Rung("eager", "good"), Rung("inductor", "bad", "1 output differs")), "inductor")
    assert pretty(record) == str(record)
    assert "the first rung that is not good is inductor" in str(record)
    assert repr(record).startswith("BisectRecord("), "every field is still there for who wants it"


def test_a_session_brings_the_words_of_all_its_records() -> None:
    """Whatever else was imported before: a record that a session hands out never shows its fields."""
    code = (
        "import inductor_debug_jupyter.pipeline.session\n"
        "from inductor_debug_jupyter.pipeline import records\n"
        "from inductor_debug_jupyter.pipeline.records import in_words\n"
        "kinds = ('BisectRecord', 'DiffRecord', 'LocalizationRecord', 'MemoryRecord', 'SessionRecord')\n"
        "print([kind for kind in kinds if getattr(records, kind) not in in_words._writers])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
