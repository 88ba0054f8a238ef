"""Set up this checkout and do one job: ``python3 binder/run.py quickstart`` or ``python3 binder/run.py tests``.

Needs Python 3.11 and nothing else. The active virtual environment is used; without one, ``.venv`` is made here. Into it
goes the pinned set of the job: for the quickstart what the package needs, for the tests their tools as well. What the
job needs of the system (a C++ compiler, Python's headers, Graphviz, for the tests Chromium and npm) is brought with
``apt-get`` where that can be done, as root or through sudo. Elsewhere it says what to install: without a compiler the
command stops, without the others it goes on, and tests that could not run are listed as NOT RUN and fail the command.

Further arguments go to the job: ``… quickstart --headless``, ``… tests -k strict``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
OLDEST_PYTHON = (3, 11)


class SetUpError(Exception):
    """The job cannot be done on this machine; the message says why and what helps."""


@dataclass(frozen=True)
class Tool:
    """Something that pip does not bring: how it is found, and which of Debian's packages has it."""

    name: str
    package: str
    is_there: Callable[[], bool]
    jobs: tuple[str, ...] = ("quickstart", "tests")
    is_essential: bool = False


def has_compiler() -> bool:
    """Whether there is a C++ compiler that Inductor would take."""
    return any(map(shutil.which, filter(None, (os.environ.get("CXX"), "g++", "clang++", "c++", "cl"))))


def has_headers() -> bool:
    """Whether Python.h is there, which Inductor's kernels include."""
    return (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()


def has_chromium() -> bool:
    """Whether the browser tests would find a Chromium, asked of the function that they use."""
    lab = runpy.run_path(str(ROOT / "tests" / "proofs" / "lab.py"))
    return lab["find_chromium"]() is not None


def has_venv() -> bool:
    """Whether a virtual environment is active or can be made; Debian has ``ensurepip`` in a package of its own."""
    importlib.invalidate_caches()  # apt-get may have brought it since this process looked
    return in_environment() or importlib.util.find_spec("ensurepip") is not None


def in_environment() -> bool:
    """Whether this Python belongs to a virtual environment or to conda, into which packages may be put."""
    return sys.prefix != sys.base_prefix or (Path(sys.prefix) / "conda-meta").exists()


TOOLS = (
    Tool("python's venv module", "python3-venv", has_venv, is_essential=True),
    Tool("a C++ compiler", "g++", has_compiler, is_essential=True),
    Tool("Python's headers (Python.h)", "python3-dev", has_headers, is_essential=True),
    Tool("Graphviz (dot)", "graphviz", lambda: shutil.which("dot") is not None),
    Tool("Chromium", "chromium", has_chromium, jobs=("tests",)),
    Tool("Node.js with npm", "npm", lambda: all(map(shutil.which, ("node", "npm"))), jobs=("tests",)),
)


def say(line: str) -> None:
    """One line about what is done now."""
    print(f"run.py: {line}", flush=True)


def missing_tools(job: str) -> list[Tool]:
    """What the job needs of the system and does not find."""
    return [tool for tool in TOOLS if job in tool.jobs and not tool.is_there()]


def apt_get() -> list[str] | None:
    """How ``apt-get`` is called here; None without it, or where neither root nor sudo is to be had."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return ["apt-get"]
    if shutil.which("sudo") is None:
        return None
    # Without a terminal nobody could type the password.
    return ["sudo", "apt-get"] if sys.stdin.isatty() else ["sudo", "-n", "apt-get"]


class SystemPackages:
    """Debian's packages, fetched beside pip: the two take about as long, and neither needs the other."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `finish`
        self._process: subprocess.Popen[bytes] | None = None
        packages = [tool.package for tool in tools]
        if packages and (command := apt_get()):
            say(f"apt-get install {' '.join(packages)}")
            script = '"$@" update && "$@" install -y --no-install-recommends $PACKAGES'
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", script, "sh", *command],
                env=os.environ | {"DEBIAN_FRONTEND": "noninteractive", "PACKAGES": " ".join(packages)},
                stdout=self._log,
                stderr=subprocess.STDOUT,
            )

    def finish(self) -> None:
        """Wait for ``apt-get``; when it failed, show its last lines."""
        if self._process is not None and self._process.wait() != 0:
            self._log.seek(0)
            said = self._log.read().decode(errors="replace").splitlines()
            say("\n".join([f"apt-get failed with exit code {self._process.returncode}:", *said[-10:]]))
        self._process = None
        self._log.close()


def check_tools(job: str) -> None:
    """Say what is still missing, and stop when the job makes no sense without it."""
    missing = missing_tools(job)
    for tool in missing:
        say(f"MISSING: {tool.name}; install it (Debian: apt-get install {tool.package}) and run this again")
    if essential := [tool.name for tool in missing if tool.is_essential]:
        raise SetUpError(f"{job} cannot run without {' and '.join(essential)}")


def environment_python() -> Path:
    """The Python of the active virtual environment, or of ``.venv`` here, made when it is not there."""
    if in_environment():
        return Path(sys.executable)
    folder = ROOT / ".venv"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        say(f"making the virtual environment {folder}")
        call(sys.executable, "-m", "venv", str(folder))
    return python


def call(*command: str) -> None:
    """Run a step of the set-up in the project's root."""
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise SetUpError(f"{' '.join(command)} failed with exit code {done.returncode}")


def install_packages(job: str, python: Path) -> None:
    """The pinned set and the package in one resolution: an unpinned torch would bring CUDA along.

    pip compiles no bytecode: Python does so for the few modules of torch that are imported, pip for all of them.
    """
    requirements = {"quickstart": "binder/requirements.txt", "tests": "tests/requirements.txt"}[job]
    package = {"quickstart": ["."], "tests": ["-e", "."]}[job]
    say(f"pip install -r {requirements} {' '.join(package)}, into {python.parents[1]}")
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    call(
        *(str(python), "-m", "pip", "install", "--no-compile", "--disable-pip-version-check", *quiet),
        *("-r", requirements, *package),
    )


def set_up(job: str) -> Path:
    """Bring what the job needs; answers with the Python to run it with."""
    if sys.version_info < OLDEST_PYTHON:
        raise SetUpError(f"this is Python {sys.version.split()[0]}; 3.11 or newer is needed")
    packages = SystemPackages(missing_tools(job))
    if not has_venv():
        packages.finish()
    try:
        python = environment_python()
        install_packages(job, python)
    finally:
        packages.finish()
    check_tools(job)
    return python


def run(job: str, python: Path, arguments: Sequence[str]) -> int:
    """Do the job, as in the activated environment; answers with its exit code."""
    command = {"quickstart": ["inductor-debug", "quickstart"], "tests": ["pytest"]}[job] + list(arguments)
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
    say(" ".join(command))
    command[0] = shutil.which(command[0], path=path) or command[0]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"PATH": path}, check=False).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Set up, do the job, and answer with the exit code; 2 when the set-up failed."""
    parser = argparse.ArgumentParser(prog="run.py", description="Set up this checkout and do one job.")
    parser.add_argument("job", choices=("quickstart", "tests"), help="the guided tour, or the test suite")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="handed on to the job")
    request = parser.parse_args(arguments)
    try:
        return run(request.job, set_up(request.job), request.arguments)
    except SetUpError as error:
        say(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
