"""The tutorials, opened and run in a real JupyterLab: one of them in the suite, the others with ``--long``.

The suite runs all of them without a browser, in ``test_quality.py``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def open_tutorial(lab: LabPage, name: str) -> None:
    """Copy a tutorial and the files beside it below the server's root, and run it to its end."""
    path = lab.lab.copy_notebook(NOTEBOOKS / f"{name}.ipynb", f"tutorials/{name}.ipynb")
    for beside in NOTEBOOKS.glob("*.toml"):
        shutil.copy(beside, lab.lab.folder / "tutorials")
    lab.open(path)
    assert lab.run_all(seconds=250), name


def cell_with(lab: LabPage, text: str) -> int:
    cells = lab.page.evaluate(
        "() => [...window.jupyterapp.shell.currentWidget.content.model.cells].map(cell => cell.sharedModel.source)"
    )
    return next(number for number, source in enumerate(cells) if text in source)


@pytest.mark.long
def test_port_a_model(lab: LabPage) -> None:
    open_tutorial(lab, "01_port_a_model")
    panel = lab.cell(cell_with(lab, "--as first_try"))
    panel.locator("[data-idj='finding']").first.click()
    panel.locator("[data-idj='line'].idj-lit").first.wait_for()
    lab.screenshot("tutorial-01")
    assert lab.python("[f.severity for f in ported.findings]") == []
    lab.assert_clean()


@pytest.mark.long
def test_from_finding_to_fix(lab: LabPage) -> None:
    open_tutorial(lab, "04_from_finding_to_fix")
    panel = lab.cell(cell_with(lab, "--as session"))
    panel.locator("[data-idj='finding']").filter(has_text="784").first.click()
    panel.locator("[data-idj='fix-check']").wait_for()
    lab.screenshot("tutorial-04")
    assert lab.python("[result.accepted, len(session.applied), session.node('addmm').run().shape[1]]") == [True, 0, 128]
    lab.assert_clean()


def test_wrong_numbers_shows_the_heatmap_and_a_pick_reaches_python(lab: LabPage) -> None:
    open_tutorial(lab, "02_wrong_numbers")
    panel = lab.cell(cell_with(lab, "--diff --as session"))
    lab.open_tab(panel, "diff")
    canvas = panel.locator("canvas").first
    canvas.wait_for()
    canvas.scroll_into_view_if_needed()
    lab.screenshot("tutorial-02-light")
    drawn = canvas.evaluate(
        "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
    )
    assert drawn > 8, "the heatmap is blank"
    lab.dark()
    canvas.scroll_into_view_if_needed()
    lab.screenshot("tutorial-02-dark")
    lab.assert_clean()


@pytest.mark.long
def test_recompiles_and_breaks_shows_guards(lab: LabPage) -> None:
    open_tutorial(lab, "03_recompiles_and_breaks")
    panel = lab.cell(cell_with(lab, "--as session"))
    lab.open_tab(panel, "guards")
    panel.get_by_text("TENSOR_MATCH").first.wait_for(state="attached")
    assert "print" in (panel.text_content() or "")
    lab.screenshot("tutorial-03")
    lab.assert_clean()
