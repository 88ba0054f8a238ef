"""A session reduces what fails, remembers how, and makes a bug report of it that holds nothing private unasked."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.session import DebugSession

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return torch.sigmoid(x) * 2  # a secret remark


def sigmoid_is_there(gm, inputs):
    return any(node.target is torch.sigmoid for node in gm.graph.nodes)


def wrong_sigmoid(gm, inputs):
    class Wrong(torch.fx.Interpreter):
        def run_node(self, n):
            return super().run_node(n) * 1.5 if n.target is torch.sigmoid else super().run_node(n)

    return Wrong(gm).run


@pytest.fixture
def session(tmp_path) -> DebugSession:
    with capture(target="stick128", eager=True, lower="aot", keep_inputs=True, artifacts=str(tmp_path)) as session:
        Layers()(torch.randn(2, 8))
    return session


def test_what_a_function_says_is_reduced_and_goes_into_a_bug_report(session, tmp_path):
    told = []
    found = session.minify(fails=sigmoid_is_there, evaluations=40, on_progress=told.append)
    assert found.ops == 1
    assert found.verified is not None
    assert told[-1].ops == 1
    assert session.record.minimal.script == found.path.read_text()
    assert "test_reducing.py" in found.script  # the user's own line
    assert "a secret remark" in found.script
    assert "1 of 8 ops" in str(session)
    loaded = DebugSession.load(session.save(tmp_path / "session.json"))
    assert loaded.record.minimal == session.record.minimal

    report = session.bug_report()
    assert report.path is None
    assert not list(tmp_path.glob("report*"))
    assert "repro.py" not in report.files  # it holds a function of the user's
    assert not any("a secret remark" in text for text in report.files.values())
    assert not any("sigmoid_is_there(gm" in text for text in report.files.values())
    assert "held back  repro.py: it holds a function of yours" in str(report)
    assert "- [ ] smallest script" in report.markdown

    whole = session.bug_report(tmp_path / "report.zip", include_source=True, include_weights=True)
    assert "- [x] smallest script" in whole.markdown
    with zipfile.ZipFile(whole.path) as archive:
        archive.extractall(tmp_path / "there")
    script = tmp_path / "there" / "report" / "repro.py"
    done = subprocess.run([sys.executable, "-I", str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_finding_is_reduced_to_the_op_that_has_it(session):
    finding = next(each for each in session.findings if each.severity == "error")
    found = session.minify(error=finding)
    assert found.ops == 1
    assert str(found.path) in session.record.repros


def test_what_a_candidate_gets_wrong_is_reduced_with_the_line(session):
    found = session.minify(wrong_sigmoid)
    assert found.ops == 1
    assert "your line of sigmoid" in found.script
    assert "differ" in session.record.minimal.reason
    report = session.bug_report(include_source=True)
    assert "def wrong_sigmoid" in report.files["repro.py"]
