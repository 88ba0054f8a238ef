"""While a cell compiles it says what it is doing; afterwards that is gone."""

import html
import io
import json
import re
import sys

import pytest

from inductor_debug_jupyter.jupyter import progress
from inductor_debug_jupyter.pipeline.capture.structured_trace import CompileStep, CompileSteps

CELL = "{magic}\ntorch.nn.Linear(4, 4)(torch.ones(2, 4)).sum().backward()"


@pytest.fixture
def impatient(kernel):
    kernel.run("import inductor_debug_jupyter.jupyter.progress as progress\nprogress.PATIENCE = 0")
    yield kernel
    kernel.run("progress.PATIENCE = 0.8")


def test_a_busy_cell_says_which_graph_which_stage_how_long_and_then_nothing(impatient):
    outcome = impatient.run(CELL.format(magic="%%inductor_debug --lower inductor"))
    told = [one["text/html"] for one in (*outcome.displays, *outcome.updates) if "⏳" in one.get("text/html", "")]
    assert any("Linear (" in text and "generating code" in text for text in told)
    assert all(re.search(r" · \d+ s<", text) for text in told), "the seconds are of what is named"
    assert not any(" s of " in text for text in told)
    assert outcome.updates[-1]["text/html"] == ""


@pytest.mark.parametrize("magic", ["%%inductor_debug --quiet", "%%inductor_debug --no-panel"])
def test_quiet_cells_say_nothing(impatient, magic):
    outcome = impatient.run(CELL.format(magic=magic))
    assert outcome.updates == []
    assert not any("⏳" in one.get("text/html", "") for one in outcome.displays)
    assert (outcome.stdout, outcome.stderr) == ("", "")


def test_a_quick_cell_shows_no_line(kernel):
    outcome = kernel.run("%%inductor_debug --lower dynamo\ntorch.nn.Linear(4, 4)(torch.ones(2, 4)).shape")
    assert outcome.updates == []


def test_names_are_data():
    shown = []
    place = progress._Notebook()
    place._handle = type("Handle", (), {"update": lambda self, bundle, raw: shown.append(bundle["text/html"])})()
    place.show("<img src=x onerror=alert(1)> (0/0): fusing")
    assert "<img" not in shown[0]


def test_steps_are_told_once_with_the_graphs_name():
    told = []
    steps = CompileSteps(told.append)
    steps.named("0/0", "Net.forward")

    def event(name, ph="B"):
        steps.add({"chromium_event": {}, "compile_id": "0/0"}, json.dumps({"name": name, "ph": ph}))

    for name in (
        "GraphLowering.run",
        "GraphLowering.run",
        "unheard of",
        "entire_backward_compile",
        "Scheduler.codegen",
    ):
        event(name)
    event("Scheduler.codegen", "E")
    event("entire_backward_compile", "E")
    event("entire_backward_compile", "E")
    steps.add({"artifact": {"name": "x"}, "compile_id": "0/0"}, "text")
    assert [str(step) for step in told] == [
        "Net.forward (0/0): lowering to Inductor's IR",
        "Net.forward, backward (0/0): generating code",
        "Net.forward, backward (0/0): compiled, and running",
    ]
    assert told[-1].is_end


def test_after_compiling_the_line_says_that_the_cells_own_code_runs(impatient):
    """The seconds begin anew: those of the compile are not told of the cell."""
    outcome = impatient.run(
        "%%inductor_debug --lower aot\nimport time\nmodel = torch.nn.Linear(4, 4)\n"
        "model(torch.ones(2, 4))\ntime.sleep(2.2)"
    )
    pages = [one["text/html"] for one in (*outcome.displays, *outcome.updates) if "⏳" in str(one)]
    told = [re.sub(r"<.*?>", "", page) for page in pages]
    own = [text for text in told if "the cell's own code runs" in html.unescape(text)]
    assert own, told
    assert own[0].endswith(" 0 s")
    assert own[-1].endswith(" 2 s")
    assert told[-1] == own[-1]


def test_a_comparison_is_told_while_it_runs(impatient):
    outcome = impatient.run(
        "%%inductor_debug --lower aot --diff --candidate aot_eager\ntorch.nn.Linear(4, 4)(torch.ones(2, 4)).shape"
    )
    told = [one["text/html"] for one in (*outcome.displays, *outcome.updates) if "⏳" in one.get("text/html", "")]
    assert any("the cell is done; comparing eager with aot_eager" in text for text in told)
    assert outcome.updates[-1]["text/html"] == ""


def test_a_terminal_overwrites_one_line(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0)
    line = progress.CellProgress(object())
    line.update(CompileStep("0/0", "Net", "fusing"))
    line.done()
    line.done()
    assert stream.getvalue().startswith("\rNet (0/0): fusing · 0 s\r")
    assert stream.getvalue().endswith("\r")
