"""Execute a notebook without a browser, and print cell by cell what it showed.

nbclient runs the cells; the kernel is *this* interpreter, whatever kernels are installed on the machine. Of each output
the ``text/plain`` form is printed, also of a panel. A cell tagged ``raises-exception`` must fail; it is an error if it
does not.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.cli.terminal import without_colour
from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.words import clip

RAISES_TAG = "raises-exception"
CELL_SECONDS = 900

_log = logging.getLogger(__name__)


class NotebookFailedError(InductorDebugError):
    """A cell failed, or did not fail though it must, or the kernel died."""


def run_notebook(path: Path, folder: Path, environ: Mapping[str, str]) -> str:
    """Run every cell of the notebook at ``path`` in ``folder``, print what it shows, and return a summary.

    Raises:
        NotebookFailedError: a cell failed that should not, one did not that should, or the kernel died.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, CellExecutionError, CellTimeoutError, DeadKernelError

    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        raise NotebookFailedError(f"{path} is not a notebook that can be read: {_first_line(str(error))}") from error
    progress = _Progress(notebook.cells)
    client = NotebookClient(
        notebook,
        km=_kernel_manager(environ),
        timeout=CELL_SECONDS,
        resources={"metadata": {"path": str(folder)}},
        on_cell_start=progress.started,
        on_cell_executed=progress.executed,
    )
    start = time.monotonic()
    kernel_log = folder / "kernel.log"
    try:
        with kernel_log.open("wb") as log:
            client.execute(cleanup_kc=True, stdout=log, stderr=log)
    except (asyncio.CancelledError, AssertionError):
        # On Ctrl-C nbclient stops the kernel, and then fails because there is no client any more.
        raise KeyboardInterrupt from None
    except CellExecutionError as error:
        raise NotebookFailedError(f"{progress.where} failed: {error.ename}: {_first_line(error.evalue)}") from error
    except CellTimeoutError as error:
        raise NotebookFailedError(f"{progress.where} was not done after {CELL_SECONDS} s") from error
    except (DeadKernelError, CellControlSignal, RuntimeError) as error:
        if last_words := kernel_log.read_text(errors="replace").strip():
            _log.warning("the kernel's last words:\n%s", last_words[-2000:])
        raise NotebookFailedError(f"the kernel died in {progress.where}: {_first_line(str(error))}") from error
    if progress.unexpected_success:
        raise NotebookFailedError(f"{progress.unexpected_success} should have failed and did not")
    as_meant = f"; {progress.failures} failed as it is meant to" if progress.failures else ""
    return f"{progress.total} cells in {time.monotonic() - start:.1f} s{as_meant}"


class _Progress:
    """Prints which cell runs and what it showed."""

    def __init__(self, cells: list[Any]) -> None:
        code = [number for number, cell in enumerate(cells) if cell.cell_type == "code" and cell.source.strip()]
        self._positions = {number: position for position, number in enumerate(code, 1)}
        self.total = len(code)
        self.failures = 0
        self.where = "the first cell"
        self.unexpected_success = ""

    def started(self, cell: Any, cell_index: int) -> None:
        if position := self._positions.get(cell_index):
            self.where = f"cell {position} of {self.total} ({_first_line(cell.source)})"
            print(f"[{position}/{self.total}] {_first_line(cell.source)}", flush=True)

    def executed(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
        if cell_index not in self._positions:
            return
        for text in output_texts(cell.outputs):
            print(textwrap.indent(without_colour(text), "    "), flush=True)
        failed = execute_reply["content"]["status"] == "error"
        if RAISES_TAG in cell.metadata.get("tags", ()):
            self.failures += failed
            if not failed:
                self.unexpected_success = self.where


def output_texts(outputs: list[Any]) -> Iterator[str]:
    """The plain text of outputs; HTML, pictures and widgets without a text are left out."""
    for output in outputs:
        if output.output_type == "stream":
            text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in output.text.split("\n"))
        elif output.output_type == "error":
            text = f"{output.ename}: {output.evalue}"
        else:
            text = str(output.data.get("text/plain", ""))
            if text.startswith("<IPython.core.display."):
                continue
        if text.strip():
            yield text.rstrip()


def _kernel_manager(environ: Mapping[str, str]) -> Any:
    """Make a kernel manager whose one kernel is this interpreter."""
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    class ThisInterpreter(KernelSpecManager):  # type: ignore[misc,unused-ignore]
        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            return KernelSpec(
                argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                display_name="Python",
                language="python",
                env=dict(environ),
            )

    return AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisInterpreter())


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("# NBVAL")]
    return clip(lines[0], 100) if lines else ""
