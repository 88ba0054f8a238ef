"""A JupyterLab of its own on this machine, for benchmarks and tests: nothing of the user's Jupyter is read or changed.

The server is a process of this interpreter on 127.0.0.1 with a token, its own empty settings and a kernel that is this
interpreter; ``--LabApp.expose_app_in_browser`` puts its commands on ``window.jupyterapp``.
"""

from __future__ import annotations

import json
import os
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
from collections.abc import Sequence
from pathlib import Path

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


def find_chromium() -> str | None:
    """Where Chromium is, or None."""
    if chosen := os.environ.get("INDUCTOR_DEBUG_CHROMIUM"):
        return chosen
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class JupyterLab:
    """The server. ``folder`` is its root: notebooks go there."""

    module, app = "jupyterlab", "LabApp"

    def __init__(self, home: Path) -> None:
        self.folder = home / "notebooks"
        self.token = secrets.token_hex(16)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._home = home
        self._log = home / "jupyterlab.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 60) -> None:
        """Start the server and wait until it answers."""
        self.folder.mkdir(parents=True)
        command = [
            *(sys.executable, "-m", self.module, "--no-browser", "--allow-root"),
            *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0"),
            *(f"--IdentityProvider.token={self.token}", f"--ServerApp.root_dir={self.folder}"),
            *(f"--{self.app}.expose_app_in_browser=True", f"--{self.app}.app_settings_dir={self._settings()}"),
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

    def page_of(self, path: str) -> str:
        """The address of a notebook, in a workspace of its own."""
        address = f"{self.url}/lab/workspaces/test-{secrets.token_hex(4)}/tree/{urllib.parse.quote(path)}"
        return f"{address}?token={self.token}"

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
        import nbformat  # not above: run.py asks this file for Chromium before anything is installed

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


class Notebook7(JupyterLab):
    """Jupyter Notebook 7: the same server with one notebook to a page."""

    module, app = "notebook", "JupyterNotebookApp"

    def page_of(self, path: str) -> str:
        """The address of a notebook."""
        return f"{self.url}/notebooks/{urllib.parse.quote(path)}?token={self.token}"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
