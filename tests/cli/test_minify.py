"""``minify`` reduces whatever fails on a backend and writes the script; ``bug-report`` writes what to hand over."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

MODEL = """
import os, signal, torch

class OnGelu(torch.fx.Interpreter):
    def run_node(self, n):
        result = super().run_node(n)
        if "gelu" not in str(n.target):
            return result
        if MODE == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        if MODE == "hangs":
            signal.pause()
        return result * 1.5

MODE = "wrong"

def wrong(gm, inputs):
    return OnGelu(gm).run

def dies(gm, inputs):
    global MODE
    MODE = "dies"
    return OnGelu(gm).run

def hangs(gm, inputs):
    global MODE
    MODE = "hangs"
    return OnGelu(gm).run

def make():
    def model(x):
        return torch.tanh(torch.nn.functional.gelu(x.relu()) + 1)
    return model, torch.randn(4, 6)

def has_tanh(gm, inputs):
    return torch.tanh in {node.target for node in gm.graph.nodes}
"""


@pytest.fixture(autouse=True)
def module(folder: Path, fresh_dynamo: None) -> Iterator[None]:
    (folder / "reduce_me.py").write_text(MODEL)
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("reduce_me", None)


def runs(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=folder)


def test_the_users_own_function_says_what_fails(cli: Cli, folder: Path) -> None:
    result = cli("minify", "reduce_me:make", "--fails", "reduce_me:has_tanh", "--output", "small.py")
    assert result.code == 0, result
    assert "1 of 4 ops after" in result.out
    assert "verified in" in result.out
    assert "evaluations" in result.err  # how far it is
    assert "tanh" in (folder / "small.py").read_text()


def test_what_is_right_is_not_reduced_and_limits_are_numbers(cli: Cli) -> None:
    result = cli("minify", "reduce_me:make", "--on", "dynamo")
    assert (result.code, result.out) == (2, "")
    assert "nothing to reproduce: dynamo agrees with eager" in result.err
    assert "--seconds: 'soon' is not allowed" in cli("minify", "reduce_me:make", "--seconds", "soon").err
    assert "--evaluations: '0' is not allowed" in cli("minify", "reduce_me:make", "--evaluations", "0").err


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        pytest.param("wrong", "differ by more than", marks=pytest.mark.long),
        pytest.param("hangs", "did not answer within", marks=[pytest.mark.long, pytest.mark.timeout(900)]),
        ("dies", "died of SIGSEGV"),
    ],
)
def test_a_third_party_backend_is_reduced_in_a_process_of_its_own(
    cli: Cli, folder: Path, mode: str, reason: str
) -> None:
    result = cli("minify", "reduce_me:make", "--on", f"reduce_me:{mode}", "--timeout", "60", "--output", "small.py")
    assert result.code == 0, result
    assert "1 of 4 ops" in result.out
    assert reason in result.out
    text = (folder / "small.py").read_text()
    assert "gelu(" in text
    assert f"from reduce_me import {mode}" in text
    (folder / "reduce_me.py").rename(folder / "gone.py")
    done = runs(folder / "small.py", folder)
    assert done.returncode == 2, done  # it cannot be run here
    assert "this cannot be run here: No module named 'reduce_me'" in done.stdout


@pytest.mark.usefixtures("store")
def test_a_bug_report_of_a_saved_session(cli: Cli, folder: Path) -> None:
    result = cli("bug-report", "--output", "report.zip")
    assert result.code == 0, result
    assert "report.md" in result.out
    assert "held back  lines of your source" in result.out
    with zipfile.ZipFile(folder / "report.zip") as archive:
        names = archive.namelist()
        text = archive.read("report/report.md").decode()
        machine = archive.read("report/environment.txt").decode()
    assert {"report/report.md", "report/error.txt", "report/environment.txt"} <= set(names)
    assert "- [x] the error, or the wrong value" in text
    assert "- [ ] smallest script (session.minify())" in text
    assert "30 is not a multiple of 64" in text
    assert "Collecting" not in machine
    assert "PyTorch version: 2." in machine
