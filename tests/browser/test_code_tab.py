"""Source ↔ graph ↔ kernel in a real JupyterLab: choosing one lights the other two, the backward included."""

from __future__ import annotations

import pytest

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """%%inductor_debug --as session
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        h = self.up(x)
        h = torch.relu(h) + 1
        return self.norm(h).sum()

net = Net()
net(torch.randn(4, 16)).backward()""",
]


def test_a_line_a_node_and_a_kernel_light_each_other(lab: LabPage) -> None:
    panel = lab.panel_of("code/code.ipynb", CELLS, tab="code")
    nodes = panel.locator("[data-idj='code-node']")
    nodes.first.wait_for()
    document = panel.locator("[data-idj='code-document']")
    text = panel.locator("[data-idj='code-line']")
    text.first.wait_for()

    # A line: its nodes light up, and its kernel is on show.
    panel.locator("[data-idj='code-source'] [data-line='10']").click()
    lab.wait_idle()
    lit = panel.locator("[data-idj='code-node'].idj-lit")
    assert {"relu", "add"} <= set(lit.evaluate_all("rows => rows.map(row => row.dataset.node)"))
    shown = document.evaluate("select => select.selectedOptions[0].textContent")
    assert shown.startswith("● cpp_fused_")
    lab.eventually("session.selection['line']", 10)

    # A kernel of the backward: its lines light up.
    backward = lab.python(
        "next(k.name for k in session.captures[0].kernels if k.stage == 'backward' and 'relu' in k.name)"
    )
    wanted = document.evaluate(
        "(select, name) => [...select.options].find(o => o.textContent.includes(name)).value", backward
    )
    document.select_option(wanted)
    lab.wait_idle()
    lines = panel.locator("[data-idj='code-source'] [data-idj='line'].idj-lit")
    assert set(lines.evaluate_all("rows => rows.map(row => Number(row.dataset.line))")) == {10, 11}
    lab.eventually("session.selection['kernel']", wanted)

    # A node of the backward graph: its forward line.
    stage = panel.locator("[data-idj='code-stage']")
    choice = stage.evaluate("select => [...select.options].find(o => /^backward /.test(o.textContent)).value")
    stage.select_option(choice)
    where = panel.locator("[data-idj='code-node'][data-node='where']")
    where.click()
    lab.wait_idle()
    assert lines.evaluate_all("rows => rows.map(row => row.dataset.line)") == ["10"]
    lab.screenshot("code-light")

    # Python chooses; the panel follows.
    lab.python("session.select(kernel='extern_kernels.addmm')['kernel']")
    lab.page.wait_for_timeout(500)
    assert lines.evaluate_all("rows => rows.map(row => row.dataset.line)") == ["9"]
    assert lit.evaluate_all("rows => rows.map(row => row.dataset.node)") == ["addmm"]
    panel.locator("[data-idj='code-search']").fill("addmm")
    assert "1 line" in (panel.locator(".idj-code .idj-tally").text_content() or "")
    lab.dark()
    lab.cell(1)
    lab.screenshot("code-dark")
    lab.assert_clean()


LIBRARY = """import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)

    def forward(self, x):
        h = self.up(x)
        return torch.relu(h) + 1
"""


def test_the_cells_line_lights_the_nodes_of_a_librarys_model(lab: LabPage) -> None:
    (lab.lab.folder / "library").mkdir()
    (lab.lab.folder / "library" / "a_library.py").write_text(LIBRARY)
    cells = [
        f"{CELLS[0]}\nfrom a_library import Net",
        "%%inductor_debug --as session\nnet = Net()\nnet(torch.randn(4, 16))",
    ]
    panel = lab.panel_of("library/code.ipynb", cells, tab="code")
    lit = panel.locator("[data-idj='code-node'].idj-lit")
    panel.locator("[data-idj='code-file']").select_option("In [2]")
    panel.locator("[data-idj='code-source'] [data-line='3']").click()
    lit.first.wait_for()
    lab.wait_idle()
    assert {"addmm", "relu", "add"} <= set(lit.evaluate_all("rows => rows.map(row => row.dataset.node)"))
    assert "● " in panel.locator("[data-idj='code-document']").inner_text()

    # A node of the library: its own file is on show, and its line is lit there.
    panel.locator("[data-idj='code-node'][data-node='relu']").click()
    lab.wait_idle()
    assert panel.locator("[data-idj='code-file']").input_value() == "a_library.py"
    lines = panel.locator("[data-idj='code-source'] [data-idj='line'].idj-lit")
    assert lines.evaluate_all("rows => rows.map(row => row.dataset.line)") == ["11"]
    lab.assert_clean()


def test_the_code_tab_opens_at_the_line_of_the_finding_and_guards_tell_of_no_finding(lab: LabPage) -> None:
    (lab.lab.folder / "long").mkdir()
    (lab.lab.folder / "long" / "a_long_library.py").write_text("# a long file\n" * 300 + LIBRARY)
    run = "%%inductor_debug --target stick128 --as session\nnet = Net()\nnet(torch.randn(4, 16))"
    panel = lab.panel_of("long/code.ipynb", [f"{CELLS[0]}\nfrom a_long_library import Net", run])
    strip = panel.locator("[data-idj='fix-check']")
    strip.wait_for()
    lab.open_tab(panel, "code")
    panel.locator("[data-idj='code-source'] [data-idj='line'].idj-lit[data-line='310']").wait_for()
    assert panel.locator("[data-idj='code-file']").input_value() == "a_long_library.py"
    assert not strip.is_visible(), "fix-its have nothing to do with this tab"

    lab.open_tab(panel, "guards")
    assert panel.locator(".idj-detail .idj-finding-title").count() == 0
    lab.open_tab(panel, "findings")
    panel.locator(".idj-detail .idj-finding-title").wait_for()
    assert strip.is_visible()
