"""The panel without a mouse: tabs, lists, groups and filters by key; and the findings' order and groups."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """%%inductor_debug --target stick128 --deny aten.cumsum --lower inductor --diff --candidate aot_eager --as session
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(65, 70)
        self.down = nn.Linear(70, 5)

    def forward(self, x):
        h = torch.cumsum(torch.relu(self.up(x)), 1)
        return self.down(h).double().sum()

net = Net()
net(torch.randn(2, 65)).backward()
torch.compile(nn.Linear(65, 5), backend="stick128")(torch.randn(2, 65));""",
]
EVERY_TAB = [
    *("overview", "findings", "graph", "code", "memory", "placement", "transfers", "guards", "diff", "what_if")
]
FOCUS = """() => { const at = document.activeElement;
    const pane = at?.closest('.idj-body .idj');
    const seen = Boolean(pane) && pane.getBoundingClientRect().width > 0;
    return {inside: seen, name: at?.dataset?.idj ?? at?.tagName}; }"""
ROWS = "rows => rows.map(row => Number(row.dataset.index))"


def test_everything_can_be_reached_and_chosen_by_key(lab: LabPage) -> None:
    panel = lab.panel_of("keyboard/keyboard.ipynb", CELLS)
    tabs = panel.locator("[data-idj='tab']")
    assert tabs.evaluate_all("tabs => tabs.map(tab => tab.dataset.tab)") == EVERY_TAB
    _arrow_keys_go_through_the_tabs(lab, panel, tabs)
    _a_tile_of_the_overview_is_a_link(lab, panel, tabs)
    tabs.nth(1).focus()
    lab.page.keyboard.press("Enter")
    _findings_are_filtered(lab, panel)
    _findings_are_grouped_and_folded(lab, panel)
    _findings_are_ordered(lab, panel)
    lab.assert_no_key_reached_the_notebook()
    lab.assert_clean()


def _arrow_keys_go_through_the_tabs(lab: LabPage, panel: Locator, tabs: Locator) -> None:
    """Behind each tab, the Tab key reaches something of it."""
    keys = lab.page.keyboard
    panel.locator("[data-idj='tab'][aria-selected='true']").focus()
    keys.press("Home")
    for name in EVERY_TAB:
        assert lab.page.evaluate("() => document.activeElement.dataset.tab") == name
        panel.locator(f"[data-idj='tab'][data-tab='{name}'][aria-selected='true']").wait_for()
        lab.page.wait_for_timeout(400)
        reached = []
        for _ in range(7):  # past the tools and the strip of fix-its
            keys.press("Tab")
            reached.append(lab.page.evaluate(FOCUS))
        assert any(each["inside"] for each in reached), f"{name}: {reached}"
        tabs.nth(EVERY_TAB.index(name)).focus()
        keys.press("ArrowRight")


def _a_tile_of_the_overview_is_a_link(lab: LabPage, panel: Locator, tabs: Locator) -> None:
    keys = lab.page.keyboard
    tabs.first.focus()
    keys.press("Enter")
    panel.locator("[data-idj='tile'][data-title='Coverage']").focus()
    keys.press("Enter")
    panel.locator("[data-idj='tab'][data-tab='placement'][aria-selected='true']").wait_for()


def _findings_are_filtered(lab: LabPage, panel: Locator) -> None:
    keys = lab.page.keyboard
    panel.locator("[data-idj='filter']").focus()
    keys.type("cumsum")
    keys.press("ArrowDown")
    index = lab.python("next(at for at, each in enumerate(session.findings) if 'cumsum' in each.title)")
    lab.eventually("session.selection.get('finding')", index)
    for _ in "cumsum":
        keys.press("Backspace")


def _findings_are_grouped_and_folded(lab: LabPage, panel: Locator) -> None:
    keys = lab.page.keyboard
    total = panel.locator("[data-idj='finding']").count()
    panel.locator("[data-idj='findings-group']").select_option("rule")
    groups = panel.locator("[data-idj='finding-group']")
    assert groups.count() == lab.python("len({each.rule_id for each in session.findings})")
    assert panel.locator("[data-idj='finding']").count() == total
    listed = panel.locator("[data-idj='findings']")
    listed.focus()
    keys.press("Home")
    assert groups.first.get_attribute("aria-selected") == "true"
    name = groups.first.get_attribute("data-group")
    keys.press("Enter")
    assert groups.first.get_attribute("aria-expanded") == "false"
    inside = lab.python(f"sum(each.rule_id == {name!r} for each in session.findings)")
    assert panel.locator("[data-idj='finding']").count() == total - inside
    lab.screenshot("findings-grouped")
    keys.press("Enter")
    keys.press("ArrowDown")
    lab.eventually("session.findings[session.selection.get('finding')].rule_id", name)


def _findings_are_ordered(lab: LabPage, panel: Locator) -> None:
    panel.locator("[data-idj='findings-group']").select_option("")
    panel.locator("[data-idj='findings-order']").select_option("line")
    lines = [
        lab.python(f"session.findings[{at}].source.line")
        for at in panel.locator("[data-idj='finding']").evaluate_all(ROWS)
    ]
    assert lines == sorted(lines)
    panel.locator("[data-idj='findings-order']").select_option("places")
    counts = [
        lab.python(f"len(session.findings[{at}].places)")
        for at in panel.locator("[data-idj='finding']").evaluate_all(ROWS)
    ]
    assert counts == sorted(counts, reverse=True)


def test_a_quick_run_from_the_form_and_from_the_panel(lab: LabPage) -> None:
    cells = [
        "%load_ext inductor_debug_jupyter\nimport torch\nmine = torch.nn.Linear(70, 64)",
        "from inductor_debug_jupyter import last_session, quick_run\nquick_run()",
    ]
    lab.open(lab.lab.write_notebook("quick/quick.ipynb", cells))
    assert lab.run_all(seconds=100)
    cell = lab.cell(1)
    cell.get_by_label("Model").wait_for()
    lab.screenshot("quick-form")
    cell.get_by_label("Backend").fill("aot_eager")
    cell.get_by_label("Target").fill("stick128")
    lab.page.keyboard.press("Tab")
    cell.locator("button.jupyter-button", has_text="Run").click()
    cell.locator("[data-idj='tab'][data-tab='findings']").wait_for(timeout=60_000)
    lab.wait_idle()
    assert lab.python("[last_session().record.name, last_session().findings[0].rule_id]") == [
        "Linear",
        "align.innermost",
    ]
    assert "QuickRun(model=mine" in (cell.locator("[role='status']", has_text="QuickRun").text_content() or "")
    lab.screenshot("quick-panel")

    # From the panel: its button opens the form in it, and the run takes the panel's place.
    cell.locator("[data-idj='quick-run']").click()
    inner = cell.locator(".idj-frame .idj-quick-form")
    inner.wait_for()
    inner.get_by_label("Model").select_option("mlp")
    inner.get_by_label("Backend").fill("aot_eager")
    inner.get_by_label("Force a failure").check()
    inner.locator("button.jupyter-button", has_text="Run").click()
    panel = cell.locator(".idj-frame")
    panel.locator(".idj-title", has_text="mlp").wait_for(timeout=60_000)
    panel.locator("[data-idj='figure'][data-tab='diff']", has_text="1 output differs").wait_for()
    lab.screenshot("quick-forced")
    lab.assert_clean()
