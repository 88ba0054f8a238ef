"""The Guards tab in a real JupyterLab: timeline, breaks on the source, "what if", and thousands of guards."""

from __future__ import annotations

import pytest

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch",
    """%%inductor_debug --as session
@torch.compile(backend="eager")
def scale(x, n, mode="a"):
    y = x * n
    if mode == "b":
        print("between")
    return y.relu()

scale(torch.ones(4, 3), 2)
scale(torch.ones(7, 3), 2)
for mode in ("c", "d", "e", "b"):
    scale(torch.ones(7, 3), 2, mode)""",
    """from dataclasses import replace
from inductor_debug_jupyter.pipeline.records import Guard
from inductor_debug_jupyter.pipeline.session import DebugSession
line = session.guards[0].source or session.recompiles[0].source
many = tuple(Guard("0/0", "EQUALS_MATCH", f"L['n{at}']", (f"L['n{at}'] == {at}",), line) for at in range(5000))
DebugSession.of_record(replace(session.record, guards=many)).panel()""",
]

USABLE = """(cell) => new Promise((done) => {
  const from = performance.now();
  const look = () => {
    const rows = cell.querySelectorAll("[data-idj='guard']");
    if (rows.length > 3 && rows[0].getBoundingClientRect().height > 0) done(performance.now() - from);
    else requestAnimationFrame(look);
  };
  cell.querySelector("[data-idj='tab'][data-tab='guards']").click();
  look();
})"""

FILTERED = """(cell) => new Promise((done) => {
  const from = performance.now();
  const field = cell.querySelector("[data-idj='guard-filter']");
  field.value = "n4321";
  field.dispatchEvent(new Event("input"));
  const look = () => {
    if (cell.querySelectorAll("[data-idj='guard']").length === 1) done(performance.now() - from);
    else requestAnimationFrame(look);
  };
  look();
})"""


def test_timeline_breaks_what_if_and_five_thousand_guards(lab: LabPage) -> None:
    panel = lab.panel_of("guards/guards.ipynb", CELLS, tab="guards")
    panel.locator(".bqplot .bargroup rect, .bqplot rect.bar, .bqplot .bar").first.wait_for(state="attached")
    assert panel.locator(".idj-guards [data-idj='break']").count() == 1
    assert "mode varies" in (panel.locator("[data-idj='storm']").first.text_content() or "")
    recompile = panel.locator(".idj-guards [data-idj='recompile']").first
    assert "x.shape[0] was 4, now 7" in (recompile.text_content() or "")
    assert "mark_dynamic(x, 0)" in (recompile.text_content() or "")
    lab.screenshot("guards-light")

    # A break chosen here is lit in the source beside it.
    panel.locator(".idj-guards [data-idj='break']").click()
    lit = panel.locator("[data-idj='line'].idj-lit").first
    lit.wait_for()
    assert 'print("between")' in (lit.text_content() or "")
    lab.wait_idle()
    assert lab.python("session.selection['line']") == 6

    # In the Graph tab that line says why the graph breaks there.
    lab.open_tab(panel, "graph")
    panel.locator(".idj-detail [data-idj='break-here']").filter(has_text="Graph break").wait_for()
    lab.open_tab(panel, "guards")

    panel.locator("[data-idj='what-if'] summary").click()
    field = panel.locator("[data-idj='what-if-input'][data-input='n']")
    answer = panel.locator("[data-idj='answer']")
    for text, told in (("3", "It would recompile"), ("2", "It would not recompile"), ("oops", "is not allowed")):
        field.fill(text)
        field.press("Enter")
        answer.filter(has_text=told).wait_for()
    field.fill("3")
    field.press("Enter")
    answer.filter(has_text="n was 2, now 3").wait_for()
    lab.screenshot("guards-what-if-light")

    large = lab.cell(2)
    large.locator("[data-idj='tab'][data-tab='guards']").wait_for()
    shown = large.evaluate(USABLE)
    filtered = large.evaluate(FILTERED)
    print(f"5,000 guards: usable after {shown:.0f} ms, filtered in {filtered:.0f} ms")

    lab.dark()
    lab.cell(1)
    lab.screenshot("guards-dark")
    lab.assert_clean()
