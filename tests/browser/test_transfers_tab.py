"""The Transfers tab, the ledger and the overview's tiles in a real JupyterLab, on the stick simulator."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(65, 128)
        self.down = nn.Linear(128, 5)

    def forward(self, x):
        h = torch.relu(self.up(x))
        h = torch.cumsum(h, 1)
        return self.down(h)

net = torch.compile(Net(), backend="stick128")""",
    """%%inductor_debug --target stick128 --deny aten.cumsum --as session
net(torch.randn(2, 65)).sum().backward()""",
]


FRAME = """frame => { const box = frame.getBoundingClientRect(); return {
    height: Math.round(box.height),
    outside: [...frame.querySelectorAll('.idj-pane, .idj-overview, .idj-list, .idj-bar > *, .idj-tab')].filter(each => {
        const own = each.getBoundingClientRect();
        return own.width && (own.right > box.right + 1 || own.left < box.left - 1);
    }).map(each => each.className)}; }"""
"""The frame's height, and what of the panel stands outside of it."""


def test_transfers_and_kernels_are_lines_that_select_their_node(lab: LabPage) -> None:
    panel = lab.panel_of("transfers/transfers.ipynb", CELLS, cell=2, tab="overview")
    _the_overview_leads_to_the_transfers(lab, panel)
    _a_kernel_lights_its_node_and_line_and_shows_its_spec(lab, panel)
    _the_transfers_of_a_node_chosen_elsewhere_are_marked(lab, panel)
    _the_ledger_says_what_leaves_the_target_and_what_moves_for_it(lab, panel)
    _dark_and_narrow_every_tab_stays_in_its_frame(lab, panel)
    lab.assert_clean()


def _the_overview_leads_to_the_transfers(lab: LabPage, panel: Locator) -> None:
    lab.page.wait_for_timeout(300)
    lab.screenshot("overview-light")
    tile = panel.locator("[data-idj='tile'][data-title='Transfers']")
    assert "27 kernels" in (tile.text_content() or "")
    tile.click()
    panel.locator("[data-idj='transfers-told']", has_text="kernels").wait_for()
    rows = panel.locator("[data-idj='device-event']")
    rows.first.wait_for()
    lines = rows.evaluate_all("rows => rows.map(row => row.querySelector('.idj-device-line').textContent)")
    assert any("2×65 float32 → 2×2×64 float16" in line for line in lines), lines
    titles = rows.evaluate_all("rows => rows.map(row => row.title)")
    logged = "copy_to_device: shape=[2, 65] dtype=float32 device_layout=[2, 2, 64] device_dtype=float16"
    assert any(title.startswith(logged) for title in titles), "the log's line is the tooltip"


def _a_kernel_lights_its_node_and_line_and_shows_its_spec(lab: LabPage, panel: Locator) -> None:
    panel.locator("[data-idj='transfers-kind']").select_option("kernel")
    panel.locator("[data-idj='transfers-filter']").fill("op=aten.relu.default")
    panel.locator("[data-idj='device-event']").first.click()
    panel.locator("[data-idj='raw'] summary", has_text="relu").wait_for()
    lab.wait_idle()
    lab.eventually("[session.selection[key] for key in ('stage', 'node', 'line')]", ["forward", "relu", 8])
    assert "h = torch.relu(self.up(x))" in (panel.locator("[data-idj='line'].idj-lit").first.text_content() or "")
    assert '"work_division"' in (panel.locator("[data-idj='kernel-spec']").text_content() or "")
    lab.screenshot("transfers-light")


def _the_transfers_of_a_node_chosen_elsewhere_are_marked(lab: LabPage, panel: Locator) -> None:
    panel.locator("[data-idj='transfers-kind']").select_option("")
    panel.locator("[data-idj='transfers-filter']").fill("name=addmm_1")
    lab.python("session.select(node='addmm_1')['node']")
    panel.locator("[data-idj='device-event'].idj-near").first.wait_for()


def _the_ledger_says_what_leaves_the_target_and_what_moves_for_it(lab: LabPage, panel: Locator) -> None:
    lab.open_tab(panel, "placement")
    entry = panel.locator("[data-idj='ledger'][data-op='cumsum']")
    assert "moved for it" in (entry.text_content() or "")
    entry.click()
    panel.locator("[data-idj='raw'] summary", has_text="cumsum").wait_for()
    assert "between device and CPU" in (panel.locator("[data-idj='moved']").text_content() or "")
    lab.screenshot("placement-ledger-light")


def _dark_and_narrow_every_tab_stays_in_its_frame(lab: LabPage, panel: Locator) -> None:
    lab.narrow()
    lab.dark()
    sizes = []
    for tab in ("overview", "findings", "transfers", "placement", "guards", "memory", "graph"):
        panel.locator(f"[data-idj='tab'][data-tab='{tab}']").click()
        lab.page.wait_for_timeout(400)
        lab.wait_idle()
        lab.cell(2).locator(".idj-frame").scroll_into_view_if_needed()
        lab.screenshot(f"narrow-{tab}-dark")
        sizes.append(panel.locator(".idj-frame").evaluate(FRAME))
    assert len({size["height"] for size in sizes}) == 1, "the page must not jump when a tab opens"
    assert [size["outside"] for size in sizes] == [[]] * len(sizes)
