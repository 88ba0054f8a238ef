"""What leaves the panel in a real JupyterLab: a rule's page, the report, and the call that chooses a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """%%inductor_debug --target stick128 --lower aot --as mine
net = nn.Sequential(nn.Linear(70, 64), nn.ReLU(), nn.Linear(64, 10)).double()
net(torch.randn(2, 70, dtype=torch.float64))""",
]


def test_a_rules_page_a_link_and_a_report(lab: LabPage) -> None:
    panel = lab.panel_of("out/out.ipynb", CELLS)
    detail = panel.locator(".idj-detail")
    page = detail.locator("[data-idj='rule-page']")

    # The page of the chosen finding's rule; another finding has another page, which is open at once.
    panel.locator("[data-idj='finding']", has_text="float64").first.click()
    detail.locator("[data-rule='dtype.unsupported'] summary").click()
    page.locator("h5", has_text="Why hardware has it").wait_for()
    assert "dtype.unsupported" in (page.locator("summary").text_content() or "")
    panel.locator("[data-idj='finding']", has_text="multiple of 64").first.click()
    detail.locator("[data-rule='align.innermost'] pre", has_text="nn.Linear(784, 512)").wait_for()
    assert page.locator("li").count() == 4
    lab.screenshot("out-rule-page")
    page.locator("summary").press("Enter")
    page.locator("pre").first.wait_for(state="hidden")

    # A link is a call that chooses this finding.
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    detail.locator("[data-idj='link-finding']").click()
    detail.locator("[data-idj='link-finding']", has_text="Copied").wait_for()
    call = lab.page.evaluate("() => navigator.clipboard.readText()")
    chosen = lab.python("mine.selection['finding']")
    assert call.startswith(f"mine.select(finding={chosen})  # align.innermost: ")
    assert lab.python("mine.selection['finding']", run=call) == chosen

    # The report: a line says where it is, and the browser gets the same page.
    panel.locator("[data-idj='report']").click()
    line = panel.locator("[data-idj='report-line']", has_text="Report written")
    line.wait_for()
    written = Path(line.locator(".idj-report-path").text_content() or "")
    assert written.is_relative_to(lab.lab.folder / "out" / "debug_artifacts")
    lab.screenshot("out-report")
    with lab.page.expect_download() as download:
        line.locator("[data-idj='report-download']").click()
    assert download.value.suggested_filename == written.name
    assert Path(download.value.path()).read_text() == written.read_text()
    assert "align.innermost" in written.read_text()
    line.locator("button", has_text="Dismiss").click()
    line.wait_for(state="hidden")
    lab.assert_clean()
