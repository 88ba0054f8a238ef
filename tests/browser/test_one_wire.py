"""One widget and one wire in a real JupyterLab: messages of a click, reload, two views, and a kernel that is gone."""

from __future__ import annotations

import pytest

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """%%inductor_debug --target stick128 --lower aot --as session
net = nn.Sequential(nn.Linear(70, 64), nn.ReLU(), nn.Linear(64, 10))
net(torch.randn(2, 70)).sum().backward()""",
]
COUNTING = """() => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  window.testMessages = [];
  kernel.anyMessage.connect((_, {msg, direction}) => {
    if (msg.header.msg_type.startsWith("comm_")) window.testMessages.push(`${direction} ${msg.header.msg_type}`);
  });
}"""
COMMS = """async () => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const reply = await kernel.requestCommInfo({target_name: "jupyter.widget"});
  return Object.keys(reply.content.comms).length;
}"""


def test_a_click_is_one_request_and_another_page_shows_the_same(lab: LabPage) -> None:
    panel = lab.panel_of("wire/wire.ipynb", CELLS)
    second = panel.locator("[data-idj='finding']").nth(1)
    second.wait_for()
    assert lab.page.evaluate(COMMS) == 2, "the panel, and ipywidgets' own Layout"
    lab.page.evaluate(COUNTING)
    second.click()
    lab.eventually("session.selection.get('finding')", lab.python("1"))
    lab.wait_idle()
    lab.page.wait_for_timeout(300)
    messages = lab.page.evaluate("() => window.testMessages")
    assert messages.count("send comm_msg") == 1, messages
    assert messages.count("recv comm_msg") == 2, "what changed, and that it is done"
    print(f"a click: {messages}")

    # A second view of the same output: the same store, so a click in one lights the other at once.
    lab.page.evaluate(
        "async () => { const app = window.jupyterapp; app.shell.currentWidget.content.activeCellIndex = 1;"
        " await app.commands.execute('notebook:create-output-view'); }"
    )
    beside = lab.page.locator(".jp-LinkedOutputView .idj-frame")
    beside.locator("[data-idj='finding']").first.click()
    panel.locator("[data-idj='finding'].idj-lit").first.wait_for()
    assert panel.locator("[data-idj='finding']").nth(0).get_attribute("aria-selected") == "true"
    lab.screenshot("wire-two-views")
    lab.assert_clean()

    # The page is loaded anew while the kernel lives: the panel is there again, with the tab and what was chosen.
    lab.open_tab(panel, "graph")
    lab.wait_idle()
    lab.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    lab.page.wait_for_timeout(1500)
    lab.page.reload()
    lab.page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.content?.model?.cells?.length")
    again = lab.page.locator(".jp-NotebookPanel .idj-frame")
    again.locator("[data-idj='tab'][data-tab='graph'][aria-selected='true']").wait_for(timeout=60_000)
    again.locator("[data-idj='node'].idj-lit").first.wait_for()


def test_what_fails_in_python_and_a_kernel_that_is_gone_are_said_in_the_panel(lab: LabPage) -> None:
    panel = lab.panel_of("wire/fails.ipynb", CELLS)
    panel.locator("[data-idj='finding']").first.wait_for()
    lab.python(
        "None", run="def broken(selection):\n    raise ValueError('my observer is broken')\npanel = session.panel()"
    )
    lab.python("None", run="from ipywidgets.widgets.widget import _instances as all_widgets")
    lab.python("None", run="shown = [each for each in all_widgets.values() if type(each).__name__ == 'DebugPanel']")
    lab.python("None", run="for each in shown: each.panes.on_select = broken")
    panel.locator("[data-idj='finding']").nth(1).click()
    error = panel.locator("[data-idj='error']", has_text="ValueError: my observer is broken")
    error.wait_for()
    error.locator("button").click()
    error.wait_for(state="hidden")
    lab.assert_clean()

    # The kernel is restarted.
    finding = panel.locator("[data-idj='finding']").nth(0)
    lab.page.evaluate(
        "async () => { await window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart(); }"
    )
    panel.locator("[data-idj='error']", has_text="no longer connected; run the cell again").wait_for()
    finding.click()
    assert finding.get_attribute("aria-selected") == "true", "what the page knows can be looked at"
    lab.screenshot("wire-gone")
    assert lab.run_all()
    panel.locator("[data-idj='finding']").first.wait_for()
    assert panel.locator("[data-idj='error']").is_hidden()
