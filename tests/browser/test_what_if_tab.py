"""The What if tab in a real JupyterLab: by mouse and by key, light and dark, wide and narrow."""

from __future__ import annotations

import pytest

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
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => { const [r, g, b] = numbers(colour).map(v => { const s = v / 255;
    return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const style = getComputedStyle(cell);
  const [one, other] = [light(style.color), light(getComputedStyle(cell.closest('.idj-what-if')).backgroundColor)];
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}"""


def test_batch_1_to_64_changes_memory_and_what_is_transferred(lab: LabPage) -> None:
    lab.open(lab.lab.write_notebook("what_if/what_if.ipynb", CELLS))
    assert lab.run_all(seconds=200)
    panel, keys = lab.cell(1), lab.page.keyboard
    panel.locator("[data-idj='tab'][data-tab='what_if']").click()
    field = panel.locator("[data-idj='try-field'][data-field='batch']")
    field.wait_for()
    assert field.get_attribute("placeholder") == "1 now"
    field.fill("64")
    panel.locator("[data-idj='try']").click()
    panel.locator("[data-idj='try-summary']", has_text="Changes transfers and memory.").wait_for(timeout=60_000)
    changed = panel.locator("[data-idj='try-figure']:not([data-kind='same'])")
    assert changed.evaluate_all("rows => rows.map(row => row.dataset.name)")[-1] == "peak memory"
    assert "▲ +" in (changed.first.text_content() or "")
    lab.eventually("[str(trial.changes) for trial in session.trials]", ["changes transfers and memory"])
    assert lab.python("session.trials[0].after.peak_memory > session.peak_memory") is True
    lab.screenshot("what-if-batch-light")

    # By key: another target and gelu on the CPU. What is wrong is one line.
    field.fill("")
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

    # Earlier trials stay: the first is shown again, and saved as a session that the command line lists.
    first = panel.locator("[data-idj='trial'][data-at='0']")
    first.focus()
    keys.press("Enter")
    panel.locator("[data-idj='try-summary']", has_text="Changes transfers and memory.").wait_for()
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

    # From a node, chosen in the graph.
    lab.python("session.select(node='gelu')['node']")
    panel.locator("[data-idj='try-node'][data-do='cpu']").click()
    panel.locator("[data-idj='trial']", has_text="3. node gelu on the CPU").wait_for()

    lab.page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    lab.page.wait_for_timeout(1000)
    lab.cell(1)
    first.click()
    panel.locator("[data-idj='try-summary']", has_text="Changes transfers and memory.").wait_for()
    lab.screenshot("what-if-dark")
    contrasts = panel.locator(".idj-try-table td, .idj-try-table th").evaluate_all(
        f"cells => cells.filter(cell => cell.textContent).map({CONTRAST})"
    )
    assert min(contrasts) > 4, contrasts
    lab.page.set_viewport_size({"width": 1000, "height": 900})
    lab.page.wait_for_timeout(500)
    panel.locator(".idj-frame").scroll_into_view_if_needed()
    lab.screenshot("what-if-narrow-dark")
    assert panel.locator(".idj-frame").evaluate(OUTSIDE) == []
    assert len(lab.page.locator(".jp-Notebook-cell").all()) == 2, "no key reached JupyterLab's command mode"
    lab.assert_clean()
