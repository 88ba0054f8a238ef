"""Ctrl-C in a real kernel, as Run All meets it, at chosen moments and at one random one of each kind of cell.

``interrupts.py`` has more of these.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import proofs
import pytest

from .interrupts import KINDS, Target

pytestmark = pytest.mark.timeout(280)

STRUCK = proofs.draws(tuple(KINDS), ("capture", "diff", "isolate"))
SLOW = """
import pathlib, time
def backend(gm, inputs):
    pathlib.Path("comparing").touch()
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interrupts")


@pytest.fixture(scope="module")
def target(folder: Path) -> Iterator[Target]:
    (folder / "slow.py").write_text(SLOW)
    made = Target(str(folder), STRUCK)
    yield made
    made.close()


@pytest.mark.parametrize("end", ["", "\nimport asyncio\nawait asyncio.sleep(0)"], ids=["plain", "await"])
def test_a_comparison_that_is_stopped_stops_run_all(target: Target, folder: Path, end: str) -> None:
    """Also in a cell with ``await``, around which ipykernel has a handler that raises nothing."""
    cell = f"%%inductor_debug --diff --candidate slow:backend --lower dynamo --as session\nnet(x){end}"
    assert target.run_all(cell, when=folder / "comparing") == ("error", "KeyboardInterrupt", "aborted")
    assert target.kernel.value("(len(session.captures), session.record.diff, ran, changed())") == "(1, None, [], {})"


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "failed"])
def test_a_cell_that_is_stopped_or_fails_is_not_compared(target: Target, folder: Path, is_stopped: bool) -> None:
    end = "open('inside', 'w').close(); import time; time.sleep(60)" if is_stopped else "raise ValueError"
    error = "KeyboardInterrupt" if is_stopped else "ValueError"
    cell = f"%%inductor_debug --diff --candidate slow:backend --lower dynamo --as session\nnet(x)\n{end}"
    assert target.run_all(cell, when=folder / "inside" if is_stopped else None) == ("error", error, "aborted")
    assert not (folder / "comparing").exists()
    assert target.kernel.value("(len(session.captures), session.record.diff, ran)") == "(1, None, [])"


@pytest.mark.parametrize("kind", STRUCK)
def test_a_strike_at_a_random_moment_leaves_nothing_changed(target: Target, kind: str) -> None:
    assert target.strike(kind, random.Random(kind).random()).wrong == ()
