"""The torches that are said to be tested are those that are; any other gets one warning."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.torch_compat import versions
from inductor_debug_jupyter.pipeline.torch_compat.versions import TESTED, untested_reason

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import torch
from torch.torch_version import TorchVersion

torch.__version__ = TorchVersion("2.99.0+cpu")
from inductor_debug_jupyter import GuardInspector, capture, compare_tensors

for _ in range(2):
    with capture(eager=True, lower="dynamo", artifacts="a") as session:
        torch.nn.Linear(4, 4)(torch.ones(2, 4))
    print(len(session.captures), *session.notes)
compare_tensors(torch.ones(2), torch.ones(2))
GuardInspector(torch.nn.Linear(4, 4)).inspect(torch.ones(2, 4))
"""


def test_pyproject_asks_for_exactly_the_tested_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (asked,) = (each for each in project["dependencies"] if re.match(r"torch\b", each))
    assert asked == f"torch{versions.tested_range()}" == "torch>=2.13,<2.16"


def test_every_minor_version_of_the_range_is_tested_once() -> None:
    minors = [tuple(map(int, version.split(".")[:2])) for version in TESTED]
    first, last = minors[0][1], minors[-1][1]
    assert minors == [(2, minor) for minor in range(first, last + 1)]


def test_the_pinned_set_has_the_oldest() -> None:
    assert f"torch=={TESTED[0]}" in (ROOT / "binder" / "requirements.txt").read_text().splitlines()


@pytest.mark.parametrize("version", ["2.13.0+cpu", "2.13.1", "2.14.1+cu130", "2.15.0+cu132"])
def test_inside_the_range_nothing_is_said(version: str) -> None:
    assert untested_reason(version) is None


@pytest.mark.parametrize(
    "version", ["2.12.1", "2.13.0a0+git0a1b2c3", "2.16.0.dev20261116+cpu", "2.16.0", "3.0", "my own build"]
)
def test_outside_the_range_the_sentence_names_both(version: str) -> None:
    assert untested_reason(version) == (
        f"torch {version} is outside the tested range (>=2.13,<2.16): "
        "parts of what inductor_debug_jupyter shows may be missing or wrong"
    )


def test_an_untested_torch_is_one_line_a_process(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == "1\n1\n"
    assert [line for line in done.stderr.splitlines() if "2.99" in line] == [untested_reason("2.99.0+cpu")]


def test_this_very_torch_is_a_tested_one() -> None:
    assert untested_reason() is None
