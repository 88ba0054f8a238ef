"""The panel in a real browser: how long until it can be used, and until it answers a click.

Clocks: the end of the cell is read in the kernel (``ended``), everything else in the page (``panel_page.js``), on the
same machine. *Usable* means that the header and the open tab are drawn and the kernel is idle, so that a click is
answered. A click counts until the shape is lit *and* Python's answer (the node's detail) is on show.
"""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from statistics import median
from typing import Any

from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from tests.proofs.lab import CHROMIUM_FLAGS, JupyterLab

_CURRENT = "window.jupyterapp.shell.currentWidget"

_IDLE = f"{_CURRENT}.sessionContext.session?.kernel?.status === 'idle'"


@dataclass(frozen=True, slots=True)
class Panel:
    """What was measured of one panel; seconds and bytes. ``shapes`` were drawn when it opened."""

    usable: float
    tab: float
    click: float
    told: float
    box: float
    notebook_bytes: int
    nodes: int
    shapes: int


class LabWindow:
    """One browser page on a JupyterLab."""

    def __init__(self, lab: JupyterLab, page: Any) -> None:
        self._lab, self.page = lab, page

    def measure(self, name: str, cells: list[str], *, seconds: float) -> Panel:
        """Run a notebook whose last cell leaves a panel, ``ended`` and ``nodes``, and use the panel.

        Raises:
            InductorDebugError: a cell failed, or nothing was shown in time.
        """
        path = self.run(name, cells, seconds=seconds)
        usable = self.page.evaluate("() => window.idjPanel.usable") - self.python("ended")
        shapes = self.page.evaluate("() => document.querySelectorAll('[data-idj=\"graph\"] g.node').length")
        found = self.page.evaluate("() => window.idjPanel.use()")
        nodes = self.python("nodes")
        return Panel(
            usable=usable,
            tab=found["tab"],
            click=_middle(found["clicks"]),
            told=_middle(found["told"]),
            box=_middle(found["boxes"]),
            notebook_bytes=self._growth(path),
            nodes=nodes,
            shapes=shapes or self.page.evaluate("() => document.querySelectorAll('g.node').length"),
        )

    def run(self, name: str, cells: list[str], *, seconds: float) -> str:
        """Write and run a notebook until its panel is usable; answers with the notebook's path.

        Raises:
            InductorDebugError: a cell failed, or nothing was shown in time.
        """
        path = self._lab.write_notebook(f"{name}.ipynb", cells)
        self.page.goto(self._lab.page_of(path))
        self._wait(
            f"window.jupyterapp && {_CURRENT}?.context?.isReady && {_CURRENT}.sessionContext.isReady && {_IDLE}", 120
        )
        self.page.evaluate((files("tests.proofs") / "panel_page.js").read_text(encoding="utf-8"))
        self.command("notebook:run-all-cells")
        self._wait(f"window.idjPanel.usable || {_FAILED}", seconds)
        if failed := self.page.evaluate(f"() => {_FAILED}"):
            raise InductorDebugError(f"{name}: a cell failed: {failed}")
        return path

    def command(self, name: str, **arguments: str) -> None:
        """Run a command of JupyterLab; does not wait for its end."""
        self.page.evaluate("([name, given]) => { window.jupyterapp.commands.execute(name, given); }", [name, arguments])

    def settle(self, seconds: float = 60) -> None:
        """Wait until the kernel has nothing to do and the page has drawn its answers."""
        self.page.wait_for_timeout(250)
        self._wait(_IDLE, seconds)
        self.page.wait_for_timeout(350)

    def heap(self) -> float:
        """MB of JavaScript heap that are in use after a garbage collection."""
        tools = self.page.context.new_cdp_session(self.page)
        tools.send("HeapProfiler.collectGarbage")
        used: float = tools.send("Runtime.getHeapUsage")["usedSize"]
        return used / 1e6

    def _growth(self, path: str) -> int:
        """What the last cell's outputs take in the saved notebook."""
        self.command("docmanager:save")
        file = self._lab.folder / path
        for _ in range(100):
            try:
                outputs = json.loads(file.read_text(encoding="utf-8"))["cells"][-1].get("outputs")
            except json.JSONDecodeError:  # the server is writing it
                outputs = None
            if outputs:
                return len(json.dumps(outputs, indent=1, ensure_ascii=False).encode())
            time.sleep(0.1)
        raise InductorDebugError(f"{path} was not saved within 10 s")

    def _wait(self, condition: str, seconds: float) -> None:
        from playwright.sync_api import TimeoutError as TooLateError

        try:
            self.page.wait_for_function(f"() => {condition}", timeout=seconds * 1000)
        except TooLateError:
            raise InductorDebugError(f"JupyterLab showed no notebook or no usable panel within {seconds:g} s") from None

    def python(self, expression: str) -> Any:
        """The value of an expression in the kernel, which must be JSON-able."""
        answer = self.page.evaluate(
            f"async (expression) => {{ const kernel = {_CURRENT}.sessionContext.session.kernel;"
            " const future = kernel.requestExecute({code: '', silent: true, store_history: false,"
            " user_expressions: {value: expression}}); return (await future.done).content; }",
            f"__import__('json').dumps({expression})",
        )
        return json.loads(ast.literal_eval(answer["user_expressions"]["value"]["data"]["text/plain"]))


_FAILED = (
    f"[...{_CURRENT}.content.model.cells].flatMap(cell => cell.outputs?.toJSON() ?? [])"
    ".filter(output => output.output_type === 'error').map(output => `${output.ename}: ${output.evalue}`)[0]"
)


@contextmanager
def chromium(executable: str, *flags: str) -> Iterator[Any]:
    """A browser with an empty profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=[*CHROMIUM_FLAGS, *flags])
        try:
            yield browser
        finally:
            browser.close()


def _middle(values: list[float]) -> float:
    return median(values) if values else 0.0
