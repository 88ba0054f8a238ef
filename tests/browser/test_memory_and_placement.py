"""The Memory and Placement tabs in a real JupyterLab."""

from __future__ import annotations

import pytest

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """%%inductor_debug --lower aot --deny aten.cumsum --as session
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 64)

    def forward(self, x):
        h = torch.relu(self.up(x))
        h = torch.cumsum(h, 1)
        return self.down(h).sum()

Net()(torch.randn(128, 64)).backward()""",
]


def test_memory_and_placement_are_shown_and_selectable(lab: LabPage) -> None:
    panel = lab.panel_of("memory/memory.ipynb", CELLS, tab="memory")
    panel.locator(".bqplot svg").first.wait_for()
    drawn = (
        "() => [...document.querySelectorAll('.bqplot svg path')].some(p => (p.getAttribute('d') || '').length > 80)"
    )
    lab.page.wait_for_function(drawn)
    title = panel.locator("[data-idj='alive-title']")
    assert "(the peak)" in (title.text_content() or "")
    rows = panel.locator("[data-idj='alive']")
    rows.first.wait_for()
    at_peak = rows.count()
    lab.screenshot("memory-light")

    # The ruler follows the pointer once the curve was clicked; what is alive there is listed.
    box = panel.locator(".bqplot svg").first.bounding_box()
    assert box is not None
    lab.page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    lab.page.mouse.move(box["x"] + 75, box["y"] + box["height"] * 0.4, steps=4)
    lab.page.wait_for_timeout(600)
    lab.wait_idle()
    assert "(the peak)" not in (title.text_content() or "")
    assert rows.count() != at_peak or "alive at" in (title.text_content() or "")

    lab.open_tab(panel, "placement")
    panel.locator("[data-idj='placement-told']", has_text="on the CPU").wait_for()
    cumsum = panel.locator("[data-idj='op'][data-op='cumsum']")
    panel.locator("[data-idj='op'][data-op='relu']").click()
    panel.locator("[data-idj='raw'] summary", has_text="relu").wait_for()
    cumsum.click()
    panel.locator("[data-idj='raw'] summary", has_text="cumsum").wait_for()
    lab.page.wait_for_timeout(300)
    lab.wait_idle()
    assert lab.python("[session.selection[key] for key in ('finding', 'node', 'line')]") == [0, "cumsum", 10]
    assert "h = torch.cumsum(h, 1)" in (panel.locator("[data-idj='line'].idj-lit").first.text_content() or "")
    assert panel.locator(".idj-segment-cpu").count() >= 1
    lab.screenshot("placement-light")
    lab.dark()
    lab.cell(1)
    lab.screenshot("placement-dark")
    lab.open_tab(panel, "memory")
    lab.page.wait_for_timeout(500)
    lab.screenshot("memory-dark")
    lab.assert_clean()
