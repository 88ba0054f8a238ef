"""A strict failure's script holds the op in question and what it reads, and still shows every kind of violation."""

import ast
import runpy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from inductor_debug_jupyter import ConstraintViolationError, capture
from inductor_debug_jupyter.pipeline.devices import (
    DtypeConstraint,
    LayoutConstraint,
    MemoryConstraint,
    ShapeConstraint,
    UnsupportedOpsConstraint,
)
from inductor_debug_jupyter.pipeline.repro import violation_script

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Many(nn.Module):
    """Embedding, attention, convolution, normalization: ops with tuples, whole numbers, strides and a backward."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 24)
        self.qkv = nn.Linear(24, 72)
        self.norm = nn.LayerNorm(24)
        self.conv = nn.Conv1d(24, 12, 3)

    def forward(self, tokens):
        h = self.norm(self.emb(tokens))
        q, k, v = self.qkv(h).chunk(3, -1)
        h = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0)
        values, index = torch.sort(self.conv(h.transpose(1, 2)), -1)
        return torch.linalg.det(values.double().transpose(1, 2) @ values.double()) + index.sum()


RULES = [
    DtypeConstraint(["float32"]),
    ShapeConstraint(16),
    LayoutConstraint(),
    UnsupportedOpsConstraint(["sort", "conv1d", "embedding", "linalg.det", "aten.native_layer_norm_backward"]),
    MemoryConstraint(800),
]


def calls(script):
    """How many ops the script's graph has."""
    graph = next(part for part in ast.parse(script).body if isinstance(part, ast.ClassDef) and part.name == "Graph")
    forward = next(part for part in graph.body if isinstance(part, ast.FunctionDef) and part.name == "forward")
    return sum(isinstance(part, (ast.Assign, ast.AnnAssign)) for part in forward.body)


def exit_code(script, tmp_path, capsys):
    """Run it as a script (in this process: importing torch takes longer than all of them)."""
    path = tmp_path / "script.py"
    path.write_text(script)
    with pytest.raises(SystemExit) as done:
        runpy.run_path(str(path), run_name="__main__")
    return done.value.code, capsys.readouterr().out


@pytest.mark.parametrize("lower", ["dynamo", "aot"])
def test_every_finding_shows_in_its_own_script(lower, tmp_path, capsys):
    torch.manual_seed(0)
    with capture(eager=True, lower=lower, constraints=RULES) as session:
        Many()(torch.tensor([[1, 2, 3, 4, 5]]))
    (one,) = session.captures
    kinds = set()
    for finding in session.findings:
        script = violation_script(one, finding, target="test", torch_version=torch.__version__)
        code, told = exit_code(script, tmp_path, capsys)
        assert code == 0, f"{finding}\n{told}\n{script}"
        is_peak = "alive()" in finding.evidence
        assert (calls(script) <= 2) != is_peak, finding
        kinds.add((finding.rule_id, finding.places[0].stage))
    assert {rule for rule, _ in kinds} == {rule.rule_id for rule in RULES}
    assert ("op.unsupported", "backward") in kinds or lower == "dynamo"


def test_a_strict_failure_in_12_layers_is_one_op():
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))

        def forward(self, x):
            for number, layer in enumerate(self.layers):
                x = layer(x).double().float() if number == 6 else torch.relu(layer(x))
            return x

    with pytest.raises(ConstraintViolationError) as error, capture(strict=True, eager=True, lower="aot"):
        Deep()(torch.randn(2, 8))
    text = Path(error.value.repro).read_text()
    assert calls(text) == 1
    assert "1 of the graph's" in text


def test_symbolic_sizes_are_still_written(tmp_path, capsys):
    def double(x):
        return torch.relu(x).double() * 2

    with capture(constraints=[DtypeConstraint(["float32"])]) as session:
        torch.compile(double, backend="aot_eager", dynamic=True)(torch.randn(5, 7))
    assert session.findings
    for finding in session.findings:
        script = violation_script(session.captures[0], finding, target="test", torch_version="")
        assert exit_code(script, tmp_path, capsys)[0] == 0
