"""The panel in Notebook 7 and in marimo, each with a real server and a real Chromium: with ``--long``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, Page, sync_playwright

from tests.proofs.lab import CHROMIUM_FLAGS, Notebook7, free_port

from .jupyterlab import ARTIFACTS, open_page

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn",
    """%%inductor_debug --target stick128 --lower aot --as session
net = nn.Sequential(nn.Linear(70, 64), nn.ReLU(), nn.Linear(64, 10))
net(torch.randn(2, 70)).sum().backward()""",
]
MARIMO = """import marimo

app = marimo.App(width="full")


@app.cell
def _():
    import marimo as mo
    import torch
    from torch import nn
    from inductor_debug_jupyter import capture

    net = nn.Sequential(nn.Linear(70, 64), nn.ReLU(), nn.Linear(64, 10))
    with capture(target="stick128", lower="aot", eager=True) as session:
        net(torch.randn(2, 70)).sum().backward()
    mo.ui.anywidget(session.panel())
    return (session,)


if __name__ == "__main__":
    app.run()
"""


def use(panel: Locator) -> None:
    """A click is answered by Python, whose answer is on show; a rule's page and a graph come, too."""
    finding = panel.locator("[data-idj='finding']").nth(1)
    finding.click()
    panel.locator(".idj-detail", has_text="10 is not a multiple of 64").wait_for()
    panel.locator("[data-idj='graph'] .idj-lit", has_text="addmm").first.wait_for()
    panel.locator("[data-idj='rule']").click()
    panel.locator("[data-idj='rule-page'] h5", has_text="Ways out").wait_for()
    for tab in ("overview", "graph", "placement", "guards"):
        panel.locator(f"[data-idj='tab'][data-tab='{tab}']").click()
        panel.locator(f"[role='tabpanel'][aria-labelledby$='-{tab}']").wait_for()
    panel.locator("[data-idj='guard']").first.wait_for()
    panel.locator("[data-idj='tab'][data-tab='memory']").click()
    panel.locator(".idj-alive-name", has_text="0.weight").wait_for()


def test_notebook_7_shows_the_panel_with_its_charts_and_the_snapshot(chromium: str, tmp_path: Path) -> None:
    pytest.importorskip("notebook")
    server = Notebook7(tmp_path)
    try:
        server.start()
        with open_page(server, chromium) as page:
            page.open(server.write_notebook("panel.ipynb", CELLS))
            page.page.wait_for_timeout(2000)
            page.console_errors.clear()  # what Notebook itself says before anything of ours is there
            assert page.run_all(200)
            panel = page.page.locator(".idj-frame")
            use(panel)
            panel.locator("[data-name='memory'] .bqplot svg path.line").first.wait_for()
            page.page.locator("summary", has_text="Static snapshot").wait_for()
            page.eventually("session.selection['finding']", 1)
            page.screenshot("notebook-7")
            page.assert_clean()
    finally:
        server.stop()


def test_marimo_shows_the_panel_and_says_what_it_cannot(chromium: str, tmp_path: Path) -> None:
    pytest.importorskip("marimo")
    (tmp_path / "app.py").write_text(MARIMO)
    with marimo_page(chromium, tmp_path) as page:
        foreign: list[str] = []
        page.on("request", lambda request: foreign.append(request.url))
        panel = page.locator(".idj-frame")
        use(panel)
        panel.locator("[data-idj='tab'][data-tab='findings']").click()
        panel.locator("[data-idj='bind']").click()
        panel.locator("[data-idj='bound']", has_text="no IPython here, so no variables to bind").wait_for()
        assert "Charts need ipywidgets" in (panel.locator("[data-name='memory']").text_content() or "")
        ARTIFACTS.mkdir(exist_ok=True)
        page.screenshot(path=ARTIFACTS / "marimo.png")
        assert [address for address in foreign if "//127.0.0.1:" not in address] == []


@contextmanager
def marimo_page(chromium: str, folder: Path) -> Iterator[Page]:
    """A page on a marimo server of its own that has the panel."""
    port = free_port()
    command = [sys.executable, "-m", "marimo", "run", "app.py", "--headless", "--no-token", "--host", "127.0.0.1"]
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, env=os.environ | home, stdout=log, stderr=log
        )
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_FLAGS))
                page = browser.new_page(viewport={"width": 1400, "height": 1000})
                _open(page, f"http://127.0.0.1:{port}", server, folder / "log")
                yield page
                browser.close()
        finally:
            server.terminate()
            server.wait(15)


def _open(page: Page, address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(120):
        assert server.poll() is None, log.read_text()
        try:
            page.goto(address)
        except PlaywrightError:
            time.sleep(0.5)
        else:
            page.locator(".idj-frame").wait_for(timeout=120_000)
            return
    pytest.fail(f"marimo did not answer: {log.read_text()}")
