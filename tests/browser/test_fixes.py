"""Click a finding, apply its fix-it: it is gone; undo: it is back. In a real JupyterLab."""

from __future__ import annotations

import pytest

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """%%inductor_debug --target stick128 --as session --lower aot
net = nn.Sequential(nn.Linear(784, 128), nn.GELU(), nn.Linear(128, 10))
net(torch.randn(4, 784)).sum().backward()""",
]


def test_check_apply_undo_and_fix_all(lab: LabPage) -> None:
    panel = lab.panel_of("fixes/fixes.ipynb", CELLS)
    findings = panel.locator("[data-idj='finding']")
    findings.filter(has_text="784").first.click()
    panel.locator("[data-idj='fix-check']").click()
    offer = panel.locator("[data-idj='fixit']")
    offer.wait_for()
    assert "pad 784 to 832" in (offer.text_content() or "")
    assert "✓" in (offer.text_content() or "")
    lab.screenshot("fixes-offer")

    offer.locator("[data-idj='fix-apply']").click()
    panel.locator("[data-idj='fix-applied']").filter(has_text="pad 784 to 832").wait_for()
    findings.first.wait_for()
    assert findings.filter(has_text="784").count() == 0
    assert findings.filter(has_text="10 is not").count() == 1
    assert "2 errors, 0 warnings → 1 error," in (panel.locator("[data-idj='fix-lines']").text_content() or "")
    assert lab.python("[f.title for f in session.applied]") == ["pad 784 to 832 (+6%)"]
    patch = panel.locator("[data-idj='fix-patch']")
    patch.locator("summary").click()
    shown = patch.locator("pre").text_content() or ""
    assert "\n+net = fixed(net, pad={784: 832})\n net(torch.randn(4, 784)).sum().backward()" in shown
    assert (
        "\n %%inductor_debug --target stick128 --as session --lower aot\n+from inductor_debug_jupyter import" in shown
    )
    patch.locator("[data-idj='copy']").click()
    assert lab.python("session.patch().diff").strip() == shown.strip()
    lab.screenshot("fixes-applied")

    panel.locator("[data-idj='fix-undo']").click()
    findings.filter(has_text="784").first.wait_for()
    assert lab.python("len(session.applied)") == 0

    panel.locator("[data-idj='fix-all']").click()
    panel.locator("[data-idj='fix-status']").filter(has_text="takes all").wait_for()
    assert lab.python("[f.severity for f in session.findings if f.severity == 'error']") == []
    lab.screenshot("fixes-all")
    lab.assert_clean()
