"""What a user holds: it saves, loads, selects, and ends in an error when it is strict."""

import gc
import json
import weakref

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import ConstraintViolationError, DebugSession, capture
from inductor_debug_jupyter.pipeline.errors import NotFoundError, StoreError
from inductor_debug_jupyter.pipeline.session.debug_session import finished as last_session_holder

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


MEMBERS = """
bug_report compare compare_stages device_profile minify report
applied apply bisect can_wait captures checkpoint_budget checkpoint_bytes choose close complete coverage diff diff_pairs
error_budget findings fix_all fixits graph_breaks graph_views guards has_inputs id kernel_specs load localize memory
narrow node notes of_record on_change on_select open panel patch peak_memory prescribe profile recompiles record refusal
report reproduce rules save saved_once saving select selection settings stop strict trace transfers trials try_fixits
try_out tryable undo what_if would_recompile would_recompile_of
"""


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)

    def forward(self, x):
        return torch.relu(self.up(x))


def test_a_finished_session_is_not_kept_alive_by_torch():
    model = Block()
    with capture(eager=True) as session:
        model(torch.randn(4, 16))
    recorder = weakref.ref(session._calls.recorder)
    last_session_holder.clear()
    del session
    gc.collect()
    assert recorder() is None


def test_sessions_save_load_and_print_the_same(tmp_path):
    with capture(eager=True) as session:
        nn.Linear(4, 4)(torch.randn(2, 4))
    loaded = DebugSession.load(session.save(tmp_path / "session.json"))
    assert str(loaded) == str(session)
    assert loaded.captures == session.captures


def test_selecting_finds_nodes_and_lines():
    with capture(target="stick128", eager=True) as session:
        Block()(torch.randn(4, 16))
    told = []
    session.on_select(told.append)
    chosen = session.select(finding=0)
    assert chosen["node"]
    assert told == [chosen]
    assert session.select(node="addmm")["node"] == "addmm"
    with pytest.raises(NotFoundError, match="no finding 99"):
        session.select(finding=99)
    with pytest.raises(NotFoundError, match="has a node 'nope'"):
        session.select(node="nope")


@torch._dynamo.config.patch(suppress_errors=True)
def test_strict_raises_at_the_end_with_all_findings_even_under_suppress_errors():
    done = []
    model = nn.Sequential(nn.Linear(10, 10)).double()
    with pytest.raises(ConstraintViolationError) as error, capture(strict=True, target="stick128", eager=True):
        done.append(model(torch.randn(2, 10, dtype=torch.float64)))
    assert done[0].shape == (2, 10)
    assert {finding.rule_id for finding in error.value.findings} == {"dtype.unsupported", "align.innermost"}
    assert "test_debug_session.py, line" in str(error.value)
    assert error.value.repro in str(error.value)


def test_an_unwritable_folder_is_a_note_and_the_run_goes_on(tmp_path, caplog):
    (tmp_path / "taken").write_text("a file")
    with capture(eager=True, artifacts=str(tmp_path / "taken")) as session:
        out = nn.Linear(4, 4)(torch.randn(2, 4))
    assert out.shape == (2, 4)
    assert session.captures
    (note,) = session.notes
    assert "nothing was saved" in str(note)
    assert caplog.text.count("nothing was saved") == 1


def test_a_report_is_written_where_the_user_says_or_to_the_artifact_folder(tmp_path):
    with capture(eager=True, target="stick128", artifacts=str(tmp_path / "artifacts")) as session:
        nn.Linear(70, 64)(torch.randn(2, 70))
    page = session.report()
    assert page.is_relative_to(tmp_path / "artifacts")
    assert "align.innermost" in page.read_text()
    assert session.report(tmp_path / "mine.html").read_text().startswith("<!doctype html>")
    data = json.loads(session.report(tmp_path / "deeper" / "mine.json").read_text())
    assert data["summary"]["constraint_violations"] == len(session.findings)
    with pytest.raises(StoreError, match=r"cannot write .*choose another file"):
        session.report(page / "inside of a file.html")


def test_a_report_needs_no_artifact_folder(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with capture(eager=True, artifacts=str(tmp_path / "taken")) as session:
        nn.Linear(4, 4)(torch.randn(2, 4))
    assert "Linear" in session.report(tmp_path / "mine.html").read_text()
    with pytest.raises(StoreError, match="taken"):
        session.report()


def test_what_a_user_can_ask_is_written_down():
    session = DebugSession()
    public = {name for name in dir(session) if not name.startswith("_")}
    assert public == set(MEMBERS.split())
    kind = type(session)
    assert all(getattr(kind, name).__doc__ for name in public - {"selection", "checkpoint_budget"})
