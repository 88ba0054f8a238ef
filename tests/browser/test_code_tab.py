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
