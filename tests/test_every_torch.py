"""The command that runs the suite on every torch: what it installs, what it counts, and when it fails."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMMAND = runpy.run_path(str(ROOT / "tests" / "every_torch.py"))
main, Outcome, NotRunError = COMMAND["main"], COMMAND["Outcome"], COMMAND["NotRunError"]

JUNIT = """<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10"/></testsuites>"""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What ``main`` would have run: torch → the outcome to answer with, filled by the test."""
    outcomes: dict[str, Any] = {}
    monkeypatch.setitem(main.__globals__, "run_on", lambda torch, folder, arguments: outcomes[torch])
    return outcomes


def test_only_torch_is_swapped_in_the_pinned_set() -> None:
    files = [(ROOT / folder / "requirements.txt").read_text() for folder in ("binder", "tests")]
    pins = {line for text in files for line in text.splitlines() if "==" in line and not line.startswith("#")}
    swapped = COMMAND["requirements_with"]("2.15.0").splitlines()
    assert {line for line in swapped if line and not line.startswith("#")} == pins - {"torch==2.13.0"} | {
        "torch==2.15.0"
    }


def test_errors_count_as_failed(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(JUNIT)
    assert COMMAND["counts"](tmp_path / "junit.xml") == (4, 3, 3)


def test_all_tested_torches_by_default_and_the_newest_on_request(ran: dict[str, Any], capsys: Any) -> None:
    ran |= {torch: Outcome(torch, passed=5) for torch in COMMAND["TESTED"]}
    assert main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.split("\n")[1:] if line] == ["torch", *ran]
    assert main(["--newest"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.split("\n")[1:] if line] == ["torch", list(ran)[-1]]


@pytest.mark.parametrize(
    "bad",
    [
        Outcome("2.14.1", passed=5, failed=1),
        Outcome("2.14.1", passed=0),
        Outcome("2.14.1", passed=5, problem="pytest failed with exit code 3"),
    ],
    ids=["a failed test", "nothing ran", "pytest broke"],
)
def test_one_bad_torch_fails_the_command(ran: dict[str, Any], bad: Any, capsys: Any) -> None:
    ran |= {"2.13.0": Outcome("2.13.0", passed=5), "2.14.1": bad}
    assert main(["2.13.0", "2.14.1"]) == 1
    assert bad.problem in capsys.readouterr().out


def test_another_torch_than_asked_for_is_not_tested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An index that answers with something else must not count as that torch."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 2.13.0+cpu\n")
    python.chmod(0o755)
    outcome = COMMAND["run_on"]("2.15.0", tmp_path, [])
    assert not outcome.is_good
    assert outcome.problem == "asked for torch 2.15.0, got 2.13.0+cpu"


def test_a_version_that_is_none_is_one_line() -> None:
    command = [sys.executable, str(ROOT / "tests" / "every_torch.py"), "newest"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "every_torch.py: error: 'newest' is not a version of torch; write it as 2.15.0"
    )
