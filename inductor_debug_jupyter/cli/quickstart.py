"""``inductor-debug quickstart``: the quickstart notebook, in JupyterLab or, without a display, as text."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, NotFoundError
from inductor_debug_jupyter.pipeline.options import OPTIONS, add_options

SUMMARY = "open the quickstart notebook in JupyterLab, or run it here when there is no display"
EXAMPLES = """\
  inductor-debug quickstart             # in JupyterLab
  inductor-debug quickstart --headless  # here, as text
"""
NOTEBOOK = "00_quickstart.ipynb"
COPY = "inductor_debug_quickstart.ipynb"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--headless", action="store_true", help="run the notebook here and print what it shows; start no browser"
    )
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Open or run the notebook."""
    notebook = quickstart_notebook()
    environment = {OPTIONS["artifacts"].environment: str(chosen_store(args).folder.absolute())}
    if args.headless or not has_display(os.environ, terminal=sys.stdout.isatty()):
        with tempfile.TemporaryDirectory(prefix="inductor-debug-", ignore_cleanup_errors=True) as name:
            (path := Path(name) / COPY).write_bytes(notebook)
            return run_here(path, environment, "inductor-debug quickstart")
    return open_in_lab(working_copy(notebook, Path.cwd()), environment)


def quickstart_notebook() -> bytes:
    """Read the notebook: from the installed package, or from the source checkout."""
    return shipped(NOTEBOOK)


def shipped(name: str) -> bytes:
    """One file of the notebooks: from the installed package, or from the source checkout.

    Raises:
        NotFoundError: it is in neither.
    """
    checkout = Path(__file__).resolve().parents[2] / "notebooks"
    for place in (resources.files("inductor_debug_jupyter.cli") / "notebooks" / name, checkout / name):
        if place.is_file():
            return place.read_bytes()
    raise NotFoundError(f"{name} is neither in the package nor in {checkout}; install the package again")


def has_display(environ: Mapping[str, str], *, terminal: bool) -> bool:
    """Whether there is a screen: a terminal and, on Linux, a display server."""
    if not terminal:
        return False
    return not sys.platform.startswith("linux") or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def working_copy(notebook: bytes, folder: Path) -> Path:
    """Put the notebook into the working folder; beside one that the user has changed the copy is numbered."""
    path, number = folder / COPY, 1
    try:
        while path.exists() and path.read_bytes() != notebook:
            number += 1
            path = (folder / COPY).with_stem(f"{Path(COPY).stem}-{number}")
        if not path.exists():
            path.write_bytes(notebook)
            print(f"The quickstart is {path}")
    except OSError as error:
        raise InductorDebugError(
            f"cannot write {path}: {error.strerror}; go to a folder that you can write to, or say --headless"
        ) from error
    return path


def run_here(path: Path, environment: dict[str, str], command: str) -> int:
    """Run a notebook in its folder with this interpreter, and print what its cells show."""
    from inductor_debug_jupyter.cli.notebook_runner import run_notebook

    print(f"Running {path.name} with {sys.executable}", flush=True)
    print(f"Done: {run_notebook(path, path.parent, environment)}.")
    print(f"What was captured: inductor-debug list. In a browser: {command}, on a machine with a display.")
    return 0


def open_in_lab(path: Path, environment: dict[str, str]) -> int:
    """Open a notebook in JupyterLab; returns when its server ends."""
    command = [sys.executable, "-m", "jupyterlab", str(path)]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # it listens on this machine only, and wants a token
    with subprocess.Popen(command, env=os.environ | environment) as lab:
        while True:
            try:
                return lab.wait()
            except KeyboardInterrupt:
                continue  # JupyterLab got it too, and asks before it shuts down
