"""Run the test suite on every torch that it is said to pass on: ``python tests/every_torch.py``.

For each torch: a virtual environment of its own, the pinned sets of ``binder/requirements.txt`` and
``tests/requirements.txt`` with that torch in place of the pinned one, the package, and the whole suite except the
tests that need a browser. Then one table:

    torch            passed  failed  skipped  install s  tests s
    2.13.0+cpu          430       0        0         81      310
    2.15.0+cu132        430       0        0         94      322

The exit code is 0 when every test passed on every torch, else 1. Needs only Python: it is not part of the suite and
imports neither torch nor pytest. The newer builds bring 5 GB of CUDA packages and cannot be imported without them; they
run on the CPU all the same.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
TESTED: tuple[str, ...] = runpy.run_path(
    str(ROOT / "inductor_debug_jupyter" / "pipeline" / "torch_compat" / "versions.py")
)["TESTED"]


class NotRunError(Exception):
    """The suite could not be run on a torch; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """What the suite said on one torch."""

    torch: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    install_seconds: float = 0.0
    test_seconds: float = 0.0
    problem: str = ""

    @property
    def is_good(self) -> bool:
        """Tests ran, none failed, and pytest itself was content."""
        return self.passed > 0 and not self.failed and not self.problem


def requirements_with(torch: str) -> str:
    """Both pinned sets in one text, with that torch in place of the pinned one."""
    users = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8")
    tests = (ROOT / "tests" / "requirements.txt").read_text(encoding="utf-8")
    pinned = tests.replace("-r ../binder/requirements.txt\n", users)
    changed, count = re.subn(r"^torch==.*$", f"torch=={torch}", pinned, flags=re.MULTILINE)
    if count != 1:
        raise NotRunError(f"the pinned sets pin torch {count} times; they must do so once")
    return changed


def counts(junit: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped tests in pytest's own report."""
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    if suite is None:
        raise NotRunError("pytest's report has no test suite in it")
    total, failures, errors, skipped = (int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped"))
    return total - failures - errors - skipped, failures + errors, skipped


def call(*command: str | Path, what: str, environ: dict[str, str]) -> None:
    """Run a command in the project's root; its output goes to the terminal."""
    done = subprocess.run([str(part) for part in command], cwd=ROOT, env=environ, check=False)
    if done.returncode != 0:
        raise NotRunError(f"{what} failed with exit code {done.returncode}")


def install(torch: str, folder: Path, environ: dict[str, str]) -> tuple[Path, str]:
    """A virtual environment with that torch and the package: its Python, and the version that torch says it is."""
    if not (folder / "venv" / "bin" / "python").exists():
        venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    requirements = folder / "requirements.txt"
    requirements.write_text(requirements_with(torch), encoding="utf-8")
    pip = (python, "-m", "pip", "install", "--quiet", "--no-compile")
    call(*pip, "-r", requirements, "-e", ROOT, what=f"installing torch {torch}", environ=environ)
    said = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"], env=environ, capture_output=True, text=True
    )
    if said.stdout.strip().split("+")[0] != torch:
        raise NotRunError(f"asked for torch {torch}, got {said.stdout.strip() or said.stderr.strip()[-300:]}")
    return python, said.stdout.strip()


def run_on(torch: str, folder: Path, pytest_arguments: Sequence[str]) -> Outcome:
    """Install that torch and run the suite on it. Whatever goes wrong is part of the outcome."""
    folder.mkdir(parents=True, exist_ok=True)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    environ["PATH"] = os.pathsep.join([str(folder / "venv" / "bin"), environ.get("PATH", os.defpath)])
    junit = folder / "junit.xml"
    junit.unlink(missing_ok=True)
    started = installed = time.monotonic()
    version, passed, failed, skipped, problem = torch, 0, 0, 0, ""
    try:
        print(f"--- torch {torch}: installing", flush=True)
        python, version = install(torch, folder, environ)
        installed = time.monotonic()
        print(f"--- torch {version}: testing", flush=True)
        try:
            call(
                *(python, "-m", "pytest", "-m", "not browser", f"--junitxml={junit}", *pytest_arguments),
                what="pytest",
                environ=environ,
            )
        finally:
            if junit.exists():
                passed, failed, skipped = counts(junit)
    except NotRunError as error:
        problem = str(error)
    ended = time.monotonic()
    return Outcome(version, passed, failed, skipped, installed - started, ended - installed, problem)


def table(outcomes: Sequence[Outcome]) -> str:
    """One line a torch, and what went wrong under it."""
    lines = [f"{'torch':<16} {'passed':>6}  {'failed':>6}  {'skipped':>7}  {'install s':>9}  {'tests s':>7}"]
    for each in outcomes:
        lines.append(
            f"{each.torch:<16} {each.passed:>6}  {each.failed:>6}  {each.skipped:>7}"
            f"  {each.install_seconds:>9.0f}  {each.test_seconds:>7.0f}"
        )
        if each.problem:
            lines.append(f"  {each.problem}")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = argparse.ArgumentParser(
        prog="every_torch.py", description=f"Run the test suite (browser aside) on torch {', '.join(TESTED)}."
    )
    made.add_argument("torch", nargs="*", metavar="VERSION", help="only these; any version that pip can install")
    made.add_argument("--newest", action="store_true", help=f"only {TESTED[-1]}, as CI does")
    made.add_argument("--keep", type=Path, metavar="DIR", help="keep the environments there and use them again")
    made.add_argument("--pytest", action="append", default=[], metavar="ARG", help="hand on to pytest: --pytest=-x")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table, and answer with the exit code."""
    asked = parser().parse_args(arguments)
    for version in asked.torch:
        if not re.fullmatch(r"\d+\.\d+\.\d+", version):
            parser().error(f"{version!r} is not a version of torch; write it as {TESTED[-1]}")
    outcomes: list[Outcome] = []
    for version in asked.torch or (TESTED[-1:] if asked.newest else TESTED):
        # One after the other, so that at most one environment of several GB is there at a time.
        with tempfile.TemporaryDirectory(prefix="every_torch_") as temporary:
            folder = (asked.keep or Path(temporary)).resolve() / version
            outcomes.append(run_on(version, folder, asked.pytest))
    print(f"\n{table(outcomes)}")
    return 0 if all(each.is_good for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
