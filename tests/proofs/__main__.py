"""``python -m tests.proofs SUITE …``, in the root of a checkout."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from inductor_debug_jupyter.benchmarks.command_line import run_program

SUITES = {
    "stages": "what a capture holds of one training step: every stage, cold, with warm caches, and on a cache hit",
    "devices": "models against every target: findings, op coverage, cost of checking, peak memory, partitions",
    "ops": "torch's operator database (CPU, float32) through mock_backend and the simulator, compared with eager",
    "simulator": "BERT-2L, ResNet-18 and Mamba on the stick simulator: its format's noise, what each fault makes wrong",
    "localize": "seeded faults found by op, kernel and line on BERT, ResNet-18 and Mamba; clean runs; smallest fault",
    "faults": "planted faults of every stage, bisected and reduced; each script runs where there is torch alone",
    "guards": "what inspecting guards costs over the compile it watches, and a table of thousands of guards",
    "panel": "the panel in JupyterLab and Chromium: time until it is usable, click to highlight, notebook growth",
    "screenshots": "every tab of the panel as a picture, 4 subjects, 3 widths, light and dark, to be looked at",
    "fixits": "BERT and ResNet-18 onto stick128, Mamba onto systolic128: findings, memory, numbers around fix_all",
    "nodes": "a question about one node of a model: the first, later ones from checkpoints, and traced anew",
    "matching": "the nodes of two programs, matched: 1,000 to 100,000 nodes, and whether time is linear",
    "compare": "compare_tensors beside reading both once, assert_close, allclose and numpy, 1e4 to 1e9 elements",
    "first_answer": "seconds until a plain model's findings are there, beside a plain compile and Inductor at once",
    "kernel_times": "the kernel times of session.profile() beside torch.profiler's; what reading the clock costs",
    "numerics": "devices that do not say how they compute, recognised; error budgets, predicted and seen",
    "truth": "a zoo of drawn faults: verdict, op and line right, nobody else blamed; the same models clean: no alarm",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; answers with the exit code."""
    return run_program("tests.proofs", SUITES, "tests.proofs", sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
