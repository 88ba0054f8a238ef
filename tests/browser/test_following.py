"""A panel on screen follows what the session is asked in other cells, in a real JupyterLab."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    """%load_ext inductor_debug_jupyter
import torch
from torch import nn

def off_by_one(graph, inputs):
    return lambda *values: [out + 1 for out in graph(*values)]""",
    """%%inductor_debug --target stick128 --lower aot --as session
net = nn.Sequential(nn.Linear(784, 128), nn.ReLU())
with torch.no_grad():
    net(torch.randn(4, 784))""",
    "report = session.diff(candidate=off_by_one)",
    "found = session.localize()",
    "trial = session.try_out(alignment=7)",
    "fixed = session.apply(*session.fixits(0))",
    "session.undo()",
]
PANEL, DIFF, LOCALIZE, TRY_OUT, APPLY, UNDO = range(1, 7)


def tab(panel: Locator, name: str) -> Locator:
    return panel.locator(f"[data-idj='tab'][data-tab='{name}']")


def test_diff_localize_try_out_and_apply_in_another_cell(lab: LabPage) -> None:
    lab.open(lab.lab.write_notebook("following/following.ipynb", CELLS))
    lab.run_cell(0)
    lab.run_cell(PANEL)
    panel = lab.cell(PANEL)
    findings = panel.locator("[data-idj='finding']")
    findings.filter(has_text="784").first.wait_for()
    tab(panel, "graph").click()
    assert tab(panel, "diff").count() == 0

    lab.run_cell(DIFF)
    tab(panel, "diff").filter(has_text="✗").wait_for()
    assert tab(panel, "graph").get_attribute("aria-selected") == "true", "the user looks at the graph just now"
    tab(panel, "diff").click()
    panel.locator("[data-idj='measure']").wait_for()
    assert panel.locator("[data-idj='culprit']").count() == 0

    lab.run_cell(LOCALIZE)
    panel.locator("[data-idj='culprit']").first.wait_for()
    assert tab(panel, "diff").get_attribute("aria-selected") == "true"
    lab.screenshot("following-localize")

    tab(panel, "what_if").click()
    panel.locator("[data-idj='try-field'][data-field='alignment']").fill("32")
    lab.run_cell(TRY_OUT)
    panel.locator("[data-idj='trial']", has_text="1. alignment 64 → 7").wait_for()
    written = panel.locator("[data-idj='try-field'][data-field='alignment']").input_value()
    assert written == "32", "what the user was writing stays"
    lab.screenshot("following-try-out")

    tab(panel, "findings").click()
    lab.run_cell(APPLY)
    panel.locator("[data-idj='fix-applied']").filter(has_text="pad 784 to 832").wait_for()
    assert findings.filter(has_text="784").count() == 0
    assert tab(panel, "diff").count() == 1, "what was compared is still there"
    lab.screenshot("following-apply")
    lab.run_cell(UNDO)
    tab(panel, "findings").click()
    findings.filter(has_text="784").first.wait_for()
    assert panel.locator("[data-idj='error']").is_hidden()
    lab.assert_clean()
