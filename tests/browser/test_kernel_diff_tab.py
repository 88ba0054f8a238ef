"""The KernelDiff tab in a real JupyterLab: slices, measures, drill-down, histogram and error curve."""

from __future__ import annotations

import pytest

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom inductor_debug_jupyter import StickAdapter, capture",
    """class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.sin(x)
        y = torch.clone(y)
        return (y + 1) * 2

torch.manual_seed(0)
with capture(lower="aot", eager=True, keep_inputs=True) as session:
    Net()(torch.randn(2, 3, 40, 130))
device = StickAdapter(faults=["copy-first-stick"], check=False)
report = session.diff(candidate=device)
found = session.localize(device)
session.panel()""",
    """from dataclasses import replace
from inductor_debug_jupyter.pipeline.records import CrashRecord
from inductor_debug_jupyter.pipeline.session import DebugSession
crash = CrashRecord("signal", "chip", "a graph", "run", signal="SIGABRT", stderr="unit 3\\n<b>on fire</b>")
DebugSession.of_record(replace(session.record, diff=replace(session.record.diff, crashes=(crash,)))).panel()""",
]


def test_the_tab_goes_from_the_whole_to_single_elements(lab: LabPage) -> None:
    panel = lab.panel_of("diff/diff.ipynb", CELLS, tab="diff")
    measure = panel.locator("[data-idj='measure']")
    measure.wait_for()
    assert "aten.clone" in (panel.locator("[data-idj='culprit']").first.text_content() or "")
    assert panel.locator("[data-idj='row_dim']").count() == 1
    lab.screenshot("diff-whole")
    story = panel.locator("[data-idj='culprit-line']")
    assert "Comes in at clone" in (story.text_content() or "")
    assert "y = torch.clone(y)" in (story.text_content() or "")
    top = panel.locator(".idj-diff").bounding_box()
    seen = story.bounding_box()
    assert top is not None
    assert seen is not None
    assert seen["y"] - top["y"] < 120, "the story comes before the figures"
    story.click()
    panel.locator("[data-idj='graph'] .idj-lit", has_text="clone").first.wait_for()
    lab.open_tab(panel, "overview")
    assert "the numbers are wrong: 1 output differs" in (
        panel.locator("[data-idj='verdict']").first.text_content() or ""
    )
    panel.locator("[data-idj='next']", has_text="clone computes wrong numbers").click()
    measure.wait_for()

    measure.select_option("signed")
    lab.wait_idle()
    panel.locator("[data-idj='at-0']").fill("1")
    panel.locator("[data-idj='at-0']").press("Enter")
    lab.wait_idle()
    assert measure.input_value() == "signed"
    assert panel.locator("[data-idj='at-0']").input_value() == "1"

    panel.locator("[data-idj='places'] [role='button']").first.click()
    panel.locator("text=Elements in sight").wait_for()
    window = panel.locator("[data-idj='window']").text_content() or ""
    assert "columns" in window
    assert window != "rows 0–39 · columns 0–129"
    lab.screenshot("diff-elements")
    panel.locator("button", has_text="Whole tensor").click()
    whole = "e => e.textContent.includes('columns 0–129')"
    lab.page.wait_for_function(f"() => [...document.querySelectorAll('[data-idj=window]')].some({whole})")
    drawn = (
        "() => [...document.querySelectorAll('.bqplot svg path')].some(p => (p.getAttribute('d') || '').length > 20)"
    )
    lab.page.wait_for_function(drawn)

    crashed = lab.cell(2)
    crashed.locator("[data-idj='tab'][data-tab='diff']").click()
    stderr = crashed.locator(".idj-diff [data-idj='stderr']")
    stderr.wait_for()
    assert not stderr.locator("pre").is_visible(), "folded"
    stderr.locator("summary").press("Enter")
    assert stderr.locator("pre").inner_text() == "unit 3\n<b>on fire</b>", "text, not HTML"
    lab.screenshot("diff-crash")
