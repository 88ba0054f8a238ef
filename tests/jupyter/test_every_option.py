"""Each option of the magic does what its help says, in a real kernel."""

from __future__ import annotations

import pytest

from inductor_debug_jupyter.pipeline.options import MAGIC_OPTIONS, OPTIONS

from .conftest import Kernel

SETUP = """
import torch
from torch import nn
from pathlib import Path
torch._dynamo.reset()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(70, 30)
    def forward(self, x):
        return torch.relu(self.up(x))
net, other, x, y, session = Net(), nn.Linear(3, 3), torch.randn(2, 70), torch.randn(2, 3), None
Path("chip.toml").write_text('name = "my-chip"\\n[dtypes]\\nsupported = ["float16"]\\n')
Path("wrong.py").write_text('''
import torch
class Wrong(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        result = super().call_function(target, args, kwargs)
        return result * 1.5 if "relu" in str(target) else result
def relu(gm, inputs):
    return Wrong(gm).run
''')
rules = lambda: sorted({finding.rule_id.partition(".")[0] for finding in session.findings})
"""
EFFECTS = {
    "strict": ("--strict --alignment 64", "session.strict", "True"),
    "warn": ("--strict --warn --alignment 64", "session.strict", "False"),
    "target": ("--target stick128", "session.record.target, rules()", "('stick128', ['align'])"),
    "a file as target": ("--target chip.toml", "session.record.target, rules()", "('my-chip', ['dtype'])"),
    "alignment": ("--alignment 64", "rules()", "['align']"),
    "max_memory": ("--max-memory 1KiB", "rules()", "['memory']"),
    "dtypes": ("--dtypes float16,bfloat16", "rules()", "['dtype']"),
    "deny": ("--deny aten.relu", "[each.op for each in session.coverage.fallbacks]", "['relu']"),
    "lower": ("--lower dynamo", "session.captures[0].stages", "('dynamo',)"),
    "diff": ("--diff", "session.record.diff.reference, session.record.diff.passed", "('eager', True)"),
    "candidate": ("--diff --candidate aot_eager", "session.record.diff.candidate", "'aot_eager'"),
    "backward": (
        "--diff --candidate aot_eager --backward",
        "any('grad:up.weight' in each.path for each in session.record.diff.outputs)",
        "True",
    ),
    "localize": (
        "--diff --candidate wrong:relu --localize",
        "session.record.diff.verdict, [each.op for each in session.record.localization.culprits]",
        "('mismatch', ['aten.relu.default'])",
    ),
    "profile": ("--profile", "bool(session.record.kernel_times.kernels)", "True"),
    "isolate": ("--diff --candidate aot_eager --isolate", "session.record.diff.verdict", "'match'"),
    "timeout": ("--diff --candidate aot_eager --timeout 100", "session.settings['timeout']", "100.0"),
    "memory_limit": (
        "--diff --candidate aot_eager --isolate --memory-limit 8GiB",
        "session.settings['memory_limit'], session.record.diff.verdict",
        "(8589934592, 'match')",
    ),
    "model": ("--model net", "[each.name for each in session.captures]", "['Net.forward']"),
    "artifacts": ("--artifacts elsewhere", "Path('elsewhere').is_dir()", "True"),
    "atol": ("--diff --candidate wrong:relu --atol 100", "session.record.diff.verdict", "'rounding'"),
    "rtol": ("--diff --candidate wrong:relu --rtol 1", "session.record.diff.verdict", "'rounding'"),
    "numerics": (
        "--diff --candidate wrong:relu --numerics float16",
        "session.record.diff.verdict, 'what float16 explains' in session.record.diff.outputs[0].reason",
        "('mismatch', True)",
    ),
    "require": (
        "--diff --candidate wrong:relu --rtol 1 --require sqnr=40dB",
        "session.record.diff.verdict, session.record.diff.outputs[0].missed_gates",
        "('mismatch', ('sqnr 6.0206, required at least 40 dB',))",
    ),
    "tokens": ("--diff --candidate aot_eager --tokens", "len(session.record.diff.tokens)", "0"),
    "calls": (
        "--diff --candidate aot_eager --calls all",
        "session.settings['calls'], session.record.diff.verdict",
        "('all', 'match')",
    ),
    "artifacts_limit": ("--artifacts-limit 3GiB", "session.settings['artifacts_limit']", "3221225472"),
    "transfers": ("--transfers values", "session.settings['transfers']", "'values'"),
    "native": ("--no-native --diff --candidate aot_eager", "session.settings['native']", "False"),
    "faults": (
        "--diff --candidate stick128 --faults wrong-accumulation",
        "session.settings['faults']",
        "('wrong-accumulation',)",
    ),
    "quiet": ("--quiet", "len(session.captures)", "2"),
}
"""Option → what is put on the line, an expression, and what that must say. The cell calls two models."""
SLOW = {"diff"}
"""These compile with Inductor, because that is what they do when nothing else is said."""


def test_no_option_is_forgotten() -> None:
    shown_elsewhere = {"as", "no_panel"}  # on every line below
    assert set(MAGIC_OPTIONS) == set(OPTIONS), "what the README lists works on the magic's line"
    assert set(MAGIC_OPTIONS) - shown_elsewhere == set(EFFECTS) - {"warn", "a file as target"}


def test_the_simulators_faults_and_the_log_are_as_the_line_says_while_its_cell_runs(kernel: Kernel) -> None:
    kernel.run("copied = torch.compile(lambda x: x.clone() * 2, backend='stick128')\nones = torch.ones(2, 128)")
    cell = "torch._dynamo.reset()\ncopied(ones).sum().item()"
    healthy = kernel.run(f"%%inductor_debug --no-panel\n{cell}")
    faulty = kernel.run(f"%%inductor_debug --no-panel --transfers 1 --faults copy-first-stick\n{cell}")
    assert healthy.results == ["512.0"]
    assert faulty.results != ["512.0"]
    assert "128" in faulty.stderr
    assert healthy.stderr == ""
    assert kernel.run(cell).results == ["512.0"]


@pytest.mark.parametrize("name", EFFECTS)
def test_an_option_does_what_it_says(kernel: Kernel, name: str) -> None:
    options, expression, expected = EFFECTS[name]
    assert not kernel.run(SETUP).error
    lower = "" if "--lower" in options or name in SLOW else "--lower aot "
    panel = "" if name == "quiet" else "--no-panel "
    outcome = kernel.run(f"%%inductor_debug {lower}{panel}--as session {options}\nother(y).shape\nnet(x).shape")
    assert outcome.results == ["torch.Size([2, 30])"]
    assert outcome.stdout == ""
    assert outcome.error.startswith("ConstraintViolationError" if name == "strict" else "")
    assert bool(outcome.error) == (name == "strict"), outcome.error
    assert len(outcome.displays) == (2 if name == "quiet" else 0)
    assert kernel.value(expression) == expected
