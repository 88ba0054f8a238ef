"""The quickstart notebook in a real JupyterLab: run it, click a finding, see the line and the node, Python is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "00_quickstart.ipynb"


def index_of(lab: LabPage, text: str) -> int:
    cells = lab.page.evaluate(
        "() => [...window.jupyterapp.shell.currentWidget.content.model.cells].map(cell => cell.sharedModel.source)"
    )
    return next(number for number, source in enumerate(cells) if text in source)


def test_quickstart_click_a_finding_and_python_is_told(lab: LabPage) -> None:
    lab.open(lab.lab.copy_notebook(NOTEBOOK, "quickstart/00_quickstart.ipynb"))
    lab.run_all(seconds=200)
    # The strict cell is tagged raises-exception, so the cells after it ran too.
    assert lab.python("[f.severity for f in fixed.findings if f.severity == 'error']") == []
    strict = index_of(lab, "--strict\nblock(x)")
    assert "stick128 refuses this: 1 error" in lab.output_text(strict)

    first = index_of(lab, "--as first_try")
    panel = lab.cell(first)
    panel.locator("[data-idj='tab'][data-tab='findings']").wait_for()
    assert lab.python("first_try.selection") == {}
    panel.locator("[data-idj='finding']").nth(1).click()
    panel.locator("[data-idj='finding']").nth(0).click()
    lit = panel.locator("[data-idj='line'].idj-lit")
    lit.first.wait_for()
    assert "self.up(self.norm_2(x))" in (lit.first.text_content() or "")
    node = panel.locator("[data-idj='node'].idj-lit")
    node.first.wait_for()
    expected: dict[str, Any] = lab.python(
        "{'finding': 0, 'node': first_try.findings[0].places[0].node, 'line': first_try.findings[0].source.line}"
    )
    lab.page.wait_for_function("() => true")
    lab.wait_idle()
    selection = lab.python("first_try.selection")
    assert {name: selection[name] for name in expected} == expected
    assert node.first.get_attribute("data-node") == expected["node"]
    panel.scroll_into_view_if_needed()
    lab.screenshot("quickstart-light")
    lab.dark()
    lab.cell(first)
    lab.screenshot("quickstart-dark")
    lab.assert_clean()


def test_a_strict_failure_stops_run_all(lab: LabPage) -> None:
    cells = [
        "%load_ext inductor_debug_jupyter\nimport torch",
        "%%inductor_debug --strict --alignment 64 --lower aot\ntorch.nn.Linear(3, 3)(torch.ones(2, 3))",
        "reached = True",
    ]
    lab.open(lab.lab.write_notebook("strict/stop.ipynb", cells))
    assert not lab.run_all()
    assert "3 is not a multiple of 64" in lab.output_text(1)
    assert lab.python("'reached' in globals()") is False
    lab.assert_clean()


HOSTILE = """
name = "<img src=x onerror=alert(1)>"
def forward(self, x):
    print("<img src=x onerror=alert(3)>")
    return hostile(x + 1)  # <img src=x onerror=alert(1)>
hostile = torch.relu
Model = type(name, (torch.nn.Module,), {"forward": forward})
outer = torch.nn.Sequential()
outer.add_module("<img src=x onerror=alert(2)>", Model())
x = torch.ones(2, 2)
"""


def test_names_and_source_from_a_model_never_become_markup(lab: LabPage) -> None:
    cells = [
        "%load_ext inductor_debug_jupyter\nimport torch",
        HOSTILE,
        "%%inductor_debug --target stick128 --deny aten.relu --diff --candidate stick128 --as session\nouter(x)",
    ]
    dialogs: list[str] = []
    lab.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    lab.open(lab.lab.write_notebook("hostile/names.ipynb", cells))
    assert lab.run_all()
    panel = lab.cell(2)
    panel.locator("[data-idj='finding']").first.click()
    panel.locator("[data-idj='line'].idj-lit").first.wait_for()
    tabs = panel.locator("[data-idj='tab']").evaluate_all("tabs => tabs.map(tab => tab.dataset.tab)")
    assert tabs == [
        "overview", "findings", "graph", "code", "memory", "placement", "transfers", "guards", "diff", "what_if"
    ]  # fmt: skip
    for tab in tabs:
        panel.locator(f"[data-idj='tab'][data-tab='{tab}']").click()
        lab.page.wait_for_timeout(300)
        assert lab.page.locator("img[src='x']").count() == 0, tab
    panel.locator("summary", has_text="Static snapshot").click()
    assert "onerror=alert" in (panel.text_content() or "")
    assert lab.page.locator("img[src='x']").count() == 0
    assert dialogs == []
    lab.assert_clean()


def test_a_saved_notebook_shows_the_snapshot_without_a_kernel(lab: LabPage) -> None:
    cells = [
        "%load_ext inductor_debug_jupyter\nimport torch",
        "%%inductor_debug --alignment 64 --lower aot\ntorch.nn.Linear(3, 3)(torch.ones(2, 3))",
    ]
    path = lab.lab.write_notebook("saved/snapshot.ipynb", cells)
    lab.open(path)
    assert lab.run_all()
    lab.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    lab.page.wait_for_timeout(1000)
    copy = lab.lab.copy_notebook(lab.lab.folder / path, "saved/reopened.ipynb")
    lab.open(copy)
    cell = lab.cell(1)
    cell.locator("summary", has_text="Static snapshot").click()
    assert cell.locator("summary", has_text="Static snapshot").count() == 1, "one copy only"
    assert "3 is not a multiple of 64" in (cell.locator("details td", has_text="multiple").first.text_content() or "")
    cell.locator("summary", has_text="Graph: ").click()
    picture = cell.locator("details img").first
    assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
