"""A vendor's backend as it comes from PyPI: OpenVINO, which torch.compile finds by its entry point.

It is installed into a folder of its own, and used by a fresh interpreter that has the folder on its path.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_OPENVINO = ("openvino==2026.4.1", "openvino-telemetry==2025.2.0")

_SCRIPT = """
import torch
from inductor_debug_jupyter import KernelDiffHarness, run_conformance

checks = ["capabilities", "graph.pointwise", "runs.repeat", "runs.twice", "gradients"]
print(run_conformance("openvino", checks=checks, timeout=240))

with torch.no_grad():
    harness = KernelDiffHarness(
        lambda x: torch.relu(x) * 2 + 1, (torch.randn(4, 8),), test_backend="openvino", isolate=True, timeout=240
    )
    print(harness.compare())
print("and the process goes on")
"""


@pytest.fixture(scope="module")
def openvino(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that OpenVINO is in."""
    folder = tmp_path_factory.mktemp("openvino")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *_OPENVINO]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if result.returncode:
        pytest.skip(f"OpenVINO could not be installed: {result.stderr.strip().splitlines()[-1:]}")
    return folder


@pytest.mark.long
def test_openvino_runs_is_compared_and_is_told_what_it_lacks(openvino: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(openvino), "PYTHONWARNINGS": "ignore"}
    result = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=500, env=environment, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    told = result.stdout
    assert "✓ capabilities – says what it can do: openvino: dtypes unknown; ops unknown; memory unknown" in told
    assert "✓ graph.pointwise" in told
    assert "✓ runs.repeat" in told
    assert "✗ runs.twice – keeps runs apart: after the second run the first run's output is wrong" in told
    assert "✗ gradients – lets gradients through" in told
    assert "3 hold, 2 fail, 0 do not apply: it does not conform" in told
    assert "eager against openvino · 1 output: 1 equal" in told
    assert told.endswith("and the process goes on\n")
