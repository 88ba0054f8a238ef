"""``inductor-debug tour``: the tutorials, in JupyterLab or, with ``--plain``, run here as text."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.cli.quickstart import open_in_lab, run_here, shipped
from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.options import OPTIONS, add_options

SUMMARY = "open the tutorials in JupyterLab, or run one of them here as text"
EXAMPLES = """\
  inductor-debug tour              # in JupyterLab, from the first one on
  inductor-debug tour 3 --plain    # the third, here, as text
"""
FOLDER = "inductor_debug_tour"
TUTORIALS = {
    "1": "01_port_a_model.ipynb",
    "2": "02_wrong_numbers.ipynb",
    "3": "03_recompiles_and_breaks.ipynb",
    "4": "04_from_finding_to_fix.ipynb",
}
BESIDE = ("my_chip.toml",)
"""What the tutorials read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    titles = ", ".join(f"{number} {Path(name).stem[3:].replace('_', ' ')}" for number, name in TUTORIALS.items())
    parser.add_argument("tutorial", nargs="?", choices=TUTORIALS, default="1", help=f"{titles}; default 1")
    parser.add_argument("--plain", action="store_true", help="run it here and print what it shows; start no browser")
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Open or run the tutorial."""
    name = TUTORIALS[args.tutorial]
    environment = {OPTIONS["artifacts"].environment: str(chosen_store(args).folder.absolute())}
    if args.plain:
        with tempfile.TemporaryDirectory(prefix="inductor-debug-", ignore_cleanup_errors=True) as temporary:
            put_tutorials(Path(temporary))
            return run_here(Path(temporary) / name, environment, "inductor-debug tour")
    folder = Path.cwd() / FOLDER
    put_tutorials(folder)
    return open_in_lab(folder / name, environment)


def put_tutorials(folder: Path) -> None:
    """Write every tutorial into the folder; one that is there stays as it is, because the user may have changed it.

    Raises:
        InductorDebugError: it cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)
        for name in (*TUTORIALS.values(), *BESIDE):
            if not (folder / name).exists():
                (folder / name).write_bytes(shipped(name))
    except OSError as error:
        reason = f"cannot write {folder}: {error.strerror}"
        raise InductorDebugError(f"{reason}; go to a folder that you can write to, or say --plain") from error
