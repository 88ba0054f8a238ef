"""``binder/run.py``: what it brings and where it stops; a test that could not run is never taken for passed."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
BROWSER_TEST = "import pytest\n\n@pytest.mark.browser\ndef test_seen(): pass\n\ndef test_other(): pass\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A machine with only these programs on its path: run.py's names, and ``ran``, the commands that were started."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("CXX", raising=False)
    ran = tmp_path / "ran"

    def make(**scripts: str) -> Any:
        """Programs by name (``_`` is for ``-``); each writes its arguments down and then does what its script says."""
        for name, script in scripts.items():
            program = programs / name.replace("_", "-").replace("gxx", "g++")
            program.write_text(f'#!/bin/sh\necho "$(/usr/bin/basename "$0")" "$@" >>{ran}\n{script}\n')
            program.chmod(0o755)
        names = runpy.run_path(str(ROOT / "binder" / "run.py"))
        monkeypatch.setitem(names["set_up"].__globals__, "environment_python", lambda: Path(programs / "python"))
        names["ran"] = lambda: ran.read_text().splitlines() if ran.exists() else []
        names["programs"] = programs
        return names

    return make


BRINGS = 'for name in chromium dot g++ node npm; do echo >"${0%/*}/$name"; /bin/chmod +x "${0%/*}/$name"; done'


def test_what_is_missing_is_brought_and_the_tests_are_run(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = machine(apt_get=BRINGS, python="", pytest="exit 5")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert names["main"](["tests", "-k", "strict"]) == 5, "pytest's own exit code"
    apt = [line for line in names["ran"]() if line.startswith("apt-get")]
    assert apt == ["apt-get update", "apt-get install -y --no-install-recommends g++ graphviz chromium npm"]
    (pip,) = [line for line in names["ran"]() if line.startswith("python")]
    assert pip.startswith("python -m pip install --no-compile")
    assert pip.endswith("-r tests/requirements.txt -e .")
    assert names["ran"]()[-1] == "pytest -k strict"


def test_trying_it_out_brings_no_browser_and_no_test_tool(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = machine(apt_get=BRINGS, python="", inductor_debug="")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert names["main"](["quickstart", "--headless"]) == 0
    assert "apt-get install -y --no-install-recommends g++ graphviz" in names["ran"]()
    (pip,) = [line for line in names["ran"]() if line.startswith("python")]
    assert pip.endswith("-r binder/requirements.txt .")
    assert names["ran"]()[-1] == "inductor-debug quickstart --headless"


def test_without_root_sudo_is_asked_and_never_waits_for_a_password(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = machine(apt_get="", sudo="exit 1", python="", gxx="", pytest="")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    assert names["apt_get"]() == ["sudo", "-n", "apt-get"]
    assert names["main"](["tests"]) == 0
    assert "sudo -n apt-get update" in names["ran"]()


@pytest.mark.parametrize("job", ["quickstart", "tests"])
def test_elsewhere_it_says_what_to_install(machine: Any, job: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No apt-get: a compiler is a must; Graphviz and Chromium are named, and the job goes on."""
    names = machine(python="", pytest="", inductor_debug="")
    assert names["main"]([job]) == 2
    said = capsys.readouterr().out.splitlines()
    assert "run.py: MISSING: a C++ compiler; install it (Debian: apt-get install g++) and run this again" in said
    assert said[-1] == f"run.py: {job} cannot run without a C++ compiler"
    names = machine(gxx="")
    assert names["main"]([job]) == 0
    said = capsys.readouterr().out
    assert "MISSING: Graphviz (dot)" in said
    assert ("MISSING: Chromium" in said) == (job == "tests")


def test_a_step_that_fails_is_one_line(machine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names = machine(python="exit 7", gxx="")
    assert names["main"](["quickstart"]) == 2
    assert capsys.readouterr().out.splitlines()[-1].endswith("-r binder/requirements.txt . failed with exit code 7")


def test_without_chromium_browser_tests_are_not_run_and_the_command_fails(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_page.py").write_text(BROWSER_TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    browser: needs Chromium\n")
    environ = os.environ | {
        "PATH": "/nowhere",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")]),
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:nbval"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NOT RUN: 1 test: there is no Chromium" in done.stdout
    assert "1 passed, 1 skipped" in done.stdout


@pytest.mark.parametrize("requirements", ["binder/requirements.txt", "tests/requirements.txt"])
def test_what_is_pinned_takes_the_python_of_debian_12(requirements: str) -> None:
    """It is 3.11.2, and README asks for 3.11: a package that wants a later patch release cannot be pinned."""
    pins = [
        Requirement(line) for line in (ROOT / requirements).read_text().splitlines() if "==" in line.partition("#")[0]
    ]
    known = {each.metadata["Name"].lower().replace("_", "-"): each for each in distributions()}
    installed = [known[name] for each in pins if (name := each.name.lower().replace("_", "-")) in known]
    assert len(installed) > len(pins) // 2
    too_new = [
        f"{each.metadata['Name']} {each.version} asks for {each.metadata['Requires-Python']}"
        for each in installed
        if not SpecifierSet(each.metadata["Requires-Python"] or "").contains("3.11.2")
        and any(each.version in pin.specifier for pin in pins if pin.name.lower() == each.metadata["Name"].lower())
    ]
    assert too_new == []
