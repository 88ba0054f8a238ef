"""A real JupyterLab in a real Chromium, on this machine only.

``JupyterLab`` is the server: a process of this interpreter on 127.0.0.1 with a token, its own empty settings and a
kernel that is this interpreter. ``LabPage`` is one browser page on it; it drives the notebook through the commands that
``--LabApp.expose_app_in_browser`` puts on ``window.jupyterapp``, and records what must not happen: errors on the
console, and requests to any other machine.
"""

from __future__ import annotations

import ast
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import ConsoleMessage, Locator, Page, Request, WebSocket, sync_playwright

ARTIFACTS = Path(__file__).resolve().parents[2] / "test-artifacts"
INSTALL = "apt-get install -y chromium (or set INDUCTOR_DEBUG_CHROMIUM to a Chromium or Chrome)"
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
}
LOOPBACK = {"127.0.0.1", "localhost", "::1", "[::1]"}

_PANEL = "window.jupyterapp.shell.currentWidget"


def find_chromium() -> str | None:
    """Where Chromium is, or None."""
    if chosen := os.environ.get("INDUCTOR_DEBUG_CHROMIUM"):
        return chosen
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class JupyterLab:
    """The server. ``folder`` is its root: notebooks go there."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "notebooks"
        self.token = secrets.token_hex(16)
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._home = home
        self._log = home / "jupyterlab.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 60) -> None:
        """Start the server and wait until it answers."""
        self.folder.mkdir(parents=True)
        command = [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0"),
            *(f"--IdentityProvider.token={self.token}", f"--ServerApp.root_dir={self.folder}"),
            *("--LabApp.expose_app_in_browser=True", f"--LabApp.app_settings_dir={self._settings()}"),
            "--LabApp.news_url=None",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=self._environment(), stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + seconds
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"JupyterLab did not start:\n{self.log()[-4000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End the server, which ends its kernels; only processes that we started."""
        if (process := self._process) is None:
            return
        self._process = None
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)

    def log(self) -> str:
        """What the server has said."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def write_notebook(self, path: str, cells: Sequence[str]) -> str:
        """Write a notebook of these code cells below the root; answers with its path."""
        notebook = nbformat.v4.new_notebook()
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, target)
        return path

    def copy_notebook(self, source: Path, path: str) -> str:
        """Copy a notebook below the root; answers with its path."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        return path

    def _settings(self) -> Path:
        folder = self._home / "settings"
        folder.mkdir()
        (folder / "overrides.json").write_text(json.dumps(SETTINGS))
        return folder

    def _environment(self) -> dict[str, str]:
        """Nothing of the user's Jupyter, and JUPYTER_PATH first: there ``python3`` is this interpreter."""
        kernel = self._home / "share" / "kernels" / "python3"
        kernel.mkdir(parents=True)
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (kernel / "kernel.json").write_text(
            json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"})
        )
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return kept | {
            "JUPYTER_PATH": str(self._home / "share"),
            "JUPYTER_CONFIG_DIR": str(self._home / "config"),
            "JUPYTER_DATA_DIR": str(self._home / "data"),
            "JUPYTER_RUNTIME_DIR": str(self._home / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(self._home / "user-settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(self._home / "workspaces"),
            "IPYTHONDIR": str(self._home / "ipython"),
        }

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/api?token={self.token}", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


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
        workspace = f"test-{secrets.token_hex(4)}"
        address = f"{self.lab.url}/lab/workspaces/{workspace}/tree/{urllib.parse.quote(path)}?token={self.lab.token}"
        self.page.goto(address, timeout=seconds * 1000)
        self.page.wait_for_function(
            f"() => window.jupyterapp && {_PANEL} && {_PANEL}.sessionContext && {_PANEL}.context.isReady"
            f" && {_PANEL}.sessionContext.isReady && {_PANEL}.sessionContext.session?.kernel?.status === 'idle'",
            timeout=seconds * 1000,
        )

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

    def screenshot(self, name: str) -> Path:
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
