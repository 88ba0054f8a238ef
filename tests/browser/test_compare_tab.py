"""Two graphs side by side in a real JupyterLab: two stages from the Graph tab, two runs from the magic."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

MODEL = """class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.up(x))
        return x + self.down(h).softmax(-1)

class Net(nn.Module):
    def __init__(self, planted):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(12))
        self.planted = planted

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if self.planted and number == 5:
                x = x.sin()
        return x

before_model, after_model, x = Net(False).eval(), Net(True).eval(), torch.randn(4, 16)"""
CELLS = [
    f"%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn\n{MODEL}",
    "%%inductor_debug --as before --lower aot\nwith torch.no_grad():\n    before_model(x)",
    "%%inductor_debug --as after --lower aot --no-panel\nwith torch.no_grad():\n    after_model(x)",
    "%inductor_debug --compare before after",
]


def side(panel: Locator, name: str) -> Locator:
    return panel.locator(f"[data-side='{name}']")


def lit(panel: Locator, name: str) -> Locator:
    return side(panel, name).locator("[data-idj='node'].idj-lit")


def view_box(panel: Locator, name: str) -> list[float]:
    text = side(panel, name).locator("[data-idj='graph'] svg").get_attribute("viewBox") or ""
    return [float(part) for part in text.split()]


def test_two_stages_are_compared_by_one_choice_in_the_graph_tab(lab: LabPage) -> None:
    panel = lab.panel_of("compare/stages.ipynb", CELLS, tab="graph")
    choice = panel.locator("[data-idj='compare-with']")
    choice.select_option("dynamo")
    panel.locator("[data-idj='tab'][data-tab='compare'][aria-selected='true']").wait_for()
    row = panel.locator("[data-idj='difference']")
    assert row.first.text_content() == "≠ changedlinearbecame t, addmmIn [1], line 11 · layers.0.up"
    # The first difference is lit on both sides, at the same height, with a sign beside its colour.
    lit(panel, "before").wait_for()
    assert lit(panel, "after").count() == 2
    assert "≠" in (lit(panel, "before").locator(".idj-sign").text_content() or "")
    panel.locator("[data-idj='pair-told']").filter(has_text=re.compile(r"linear → t, addmm: not the same")).wait_for()

    # Another difference: Python's answer is lit on both sides.
    row.nth(1).click()
    lit(panel, "before").filter(has_text="down: linear").wait_for()
    lit(panel, "after").filter(has_text="addmm").wait_for()
    assert lab.python("before.selection['node']") == "linear_1", "the session follows, and with it the other tabs"

    # A click in one graph chooses in the other.
    names = lab.python("[n.name for n in before.captures[0].graph('forward').calls if 'softmax' in n.target]")
    side(panel, "after").locator(f"[data-node='{names[0]}']").dispatch_event("click")
    lit(panel, "before").filter(has_text="softmax").wait_for()
    assert panel.locator("[data-idj='difference'][aria-selected='true']").count() == 0, "softmax is the same"
    panel.locator("[data-idj='pair-told']").filter(has_text="the same on both sides").wait_for()
    lab.screenshot("compare-stages")

    # Back in the Graph tab that node is shown.
    lab.open_tab(panel, "graph")
    panel.locator(f"[data-idj='node'][data-node='{names[0]}'].idj-lit:visible").wait_for()
    lab.assert_clean()


def test_two_runs_are_compared_by_the_magic_and_by_showing_the_comparison(lab: LabPage) -> None:
    panel = lab.panel_of("compare/runs.ipynb", [*CELLS, "before.compare(after)"], cell=3)
    panel.locator("[data-idj='changes']").filter(has_text="nodes-changed").wait_for()
    assert panel.locator("[data-idj='difference']").all_text_contents() == ["+ newsinIn [1], line 24"]
    heads = [side(panel, name).locator(".idj-side-title").text_content() or "" for name in ("before", "after")]
    assert heads[0].startswith("before: before · Net")
    assert heads[1].startswith("after: after · Net")
    lit(panel, "after").filter(has_text="sin").wait_for()
    assert lit(panel, "before").count() == 0
    panel.locator("[data-idj='pair-told']").filter(has_text="x_6 (sin): only after").wait_for()

    # Boxes open and close together, although the layers are one box on one side and two on the other.
    side(panel, "before").locator("[data-idj='collapse-all']").click()
    for name in ("before", "after"):
        side(panel, name).locator("[data-idj='group']").filter(has_text="layers").first.wait_for()
        assert side(panel, name).locator("[data-idj='frame']").count() == 0
    side(panel, "before").locator("[data-idj='expand-all']").click()
    for name in ("before", "after"):
        side(panel, name).locator("[data-idj='frame']").filter(has_text="layers.0").first.wait_for()

    _they_move_together(lab, panel)
    lab.dark()
    lab.narrow()
    boxes = [side(panel, name).bounding_box() for name in ("before", "after")]
    assert all(box and box["width"] > 250 and box["height"] > 150 for box in boxes), boxes
    lab.screenshot("compare-narrow-dark")
    again = lab.cell(4)
    again.locator("[data-idj='changes']").filter(has_text="nodes-changed").wait_for()
    html = next(each["data"]["text/html"] for each in lab.outputs(4) if "text/html" in each.get("data", {}))
    assert "".join(html).count("<img ") == 2, "the snapshot has both graphs"
    lab.assert_clean()


def _they_move_together(lab: LabPage, panel: Locator) -> None:
    area = side(panel, "before").locator("[data-idj='graph']")
    area.scroll_into_view_if_needed()
    start = [view_box(panel, name) for name in ("before", "after")]
    box = area.bounding_box()
    assert box is not None
    lab.page.mouse.move(box["x"] + 12, box["y"] + 20)
    lab.page.mouse.down()
    lab.page.mouse.move(box["x"] + 52, box["y"] + 50, steps=4)
    lab.page.mouse.up()
    for before, after in zip(start, (view_box(panel, name) for name in ("before", "after")), strict=True):
        assert after[0] < before[0]
        assert after[1] < before[1]
    widths = [view_box(panel, name)[2] for name in ("before", "after")]
    side(panel, "after").locator("[data-idj='zoom-in']").click()
    for before, after in zip(widths, (view_box(panel, name)[2] for name in ("before", "after")), strict=True):
        assert after == pytest.approx(before / 1.25)
