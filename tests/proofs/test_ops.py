"""``proofs ops``: torch's operator database through both backends; CI runs all of it."""

import json

import pytest
import torch

from tests.proofs import ops
from tests.proofs.__main__ import main
from tests.proofs.inside_torch.operators import Operator

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@pytest.mark.timeout(600)
def test_outputs_equal_eager(capsys):
    shard = "1/120"
    assert main(["ops", "--samples", "2", "--shard", shard, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 6
    verdicts = [each["outcome"] for op in found for name in ops.BACKENDS for each in op[name]]
    assert len(verdicts) > 15
    assert verdicts.count("unequal") == 0
    assert verdicts.count("equal") > 0.85 * len(verdicts)
    refused = [each for op in found for name in ops.BACKENDS for each in op[name] if each["outcome"] == "refused"]
    assert all(each["reason"] for each in refused)


class Samples:
    """Stands for torch's OpInfo."""

    def __init__(self, *inputs):
        self.inputs = inputs

    def sample_inputs(self, *_, **__):
        for each in self.inputs:
            yield type("Sample", (), {"input": each, "args": (), "kwargs": {}})()


def outcomes(name, function, *inputs):
    result = ops.try_operator(Operator(name, function, Samples(*inputs)), None)
    return result, [result.outcome(backend) for backend in ops.BACKENDS]


def test_every_outcome_can_be_reached(monkeypatch):
    assert outcomes("abs", torch.abs, torch.ones(3))[1] == ["equal", "equal"]
    assert outcomes("empty_like", torch.empty_like, torch.ones(3))[1] == ["undefined", "undefined"]
    refused, found = outcomes("chalf", lambda x: x.to(torch.complex32), torch.ones(3))
    assert found == ["equal", "refused"]
    assert "cannot hold complex32" in refused.first("stick128", "refused")
    no_graph, found = outcomes("python", lambda x: 3, torch.ones(3))
    assert found == ["refused", "refused"]
    assert "Dynamo made no graph" in no_graph.first("mock_backend", "refused")
    not_eager, found = outcomes("bad", lambda x: x @ x, torch.ones(2, 3))
    assert found == ["not run", "not run"]
    assert not_eager.not_eager
    wrong = ops.StickAdapter
    monkeypatch.setattr(ops, "StickAdapter", lambda form, **_: wrong(form, faults="copy-first-stick", check=False))
    unequal, found = outcomes("clone", torch.clone, torch.ones(65))
    assert found == ["equal", "unequal"]
    assert "not close" in unequal.first("stick128", "unequal")


def test_the_table_says_what_was_counted(capsys):
    assert main(["ops", "--only", "abs", "--only", "empty_like", "--samples", "1"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == [
        "Backend",
        "Counted",
        "Tried",
        "Equal",
        "Refused",
        "Unequal",
        "Undefined",
        "by",
        "contract",
    ]
    assert out[1].split() == ["mock_backend", "ops", "2", "1", "0", "0", "1"]
    assert out[3].split() == ["stick128", "ops", "2", "1", "0", "0", "1"]
    assert "only shapes and dtypes are compared: empty_like" in out[5]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--shard", "3/2"], "--shard: '3/2' is not allowed; allowed: I/N with I from 1 to N"),
        (["--samples", "0"], "--samples: '0' is not allowed; allowed: a whole number from 1 up"),
        (["--only", "nope"], "--only: 'nope' is not allowed"),
    ],
)
def test_bad_arguments_get_one_line(capsys, arguments, sentence):
    assert main(["ops", *arguments]) == 2
    assert sentence in capsys.readouterr().err
