"""The panel's room in a real JupyterLab: height, widths, whole screen, beside the notebook, narrow windows."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """%%inductor_debug --target stick128 --as session
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(70, 128)

    def forward(self, x):
        return torch.tanh(self.up(x)).double()

net = Net()
net(torch.randn(2, 70)).sum().backward()""",
    "session.panel()",
]


def box(locator: Locator) -> dict[str, float]:
    found = locator.bounding_box()
    assert found is not None
    return dict(found)


def drag(lab: LabPage, handle: Locator, dx: float, dy: float) -> None:
    handle.scroll_into_view_if_needed()
    at = box(handle)
    x, y = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
    lab.page.mouse.move(x, y)
    lab.page.mouse.down()
    lab.page.mouse.move(x + dx, y + dy, steps=4)
    lab.page.mouse.up()
    lab.wait_idle()


def test_height_and_widths_are_dragged_and_remembered(lab: LabPage) -> None:
    panel = lab.panel_of("room/room.ipynb", CELLS)
    body, grip = panel.locator(".idj-body"), panel.locator("[data-idj='grip']")
    panel.locator("[data-idj='node']").first.wait_for()
    before = box(body)["height"]
    drag(lab, grip, 0, 130)
    assert box(body)["height"] == pytest.approx(before + 130, abs=2)
    graph, detail = panel.locator(".idj-graph"), panel.locator(".idj-detail")
    widths = box(graph)["width"], box(detail)["width"]
    drag(lab, panel.locator(".idj-body > [data-idj='split']").nth(1), -90, 0)
    assert box(graph)["width"] == pytest.approx(widths[0] - 90, abs=4)
    assert box(detail)["width"] == pytest.approx(widths[1] + 90, abs=4)
    lab.screenshot("room-dragged")

    # By key, and back by a double click.
    grip.focus()
    lab.page.keyboard.press("ArrowUp")
    assert box(body)["height"] == pytest.approx(before + 106, abs=2)
    panel.locator(".idj-body > [data-idj='split']").nth(1).dblclick()
    assert box(detail)["width"] == pytest.approx(widths[1], abs=4)

    # Another tab has its own widths, the same height; a new panel begins with what was chosen.
    lab.open_tab(panel, "graph")
    assert box(body)["height"] == pytest.approx(before + 106, abs=2)
    lab.run_cell(2)
    other = lab.cell(2).locator(".idj-body")
    other.wait_for()
    assert box(other)["height"] == pytest.approx(before + 106, abs=2)
    assert lab.python("session.panel().room['height']") == pytest.approx(before + 106, abs=2)
    lab.assert_clean()


def test_the_whole_screen_and_beside_the_notebook(lab: LabPage) -> None:
    panel = lab.panel_of("room/beside.ipynb", CELLS[:2])
    frame = panel.locator(".idj-frame")
    panel.locator("[data-idj='full-screen']").click()
    lab.page.wait_for_function("() => document.fullscreenElement?.classList.contains('idj-frame')")
    lab.page.wait_for_timeout(300)
    size = lab.page.evaluate("() => [innerWidth, innerHeight]")
    full = box(frame)
    assert [full["width"], full["height"]] == size
    assert box(panel.locator(".idj-body"))["height"] > size[1] - 160
    lab.screenshot("room-full-screen")
    lab.page.evaluate("() => document.exitFullscreen()")
    lab.page.wait_for_function("() => !document.fullscreenElement")

    # In JupyterLab a tab of its own: by the cell's context menu, where the application cannot be reached.
    beside = panel.locator("[data-idj='beside']")
    beside.hover()
    assert "in a tab of its own" in (beside.get_attribute("title") or "")
    lab.page.evaluate("() => { window.hiddenApp = window.jupyterapp; delete window.jupyterapp; }")
    beside.click()
    view = lab.page.locator(".jp-LinkedOutputView .idj-frame")
    view.locator("[data-idj='finding']").first.wait_for()
    lab.page.evaluate("() => { window.jupyterapp = window.hiddenApp; }")
    assert lab.page.locator(".lm-Menu").count() == 0, "the menu is closed again"
    lab.screenshot("room-beside")
    lab.assert_clean()


def test_elsewhere_it_docks_to_the_right(lab: LabPage) -> None:
    panel = lab.panel_of("room/dock.ipynb", CELLS[:2])
    frame = panel.locator(".idj-frame")
    lab.page.evaluate("() => document.querySelector('#jp-main-dock-panel').removeAttribute('id')")
    lab.page.evaluate("() => document.querySelectorAll('.jp-LabShell').forEach(e => e.classList.remove('jp-LabShell'))")
    beside = panel.locator("[data-idj='beside']")
    beside.hover()
    assert "right half of the window" in (beside.get_attribute("title") or "")
    beside.click()
    docked = box(frame)
    width, height = lab.page.evaluate("() => [innerWidth, innerHeight]")
    assert docked["x"] == pytest.approx(width / 2, abs=1)
    assert docked["height"] == pytest.approx(height, abs=1)
    lab.screenshot("room-docked")
    panel.locator("[data-idj='finding']").first.click()
    lab.page.keyboard.press("Escape")
    assert box(frame)["height"] < height
    lab.assert_clean()


def test_codes_columns_go_one_by_one_and_the_kernel_shows_the_place(lab: LabPage) -> None:
    panel = lab.panel_of("room/code.ipynb", CELLS[:2], tab="code")
    panel.locator("[data-idj='code-line']").first.wait_for()
    lab.python("session.select(node='tanh')['node']")
    lit = panel.locator("[data-idj='code-text'] .idj-lit")
    lit.first.wait_for()
    assert "tanh" in (lit.first.text_content() or "")
    casts = panel.locator("[data-idj='code-line']:has-text('static_cast')")
    casts.first.locator("code").hover(position={"x": 9, "y": 9})
    cut = panel.locator("[data-idj='code-line'][title]").first
    cut.wait_for()
    assert cut.get_attribute("title") == (cut.locator("code").text_content() or "").strip(), "cut code is a tooltip"
    inside, line = box(panel.locator("[data-idj='code-text']")), box(lit.first)
    assert inside["y"] <= line["y"] <= inside["y"] + inside["height"] - line["height"], "it is in sight"
    lab.screenshot("room-code")
    wide = box(panel.locator(".idj-code-text"))["width"]
    for name in ("source", "nodes"):
        panel.locator(f"[data-idj='code-column'][data-column='{name}']").click()
    assert panel.locator(".idj-code-source").is_hidden()
    assert box(panel.locator(".idj-code-text"))["width"] > 2 * wide
    last = panel.locator("[data-idj='code-column'][data-column='text']")
    last.click()
    assert panel.locator(".idj-code-text").is_visible(), "one column stays"
    panel.locator("[data-idj='code-column'][data-column='source']").click()
    assert panel.locator(".idj-code-source").is_visible()
    lab.assert_clean()


OUTSIDE = """frame => { const edge = frame.getBoundingClientRect();
  return [...frame.querySelectorAll('.idj-pane, .idj-bar > *, .idj-tab, .idj-tool, .idj-figure')].filter(each => {
    const own = each.getBoundingClientRect();
    return own.width && (own.right > edge.right + 1 || own.left < edge.left - 1);
  }).map(each => each.className); }"""


def test_in_a_narrow_window_panes_stand_below_each_other(lab: LabPage) -> None:
    panel = lab.panel_of("room/narrow.ipynb", CELLS[:2])
    panel.locator("[data-idj='node']").first.wait_for()
    for width in (1000, 700):
        lab.page.set_viewport_size({"width": width, "height": 1000})
        lab.open_tab(panel, "findings")
        lab.page.wait_for_timeout(600)
        findings, graph, detail = (box(panel.locator(f".idj-{name}")) for name in ("findings", "graph", "detail"))
        assert findings["y"] < graph["y"] < detail["y"]
        assert findings["width"] == pytest.approx(graph["width"], abs=3)
        for tab in ("overview", "code", "memory", "placement", "guards", "what_if"):
            lab.open_tab(panel, tab)
            lab.page.wait_for_timeout(400)
            assert panel.locator(".idj-frame").evaluate(OUTSIDE) == [], tab
            lab.screenshot(f"narrow-{width}-{tab}")
    lab.assert_clean()
