"""The What if tab in a real JupyterLab: by mouse and by key, light and dark, wide and narrow."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """%%inductor_debug --target stick128 --lower aot --diff --candidate aot_eager --as session
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(70, 256)
        self.down = nn.Linear(256, 64)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))

with torch.no_grad():
    Net()(torch.randn(1, 70))""",
]
OUTSIDE = """frame => {
  const edge = frame.getBoundingClientRect();
  const seen = [...frame.querySelectorAll('.idj-what-if *')].filter(each => each.getBoundingClientRect().width > 0);
  return seen.filter(each => each.getBoundingClientRect().right > edge.right + 1).map(each => each.className);
}"""
CONTRAST = """cell => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).slice(0, 3)
    .map(part => Number(part) * (colour.startsWith('color(') ? 255 : 1));
  const light = (colour) => { const [r, g, b] = numbers(colour).map(v => { const s = v / 255;
    return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const style = getComputedStyle(cell);
  const [one, other] = [light(style.color), light(getComputedStyle(cell.closest('.idj-what-if')).backgroundColor)];
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}"""
TRIED = "Changes transfers and memory."


def test_trials_by_mouse_by_key_from_a_node_and_what_stays_of_them(lab: LabPage) -> None:
    panel = lab.panel_of("what_if/what_if.ipynb", CELLS, tab="what_if")
    _batch_1_to_64_changes_memory_and_transfers(lab, panel)
    _another_target_and_gelu_on_the_cpu_by_key(lab, panel)
    _an_earlier_trial_is_shown_again_and_saved(lab, panel)
    _a_node_goes_to_the_cpu(lab, panel)
    _dark_and_narrow_it_can_be_read(lab, panel)
    lab.assert_no_key_reached_the_notebook()
    lab.assert_clean()


def _batch_1_to_64_changes_memory_and_transfers(lab: LabPage, panel: Locator) -> None:
    field = panel.locator("[data-idj='try-field'][data-field='batch']")
    field.wait_for()
    assert field.get_attribute("placeholder") == "1 now"
    field.fill("64")
    panel.locator("[data-idj='try']").click()
    panel.locator("[data-idj='try-summary']", has_text=TRIED).wait_for(timeout=60_000)
    changed = panel.locator("[data-idj='try-figure']:not([data-kind='same'])")
    assert changed.evaluate_all("rows => rows.map(row => row.dataset.name)")[-1] == "peak memory"
    assert "▲ +" in (changed.first.text_content() or "")
    lab.eventually("[str(trial.changes) for trial in session.trials]", ["changes transfers and memory"])
    assert lab.python("session.trials[0].after.peak_memory > session.peak_memory") is True
    lab.screenshot("what-if-batch-light")


def _another_target_and_gelu_on_the_cpu_by_key(lab: LabPage, panel: Locator) -> None:
    keys = lab.page.keyboard
    panel.locator("[data-idj='try-field'][data-field='batch']").fill("")
    panel.locator("[data-idj='try-field'][data-field='target']").select_option("default")
    panel.locator("[data-idj='try-ops'] summary").click()
    panel.locator("[data-idj='try-op'][data-op='gelu']").select_option("cpu")
    panel.locator("[data-idj='try-field'][data-field='alignment']").focus()
    keys.type("0")
    keys.press("Enter")
    status = panel.locator("[data-idj='try-status']", has_text="alignment: '0' is not allowed")
    status.wait_for()
    keys.press("Backspace")
    keys.type("32")
    keys.press("Enter")
    panel.locator("[data-idj='trial']", has_text="2. target stick128 → default").wait_for()
    gone = panel.locator("[data-idj='try-findings'][data-kind='gone'], [data-idj='try-findings'][data-kind='reworded']")
    gone.first.wait_for()
    assert panel.locator("[data-idj='try-figure'][data-name='on the CPU']").get_attribute("data-kind") == "worse"
    lab.screenshot("what-if-target-light")


def _an_earlier_trial_is_shown_again_and_saved(lab: LabPage, panel: Locator) -> None:
    keys = lab.page.keyboard
    first = panel.locator("[data-idj='trial'][data-at='0']")
    first.focus()
    keys.press("Enter")
    panel.locator("[data-idj='try-summary']", has_text=TRIED).wait_for()
    panel.locator("[data-idj='try-save']").focus()
    keys.press("Enter")
    saved = panel.locator("[data-idj='try-saved']")
    saved.wait_for()
    number = lab.python("session.trials[0].session.id")
    assert number in (saved.text_content() or "")
    listed = lab.python(
        "__import__('subprocess').run([__import__('sys').executable, '-m', 'inductor_debug_jupyter', 'list'],"
        " capture_output=True, text=True).stdout"
    )
    assert number in listed


def _a_node_goes_to_the_cpu(lab: LabPage, panel: Locator) -> None:
    lab.python("session.select(node='gelu')['node']")
    panel.locator("[data-idj='try-node'][data-do='cpu']").click()
    panel.locator("[data-idj='trial']", has_text="3. node gelu on the CPU").wait_for()


def _dark_and_narrow_it_can_be_read(lab: LabPage, panel: Locator) -> None:
    lab.dark()
    lab.cell(1)
    panel.locator("[data-idj='trial'][data-at='0']").click()
    panel.locator("[data-idj='try-summary']", has_text=TRIED).wait_for()
    lab.screenshot("what-if-dark")
    contrasts = panel.locator(".idj-try-table td, .idj-try-table th").evaluate_all(
        f"cells => cells.filter(cell => cell.textContent).map({CONTRAST})"
    )
    assert min(contrasts) > 4, contrasts
    lab.narrow()
    panel.locator(".idj-frame").scroll_into_view_if_needed()
    lab.screenshot("what-if-narrow-dark")
    assert panel.locator(".idj-frame").evaluate(OUTSIDE) == []
