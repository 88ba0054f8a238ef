"""The checks around the code, so that the one test command covers them: linters, types, layers, notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "notebooks").glob("*.ipynb"))


def check(*command: str, seconds: float = 280, environ: dict[str, str] | None = None) -> None:
    """Run a tool of this environment in the project's root; its output is the failure's message."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_COLOR": "1"} | (environ or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{done.stdout[-8000:]}", pytrace=False)


def test_ruff_finds_nothing() -> None:
    check(sys.executable, "-m", "ruff", "check", ".")


def test_everything_is_formatted() -> None:
    check(sys.executable, "-m", "ruff", "format", "--check", ".")


def test_types_hold() -> None:
    check(sys.executable, "-m", "mypy")


def test_imports_go_down_only() -> None:
    check(str(Path(sys.executable).parent / "lint-imports"), "--no-cache")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "notebook",
    [
        # The quickstart runs in a browser and by its command in other tests.
        pytest.param(name, marks=[pytest.mark.long] if "quickstart" in name else [])
        for name in NOTEBOOKS
    ],
)
def test_notebooks_show_what_they_say(notebook: str, tmp_path: Path) -> None:
    check(
        *(sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env", "-p", "no:cacheprovider"),
        *("-o", "addopts=", "-o", "timeout=0", "-q", notebook),
        seconds=590,
        environ={"INDUCTOR_DEBUG_ARTIFACTS": str(tmp_path / "debug_artifacts")},
    )
