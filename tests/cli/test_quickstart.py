"""The quickstart without a display: every cell runs in this interpreter and its text is printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from inductor_debug_jupyter.cli import quickstart
from inductor_debug_jupyter.cli.quickstart import has_display, quickstart_notebook, working_copy

Cli = Callable[..., Any]
Use = Callable[..., None]

PANEL = """
class Panel:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "the panel says: 2 findings"}
Panel()
"""


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Make the quickstart a notebook of these cells; a tuple is a source and its tag."""

    def one(*cells: str | tuple[str, str]) -> None:
        notebook = nbformat.v4.new_notebook()
        notebook.cells.append(nbformat.v4.new_markdown_cell("# Quickstart"))
        for cell in cells:
            source, tags = (cell, []) if isinstance(cell, str) else (cell[0], [cell[1]])
            notebook.cells.append(nbformat.v4.new_code_cell(source, metadata={"tags": tags}))
        monkeypatch.setattr(quickstart, "quickstart_notebook", lambda: nbformat.writes(notebook).encode())

    return one


def test_every_output_is_printed_as_text(cli: Cli, use: Use, folder: Path) -> None:
    use(
        "import sys; print(sys.executable)\nfor n in range(3): print(f'\\rstep {n}', end='')",
        PANEL,
        "from IPython.display import HTML, display\ndisplay(HTML('<b>snapshot</b>'))",
        ("raise ValueError('the target refuses\\nthis')", "raises-exception"),
        "import os; os.environ['INDUCTOR_DEBUG_ARTIFACTS'], os.getcwd()",
        "",
    )
    result = cli("quickstart", "--headless")
    assert (result.code, result.err) == (0, "")
    assert f"    {sys.executable}\n    step 2\n" in result.out
    assert "step 1" not in result.out
    assert "[2/5] class Panel:\n    the panel says: 2 findings\n" in result.out
    assert "IPython.core" not in result.out
    assert "<b>" not in result.out
    assert "    ValueError: the target refuses\n    this\n" in result.out
    assert str(folder / "debug_artifacts") in result.out, "what is captured is found in the working folder afterwards"
    assert "Done: 5 cells" in result.out
    assert "1 failed as it is meant to" in result.out
    assert list(folder.iterdir()) == [], "it runs in a folder of its own"


def test_a_cell_that_fails_fails_the_quickstart(cli: Cli, use: Use) -> None:
    use("print('before')", "1 / 0", "print('never')")
    result = cli("quickstart", "--headless")
    assert result.code == 1
    assert "before" in result.out
    assert "never" not in result.out.replace("print('never')", "")
    (line,) = result.err.splitlines()
    assert line == "inductor-debug: cell 2 of 3 (1 / 0) failed: ZeroDivisionError: division by zero"


def test_a_cell_that_should_fail_and_does_not_fails_the_quickstart(cli: Cli, use: Use) -> None:
    use(("'fine'", "raises-exception"))
    result = cli("quickstart", "--headless")
    assert result.code == 1
    assert "should have failed and did not" in result.err


def test_a_dead_kernel_is_one_line_after_its_last_words(cli: Cli, use: Use) -> None:
    use("import os; os.write(2, b'goodbye'); os._exit(3)")
    result = cli("quickstart", "--headless")
    assert result.code == 1
    assert "the kernel's last words:\n" in result.err
    assert "goodbye" in result.err
    assert "inductor-debug: the kernel died in cell 1 of 1" in result.err.splitlines()[-1]
    quietly = cli("quickstart", "--headless", "--quiet").err
    (line,) = [line for line in quietly.splitlines() if line.startswith("inductor-debug: ")]
    assert "the kernel died in cell 1 of 1" in line


def test_a_file_that_is_no_notebook_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quickstart, "quickstart_notebook", lambda: b"not a notebook")
    result = cli("quickstart", "--headless")
    assert result.code == 1
    assert "is not a notebook that can be read" in result.err
    assert len(result.err.splitlines()) == 1


def test_without_a_display_it_is_headless(cli: Cli, use: Use) -> None:
    use("# NBVAL_CHECK_OUTPUT\n1 + 1")
    assert "[1/1] 1 + 1\n    2\n" in cli("quickstart").out


def test_what_counts_as_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert has_display({"DISPLAY": ":0"}, terminal=True)
    assert has_display({"WAYLAND_DISPLAY": "wayland-0"}, terminal=True)
    assert not has_display({"DISPLAY": ":0"}, terminal=False)
    assert not has_display({"DISPLAY": "", "BROWSER": "firefox"}, terminal=True)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert has_display({}, terminal=True)


def test_a_changed_notebook_is_never_overwritten(folder: Path) -> None:
    first = working_copy(b"original", folder)
    assert first == folder / "inductor_debug_quickstart.ipynb"
    assert working_copy(b"original", folder) == first
    first.write_bytes(b"mine")
    second = working_copy(b"original", folder)
    assert (first.read_bytes(), second.read_bytes()) == (b"mine", b"original")
    assert working_copy(b"original", folder) == second


def test_with_a_display_jupyterlab_opens_the_copy(
    cli: Cli, use: Use, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use("1 + 1")
    started: list[tuple[list[str], dict[str, str]]] = []

    class Lab:
        def __init__(self, command: list[str], env: dict[str, str]) -> None:
            started.append((command, env))
            self.interrupts = 2

        def __enter__(self) -> Lab:
            return self

        def __exit__(self, *exc: object) -> None: ...

        def wait(self) -> int:
            self.interrupts -= 1
            if self.interrupts >= 0:
                raise KeyboardInterrupt
            return 0

    monkeypatch.setattr(quickstart.subprocess, "Popen", Lab)
    monkeypatch.setattr(quickstart, "has_display", lambda environ, terminal: True)
    assert cli("quickstart").code == 0
    ((command, environ),) = started
    assert command[:4] == [sys.executable, "-m", "jupyterlab", str(folder / "inductor_debug_quickstart.ipynb")]
    assert environ["INDUCTOR_DEBUG_ARTIFACTS"] == str(folder / "debug_artifacts")
    assert environ["PATH"] == os.environ["PATH"]


def test_the_notebook_of_the_checkout_is_found() -> None:
    checkout = Path(__file__).resolve().parents[2] / "notebooks" / "00_quickstart.ipynb"
    assert quickstart_notebook() == checkout.read_bytes()
