"""axe-core finds nothing serious in any tab, light or dark; copy buttons copy."""

from __future__ import annotations

import javascript_tools
import pytest

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """%%inductor_debug --target stick128 --deny aten.cumsum --diff --candidate aot_eager --as session
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(65, 70)

    def forward(self, x):
        if x.sum() > 1e9:
            print("large")
        return torch.cumsum(torch.relu(self.up(x)), 1).double().sum()

net = Net()
net(torch.randn(2, 65)).backward()
torch.compile(nn.Linear(65, 5), backend="stick128")(torch.randn(2, 65));""",
]
AXE = """async () => {
  const frame = document.querySelector(".idj-frame");
  const found = await axe.run({include: [frame], exclude: [[".bqplot"]]}, {resultTypes: ["violations"]});
  const told = (node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ""}`;
  return found.violations.filter(one => ["serious", "critical"].includes(one.impact))
    .map(one => `${one.id}: ${one.nodes.slice(0, 4).map(told).join(" | ")}`);
}"""


def test_axe_finds_nothing_serious(lab: LabPage, request: pytest.FixtureRequest) -> None:
    tools = javascript_tools.tools_folder(request.config)
    panel = lab.panel_of("axe/axe.ipynb", CELLS)
    panel.locator("[data-idj='finding']").first.wait_for()
    lab.page.evaluate((tools / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    lab.open_tab(panel, "graph")
    panel.locator("[data-idj='compare-with']").select_option("dynamo")
    panel.locator("[data-idj='difference']").first.wait_for()
    tabs = panel.locator("[data-idj='tab']").evaluate_all("tabs => tabs.map(tab => tab.dataset.tab)")
    assert len(tabs) == 11
    found = []
    for theme in ("light", "dark"):
        if theme == "dark":
            lab.dark()
            lab.cell(1)
        for tab in tabs:
            lab.open_tab(panel, tab)
            panel.locator(".idj-body:not(.idj-waiting)").wait_for()
            lab.page.wait_for_timeout(700)
            if serious := lab.page.evaluate(AXE):
                found += [f"{theme} {tab}: {each}" for each in serious]
                lab.save_picture(f"axe-{theme}-{tab}")
    assert found == [], "\n".join(found)
    lab.assert_clean()


def test_copy_buttons(lab: LabPage) -> None:
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panel = lab.panel_of("axe/copy.ipynb", CELLS)
    panel.locator("[data-idj='copy-finding']").click()
    lab.page.wait_for_timeout(200)
    copied = lab.page.evaluate("() => navigator.clipboard.readText()")
    assert copied.startswith("### ✗ ")
    assert "- Seen: " in copied
    panel.locator("[data-idj='raw'] summary").click()
    panel.locator("[data-idj='copy-node']").click()
    lab.page.wait_for_timeout(200)
    assert lab.page.evaluate("() => navigator.clipboard.readText()").startswith("node: ")
    lab.open_tab(panel, "code")
    panel.locator("[data-idj='code-line']").first.wait_for()
    panel.locator(".idj-code-text [data-idj='copy']").click()
    lab.page.wait_for_timeout(200)
    assert len(lab.page.evaluate("() => navigator.clipboard.readText()").splitlines()) > 10
    lab.assert_clean()
