"""A set of fix-its as a diff of the user's source; applied, it gives the same findings as the rewrite."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.pipeline.capture.sources import CallSite
from inductor_debug_jupyter.pipeline.fixits.patch import Patch, call_patch
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.records import SessionRecord

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

SOURCE = '''"""A cell."""
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(784, 100)  # 784 pixels, größer
        self.down = nn.Linear(100, 10)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))

net = Net()
x = torch.randn(4, 784)
for step in range(2):
    "ä"; out = torch.relu(net(x))
    out.sum().backward()
'''
PADS = Rewrite(pads={784: 832, 10: 64}, casts={"float64": "float32"}, channels_last=True)


def run(source: str, folder: Path, **options: Any) -> DebugSession:
    file = folder / "cell.py"
    file.write_text(source, encoding="utf-8")
    options = {"target": "stick128", "eager": True, "lower": "aot", "keep_inputs": True, **options}
    with capture(artifacts=str(folder / "artifacts"), **options) as session:
        exec(compile(source, str(file), "exec"), {"__name__": "cell"})
    return session


def findings(record: SessionRecord) -> list[tuple[str, str, int]]:
    return sorted((each.severity, each.title, len(each.places)) for each in record.findings)


def applied(diff: str, folder: Path) -> str:
    """The file, patched by the tool that everybody has."""
    (folder / "fix.diff").write_text(diff, encoding="utf-8")
    subprocess.run(["git", "apply", "fix.diff"], cwd=folder, check=True)
    return (folder / "cell.py").read_text(encoding="utf-8")


def patched(source: str, call: str, rewrite: Rewrite, folder: Path, backend: str = "") -> Patch:
    """The patch for the ``call`` that stands in the source."""
    file = folder / "cell.py"
    file.write_text(source, encoding="utf-8")
    before = source[: source.index(call)]
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2].encode())
    end = column + len(call.encode())
    return call_patch(rewrite, [(CallSite(str(file), (line, column), (line, end)), backend)])


def test_the_patch_gives_the_same_findings_as_the_rewrite(tmp_path: Path) -> None:
    session = run(SOURCE, tmp_path)
    assert len(session.findings) == 3
    result = session.fix_all()
    assert result.accepted
    assert result.trial is not None
    assert result.patch.strip() in str(result)
    text = applied(result.patch, tmp_path)
    line = "net = fixed(net, pad={784: 832, 100: 128, 10: 64})\n"
    assert f"x = torch.randn(4, 784)\n{line}for step in range(2):\n" in text, "in front of the loop"
    assert "from torch import nn\nfrom inductor_debug_jupyter import fixed\n" in text
    again = run(text, tmp_path)
    assert findings(again.record) == findings(result.trial.after)
    assert {stage: len(graph.calls) for stage, graph in again.record.captures[0].graphs.items()} == {
        stage: len(graph.calls) for stage, graph in result.trial.after.captures[0].graphs.items()
    }


def test_a_patch_can_be_made_of_what_was_patched(tmp_path: Path) -> None:
    text = SOURCE.replace("for step", "net = fixed(net, pad={784: 832})\nfor step")
    text = text.replace("import torch\n", "import torch\nfrom inductor_debug_jupyter import fixed\n", 1)
    patch = patched(text, "net(x)", Rewrite(pads={10: 64}), tmp_path)
    assert patch.diff.count("\n+") == 2, "one line and the header: it is imported already"
    assert "+net = fixed(net, pad={10: 64})" in patch.diff


def test_every_kind_of_fix_it_is_an_argument(tmp_path: Path) -> None:
    rewrite = Rewrite({784: 832}, {3: 64}, {"float64": "float32"}, True, frozenset({"a.*:mm"}), frozenset({"gelu"}))
    (text,) = patched(SOURCE, "net(x)", rewrite, tmp_path, "inductor").texts.values()
    assert (
        """net = fixed(
    net,
    pad={784: 832},
    pad_products={3: 64},
    cast={"float64": "float32"},
    channels_last=True,
    contiguous=["a.*:mm"],
    decompose=["gelu"],
    backend="inductor",
)
for step"""
        in text
    )


@pytest.mark.parametrize(
    ("source", "call", "becomes"),
    [
        ("net = f()\nif 1: out = net(x)\n", "net(x)", "net = fixed(net, {})\nif 1: out = net(x)"),
        ("for net in nets: net(x)\n", "net(x)", "for net in nets: fixed(net, {})(x)"),
        ("for net in nets:\n    net(x)\n", "net(x)", "for net in nets:\n    net = fixed(net, {})\n    net(x)"),
        ("def step(x):\n    return net(x)\n", "net(x)", "    return fixed(net, {})(x)"),
        (
            "def step(x):\n    net = f()\n    for _ in x:\n        net(x)\n",
            "net(x)",
            "    net = f()\n    net = fixed(net, {})\n    for _ in x:\n        net(x)",
        ),
        ("outs = [net(x) for x in xs]\n", "net(x)", "outs = [fixed(net, {})(x) for x in xs]"),
        ("self.net(x)\n", "self.net(x)", "self.net = fixed(self.net, {})\nself.net(x)"),
        ("Net().eval()(x)\n", "Net().eval()(x)", "fixed(Net().eval(), {})(x)"),
        ("%%inductor_debug\nnet(x)\n", "net(x)", "%%inductor_debug\nfrom inductor_debug_jupyter import fixed\nnet = "),
        ("fixed = 1\nnet(x)\n", "net(x)", "net = inductor_debug_fixed(net, {})\nnet(x)"),
    ],
)
def test_where_the_line_goes(source: str, call: str, becomes: str, tmp_path: Path) -> None:
    (text,) = patched(source, call, Rewrite(pads={5: 8}), tmp_path).texts.values()
    assert becomes.replace("{}", "pad={5: 8}") in text


def test_what_cannot_be_written_is_said_with_the_line_to_write(tmp_path: Path) -> None:
    (said,) = call_patch(PADS, [(None, "")]).unwritten
    code = 'model = fixed(model, pad={784: 832, 10: 64}, cast={"float64": "float32"}, channels_last=True)'
    assert said == f"it is not known where the model is called; in front of that, write: {code}"
    (said,) = call_patch(PADS, [(CallSite("/x/site-packages/lib/trainer.py", (7, 0), (7, 9)), "")]).unwritten
    assert said == f"trainer.py, line 7, which is a library's, calls the model; where you make it, write: {code}"
    file = tmp_path / "cell.py"
    file.write_text("net = = 3\n", encoding="utf-8")
    (said,) = call_patch(PADS, [(CallSite(str(file), (1, 0), (1, 3)), "")]).unwritten
    assert said == "cell.py is not what it was when the model was called"


def test_a_compiled_model_stays_compiled(tmp_path: Path) -> None:
    source = SOURCE.replace("net = Net()", "net = torch.compile(Net(), backend='aot_eager')")
    result = run(source, tmp_path).fix_all()
    assert '+net = fixed(net, pad={784: 832, 100: 128, 10: 64}, backend="aot_eager")' in result.patch


TWO = """import torch
from torch import nn

small, large = nn.Linear(64, 10), nn.Linear(10, 100)
out = large(small(torch.randn(4, 64)))
"""


def test_every_model_of_a_cell_gets_its_line(tmp_path: Path) -> None:
    session = run(TWO, tmp_path)
    result = session.fix_all()
    assert result.accepted
    text = applied(result.patch, tmp_path)
    assert text.count("import fixed\n") == 1
    pads = next(line for line in text.splitlines() if line.startswith("large = fixed")).partition("(large")[2]
    assert f"small = fixed(small{pads}\n" in text
    assert [each for each in run(text, tmp_path).findings if each.severity == "error"] == []
