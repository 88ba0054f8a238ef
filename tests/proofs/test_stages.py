"""``proofs stages`` shows every stage, and fails when one is missing."""

import pytest

from tests.proofs import __main__ as program
from tests.proofs import stages


def test_every_stage_is_there_and_a_hit_says_what_is_not(capsys):
    assert program.main(["stages", "--small"]) == 0
    rows = {line[:30].strip(): line[30:] for line in capsys.readouterr().out.splitlines()}
    assert rows["encoder"].split() == ["cold", "warm", "cache", "hit,", "fresh=False"]
    assert rows["missing"].split()[:2] == ["nothing", "nothing"]
    assert "ir_pre_fusion" in rows["missing"]
    assert "aot hit, fx hit" in rows["torch's caches"]
    assert "17 of 17 ops, cell's line 17" in rows["source line"]


def test_an_unknown_model_is_one_line(capsys):
    assert program.main(["stages", "--model", "nope"]) == 2
    assert "--model: 'nope' is not allowed; allowed: encoder, bert" in capsys.readouterr().err


def test_a_capture_without_a_stage_is_not_complete():
    from inductor_debug_jupyter import DebugSession
    from inductor_debug_jupyter.pipeline.records import CompileCapture, SessionRecord

    record = SessionRecord("id", "now", "name", "default", False, "2.13", "0", captures=(CompileCapture("0/0"),))
    assert not stages._is_complete(DebugSession.of_record(record))


pytestmark = pytest.mark.usefixtures("fresh_dynamo")
