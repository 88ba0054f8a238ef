"""A repro runs with torch alone, from anywhere, and tells by its exit code whether the failure shows."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import ConstraintViolationError, capture
from inductor_debug_jupyter.pipeline.repro import violation_script

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 24)
        self.out = nn.Linear(24, 24)

    def forward(self, tokens):
        h = self.emb(tokens)
        return torch.exp(self.out(h).transpose(1, 2)).double()


def strict(**options):
    with pytest.raises(ConstraintViolationError) as error, capture(strict=True, eager=True, **options):
        Net()(torch.tensor([[1, 2, 3]]))
    return error.value


def run(path):
    return subprocess.run([sys.executable, "-I", path], capture_output=True, text=True, cwd="/")


@pytest.mark.parametrize("lower", ["dynamo", "aot", "inductor"])
def test_it_shows_the_failure_from_another_folder(lower):
    error = strict(lower=lower)
    text = Path(error.repro).read_text()
    assert "inductor_debug_jupyter" not in text
    assert "pickle" not in text
    assert "torch.load" not in text
    done = run(error.repro)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "float64 is not supported" in done.stdout


@pytest.mark.parametrize(
    ("severity", "headline", "absent"),
    [
        ("error", "default refuses this: float64", "the violation does NOT show"),
        ("warning", "default warns of this: float64", "the warning does NOT show"),
        ("info", "default remarks on this: float64", "the remark does NOT show"),
    ],
)
def test_only_an_error_is_refused(severity, headline, absent):
    with capture(eager=True, lower="dynamo") as session:
        Net()(torch.tensor([[1, 2, 3]]))
    finding = next(each for each in session.findings if "float64" in each.title)
    finding = replace(finding, severity=severity)
    text = violation_script(session.captures[0], finding, target="default", torch_version=torch.__version__)
    assert headline in text
    assert absent in text
    assert ("refuses" in text) is (severity == "error")


@pytest.mark.parametrize(
    "options",
    [
        {"target": "stick128"},
        {"artifacts": "elsewhere"},
    ],
)
def test_every_kind_of_refusal_has_one(options):
    error = strict(**options)
    for finding in error.findings:
        assert finding.evidence
    assert run(error.repro).returncode == 0


def test_it_fails_when_the_failure_does_not_show():
    path = Path(strict().repro)
    fixed = path.with_name("fixed.py")
    fixed.write_text(path.read_text().replace("any(t.dtype == torch.float64", "any(t.dtype == torch.float16"))
    done = run(fixed)
    assert done.returncode == 1
    assert "does NOT show" in done.stdout


def test_text_from_the_model_cannot_become_code():
    evil = type('"""\nimport os; os._exit(9)\n"""', (nn.Module,), {"forward": lambda self, x: x.double() + 1})
    with pytest.raises(ConstraintViolationError) as error, capture(strict=True, eager=True):
        evil()(torch.randn(2))
    assert run(error.value.repro).returncode == 0
