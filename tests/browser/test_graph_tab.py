"""The Graph tab in a real JupyterLab: boxes open and close, stages, search, colours, mouse and keys."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Locator

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """%%inductor_debug --as session --lower aot
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.up(x))
        return x + self.down(h).softmax(-1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(12))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.half().sum()

net = Net()
net(torch.randn(4, 16)).backward()""",
]


def graph_of(lab: LabPage) -> Locator:
    panel = lab.panel_of("graph/graph.ipynb", CELLS, tab="graph")
    panel.locator("[data-idj='group']").first.wait_for()
    return panel


def view_box(panel: Locator) -> list[float]:
    text = panel.locator("[data-idj='graph'] svg").get_attribute("viewBox") or ""
    return [float(part) for part in text.split()]


def test_boxes_open_and_close_and_python_knows(lab: LabPage) -> None:
    panel = graph_of(lab)
    group, frame = panel.locator("[data-idj='group']"), panel.locator("[data-idj='frame']")
    layers = group.filter(has_text="Layer ×12")
    before = layers.bounding_box()
    layers.click()
    opened = frame.filter(has_text="Layer ×12")
    opened.wait_for()
    after = opened.locator("text").bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) < 30, "the box that opens stays where it is"
    assert group.filter(has_text="layers.").count() == 12
    group.filter(has_text="layers.1").first.click()
    panel.locator("[data-idj='node']").filter(has_text="gelu").first.wait_for()
    assert lab.python("session.graph_views.of(stage='forward').opened")[-1].startswith("layers.")
    lab.screenshot("graph-light")
    opened.locator("text").click()
    layers.wait_for()

    # Python opens; the panel follows. A node in a closed box that Python chooses is shown.
    lab.python("session.graph_views.of(stage='forward').expand('layers.7')")
    frame.filter(has_text="layers.7").wait_for()
    calls = "session.captures[0].graph('forward').calls"
    hidden = lab.python(f"[n.name for n in {calls} if n.module_path == 'layers.9' and 'gelu' in n.target]")
    lab.python(f"session.select(node={hidden[0]!r})['node']")
    panel.locator(f"[data-idj='node'][data-node='{hidden[0]}'].idj-lit").wait_for()
    lab.assert_clean()


def test_stages_search_colours_mouse_and_keys(lab: LabPage) -> None:
    panel = graph_of(lab)
    _another_stage_is_shown(panel)
    lit = _search_finds_what_is_in_closed_boxes(lab, panel)
    _colours_have_a_legend_with_signs(lab, panel, lit)
    _the_wheel_zooms_a_drag_pans_a_key_fits(lab, panel)
    _the_wheel_tells_how_it_zooms(lab, panel)
    _the_picture_is_saved(lab, panel)
    _open_all_stays_readable_with_a_map(lab, panel)
    _dark_and_narrow_there_is_room(lab, panel)
    lab.assert_clean()


def _another_stage_is_shown(panel: Locator) -> None:
    stage = panel.locator("[data-idj='stage']")
    choice = stage.evaluate("select => [...select.options].find(o => /^backward /.test(o.textContent)).value")
    stage.select_option(choice)
    # The input needs no gradient, so the first layer's backward is another one than the eleven others'.
    panel.locator("[data-idj='group']").filter(has_text="×11").wait_for()
    choice = stage.evaluate("select => [...select.options].find(o => /^forward /.test(o.textContent)).value")
    stage.select_option(choice)
    panel.locator("[data-idj='group']").filter(has_text="×12").wait_for()


def _search_finds_what_is_in_closed_boxes(lab: LabPage, panel: Locator) -> Locator:
    for text, found in (("softmax Layer :10", "36 found"), ("_softmax Layer", "12 found")):  # with a class, a line
        panel.locator("[data-idj='search']").fill(text)
        panel.locator("[data-idj='tally']").filter(has_text=found).wait_for()
    panel.locator("[data-idj='search']").fill("softmax layers.5")
    panel.locator("[data-idj='tally']").filter(has_text="3 found").wait_for()
    panel.locator("[data-idj='group'].idj-found").wait_for()
    panel.locator("[data-idj='search']").press("Enter")
    lit = panel.locator("[data-idj='node'].idj-lit")
    lit.wait_for()
    assert "softmax" in (lit.text_content() or "")
    assert "softmax" in str(lab.python("session.selection['node']"))
    return lit


def _colours_have_a_legend_with_signs(lab: LabPage, panel: Locator, lit: Locator) -> None:
    panel.locator("[data-idj='colour']").select_option("dtype")
    legend = panel.locator("[data-idj='legend']")
    legend.filter(has_text="float32").wait_for()
    assert "●" in (lit.locator(".idj-sign").text_content() or "")
    assert lab.python("session.graph_views.of(stage='forward').coloured_by") == "dtype"


def _the_wheel_zooms_a_drag_pans_a_key_fits(lab: LabPage, panel: Locator) -> None:
    area = panel.locator("[data-idj='graph']")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    x, y = box["x"] + 8, box["y"] + box["height"] - 8
    start = view_box(panel)
    lab.page.mouse.move(x, y)
    lab.page.mouse.down()
    lab.page.mouse.move(x + 60, y - 50, steps=5)
    lab.page.mouse.up()
    dragged = view_box(panel)
    assert dragged[2:] == start[2:]
    assert dragged[0] < start[0]
    assert dragged[1] > start[1]
    area.focus()
    lab.page.mouse.wheel(0, -300)
    lab.page.wait_for_timeout(100)
    assert view_box(panel)[2] < dragged[2]
    lab.page.keyboard.press("0")
    assert view_box(panel)[2] > start[2]


def _the_wheel_tells_how_it_zooms(lab: LabPage, panel: Locator) -> None:
    """The notebook scrolls, and the graph says what would zoom."""
    panel.locator("[data-idj='search']").focus()
    panel.locator("[data-idj='graph']").hover()
    before = view_box(panel)
    lab.page.mouse.wheel(0, 40)
    panel.locator("[data-idj='zoom-hint']").wait_for()
    assert view_box(panel) == before
    panel.locator("[data-idj='graph']").scroll_into_view_if_needed()


def _the_picture_is_saved(lab: LabPage, panel: Locator) -> None:
    with lab.page.expect_download() as saved:
        panel.locator("[data-idj='save-picture']").select_option("svg")
    assert saved.value.suggested_filename.startswith("forward-")
    text = Path(saved.value.path()).read_text(encoding="utf-8")
    assert "softmax" in text, "a document of its own, with what is on show"
    assert ElementTree.fromstring(text).get("viewBox") != view_box(panel)
    with lab.page.expect_download() as saved:
        panel.locator("[data-idj='save-picture']").select_option("png")
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")


def _open_all_stays_readable_with_a_map(lab: LabPage, panel: Locator) -> None:
    panel.locator("[data-idj='zoom-fit']").click()
    panel.locator("[data-idj='expand-all']").click()
    panel.locator("[data-idj='node']").nth(60).wait_for(state="attached")
    lab.wait_idle()
    width = panel.locator("[data-idj='graph']").evaluate("area => area.clientWidth")
    assert view_box(panel)[2] <= width * 1.01, "a letter has at least its own size"
    minimap = panel.locator("[data-idj='minimap']")
    minimap.wait_for()
    lab.screenshot("graph-open-all")
    before = view_box(panel)
    box = minimap.bounding_box()
    assert box is not None
    lab.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] - 6)
    assert view_box(panel)[1] > before[1] + 200


def _dark_and_narrow_there_is_room(lab: LabPage, panel: Locator) -> None:
    lab.dark()
    lab.cell(1)
    lab.screenshot("graph-dark")
    lab.narrow()
    lab.screenshot("graph-narrow")
    width = panel.locator("[data-idj='search']").bounding_box()
    assert width is not None
    assert width["width"] > 60
