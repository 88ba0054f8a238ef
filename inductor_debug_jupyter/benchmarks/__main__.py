"""``python -m inductor_debug_jupyter.benchmarks SUITE …``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from inductor_debug_jupyter.benchmarks.command_line import run_program

PROGRAM = "inductor_debug_jupyter.benchmarks"
SUITES = {
    "models": "whole models on eager, Inductor and the mock: compile time, latency, graphs, findings, numbers",
    "capture": "what seeing a compile costs: plain, our capture, TORCH_COMPILE_DEBUG, TORCH_TRACE + tlparse, depyf",
}
"""Suite → one line for the help. A new one is a module in ``suites`` with ``add_arguments`` and ``run``."""
PROOFS = (
    *("stages", "devices", "ops", "simulator", "localize", "guards"),
    *("panel", "fixits", "nodes", "numerics", "truth", "compare", "screenshots", "matching", "first_answer"),
    *("faults", "kernel_times"),
)
"""What proves this package lives under ``tests/``, which is not in the wheel; a checkout runs it by these names too."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; answers with the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] and arguments[0] in PROOFS:
        return _prove(arguments)
    return run_program(PROGRAM, SUITES, "inductor_debug_jupyter.benchmarks.suites", arguments)


def _prove(arguments: list[str]) -> int:
    """Hand over to ``python -m tests.proofs``, where there is one."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "tests" / "proofs").is_dir():
        sys.stderr.write(
            f"{PROGRAM}: {arguments[0]} proves this package and is not installed with it; "
            f"in a checkout of the project: python -m tests.proofs {arguments[0]}\n"
        )
        return 2
    sys.path.insert(0, str(root))  # in front: other packages install a ``tests`` of their own
    return int(importlib.import_module("tests.proofs.__main__").main(arguments))


if __name__ == "__main__":
    sys.exit(main())
