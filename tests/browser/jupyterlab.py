"""A real JupyterLab in a real Chromium, on this machine only.

``JupyterLab``, the server, is the benchmarks'. ``LabPage`` is one browser page on it; it drives the notebook through
the commands on ``window.jupyterapp``, and records what must not happen: errors on the console, and requests to any
other machine.
"""

from __future__ import annotations

import ast
import json
import re
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import proofs
from playwright.sync_api import ConsoleMessage, Locator, Page, Request, WebSocket, sync_playwright

from tests.proofs.lab import CHROMIUM_FLAGS, JupyterLab, find_chromium

__all__ = ["JupyterLab", "LabPage", "find_chromium", "open_page"]

ARTIFACTS = Path(__file__).resolve().parents[2] / "test-artifacts"
LOOPBACK = {"127.0.0.1", "localhost", "::1", "[::1]"}

_PANEL = "window.jupyterapp.shell.currentWidget"


class LabPage:
    """One page on the server, with what went wrong on it."""

    def __init__(self, lab: JupyterLab, page: Page) -> None:
        self.lab = lab
        self.page = page
        self.console_errors: list[str] = []
        self.foreign_requests: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.console_errors.append(f"uncaught: {error}"))
        page.on("request", self._on_request)
        page.on("websocket", self._on_websocket)

    def open(self, path: str, seconds: float = 60) -> None:
        """Open the notebook at ``path`` below the server's root and wait for its kernel."""
        self.page.goto(self.lab.page_of(path), timeout=seconds * 1000)
        self.page.wait_for_function(
            f"() => window.jupyterapp && {_PANEL} && {_PANEL}.sessionContext && {_PANEL}.context.isReady"
            f" && {_PANEL}.sessionContext.isReady && {_PANEL}.sessionContext.session?.kernel?.status === 'idle'",
            timeout=seconds * 1000,
        )
        if self.page.evaluate("() => document.body.dataset.jpThemeLight") == "false":
            self._theme("JupyterLab Light")  # an earlier test went dark, and the server remembers

    def panel_of(
        self, path: str, cells: Sequence[str], *, cell: int = 1, tab: str = "", seconds: float = 200
    ) -> Locator:
        """Write and run a notebook whose cells must succeed; the panel under one of them, with that tab open."""
        self.open(self.lab.write_notebook(path, cells))
        assert self.run_all(seconds), path
        panel = self.cell(cell)
        if tab:
            self.open_tab(panel, tab)
        return panel

    def open_tab(self, panel: Locator, name: str) -> None:
        """Click on a tab of a panel."""
        panel.locator(f"[data-idj='tab'][data-tab='{name}']").click()

    def dark(self) -> None:
        """Go over to JupyterLab's dark theme."""
        self._theme("JupyterLab Dark")

    def _theme(self, name: str) -> None:
        self.page.evaluate(f"() => window.jupyterapp.commands.execute('apputils:change-theme', {{theme: '{name}'}})")
        self.page.wait_for_timeout(1000)

    def narrow(self) -> None:
        """Make the window narrower."""
        self.page.set_viewport_size({"width": 1000, "height": 900})
        self.page.wait_for_timeout(500)

    def assert_no_key_reached_the_notebook(self, cells: int = 2) -> None:
        """In JupyterLab's command mode a key adds and deletes cells."""
        assert len(self.page.locator(".jp-Notebook-cell").all()) == cells, "a key reached JupyterLab's command mode"

    def run_all(self, seconds: float = 120) -> bool:
        """Run all cells and wait for the end; whether all of them succeeded."""
        self.page.evaluate(
            "() => { window.testRun = {done: false};"
            " window.jupyterapp.commands.execute('notebook:run-all-cells')"
            ".then(ok => { window.testRun = {done: true, ok}; },"
            " error => { window.testRun = {done: true, ok: false, error: String(error)}; }); }"
        )
        self.page.wait_for_function("() => window.testRun.done", timeout=seconds * 1000)
        self.wait_idle(seconds)
        return self.page.evaluate(f"() => [...{_PANEL}.content.model.cells].every({_SUCCEEDED})") is True

    def run_cell(self, index: int, seconds: float = 120) -> None:
        """Run one cell, which must succeed."""
        succeeded = self.page.evaluate(
            f"async index => {{ {_PANEL}.content.activeCellIndex = index;"
            " await window.jupyterapp.commands.execute('notebook:run-cell');"
            f" return ({_SUCCEEDED})({_PANEL}.content.model.cells.get(index)); }}",
            index,
        )
        assert succeeded, self.output_text(index)
        self.wait_idle(seconds)

    def wait_idle(self, seconds: float = 30) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(
            f"() => {_PANEL}.sessionContext.session.kernel.status === 'idle'", timeout=seconds * 1000
        )

    def python(self, expression: str, run: str = "") -> Any:
        """Run ``run`` in the kernel and answer with the expression's value, which must be JSON-able.

        The request is silent: it is no cell, has no history and fires no cell events.
        """
        answer = self.page.evaluate(
            f"async ([code, expression]) => {{ const kernel = {_PANEL}.sessionContext.session.kernel;"
            " const future = kernel.requestExecute({code, silent: true, store_history: false,"
            " user_expressions: {value: expression}}); return (await future.done).content; }",
            [run, f"__import__('json').dumps({expression})"],
        )
        value = answer.get("user_expressions", {}).get("value", answer)
        if value["status"] != "ok":
            raise AssertionError(f"{expression}: {value['ename']}: {value['evalue']}")
        return json.loads(ast.literal_eval(value["data"]["text/plain"]))

    def eventually(self, expression: str, expected: Any, seconds: float = 10) -> None:
        """Wait until the kernel's value is that: widgets hold a message back while an earlier one is on its way."""
        deadline = time.monotonic() + seconds
        while (value := self.python(expression)) != expected:
            assert time.monotonic() < deadline, f"{expression} is {value!r}, not {expected!r}"
            self.page.wait_for_timeout(100)

    def outputs(self, cell: int) -> list[dict[str, Any]]:
        """The outputs of a cell, as the notebook file would hold them."""
        found = self.page.evaluate(f"index => {_PANEL}.content.model.cells.get(index).outputs.toJSON()", cell)
        return list(found)

    def output_text(self, cell: int) -> str:
        """Streams, errors and ``text/plain`` of a cell's outputs."""
        parts = []
        for output in self.outputs(cell):
            plain = output.get("data", {}).get("text/plain", "")
            for part in (output.get("text", ""), plain, output.get("evalue", "")):
                parts.append(part if isinstance(part, str) else "".join(part))
        return "".join(parts)

    def cell(self, index: int) -> Locator:
        """The cell on the page, scrolled to: JupyterLab draws only what is near the screen."""
        self.page.evaluate(f"index => {_PANEL}.content.scrollToItem(index, 'auto')", index)
        cell = self.page.locator(f".jp-Notebook-cell[data-windowed-list-index='{index}']")
        cell.wait_for(state="attached")
        return cell

    def screenshot(self, name: str) -> None:
        """A picture for people to look at, with ``--long`` as in CI: Chromium takes half a second without a GPU."""
        if proofs.draws(True, False):
            self.save_picture(name)

    def save_picture(self, name: str) -> Path:
        """Save what is seen now under ``test-artifacts/``."""
        ARTIFACTS.mkdir(exist_ok=True)
        path = ARTIFACTS / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', name)}.png"
        self.page.screenshot(path=path)
        return path

    def assert_clean(self) -> None:
        """No error on the console, and nothing asked of another machine."""
        assert self.console_errors == []
        assert self.foreign_requests == []

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.console_errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Request) -> None:
        self._note(request.url)

    def _on_websocket(self, websocket: WebSocket) -> None:
        self._note(websocket.url)

    def _note(self, address: str) -> None:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme in {"http", "https", "ws", "wss"} and parts.hostname not in LOOPBACK:
            self.foreign_requests.append(address)


_SUCCEEDED = (
    "cell => cell.type !== 'code' || !cell.sharedModel.source.trim() ||"
    " (cell.executionCount !== null && !cell.outputs.toJSON().some(output => output.output_type === 'error'))"
)


@contextmanager
def open_page(lab: JupyterLab, chromium: str) -> Iterator[LabPage]:
    """Start a Chromium with an empty profile of its own; one per test, so that no test sees another's state.

    Playwright keeps an event loop in the thread while it runs, which is why it does not live longer than one test.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_FLAGS))
        try:
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            yield LabPage(lab, page)
        finally:
            browser.close()
