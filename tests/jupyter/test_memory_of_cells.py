"""What is kept of a cell that ran, and goes when the cell runs again. All of it: ``memory_of_cells.py --all``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .conftest import Kernel
from .memory_of_cells import SETUP, growth

SESSIONS = (
    "[gc.collect() for _ in range(3)] and sum(type(each).__name__ == 'DebugSession' for each in gc.get_objects())"
)


@pytest.fixture(scope="module")
def running(shared_kernel: Kernel) -> Iterator[Kernel]:
    """The shared kernel, with what the cells need."""
    assert not shared_kernel.run(SETUP).error
    yield shared_kernel
    shared_kernel.run("del s")


@pytest.mark.long
def test_replaced_panels_close_all_their_widgets(running: Kernel) -> None:
    rows = growth(running, 20)
    assert rows[-1][3] == rows[9][3], "widgets"
    assert rows[-1][2] - rows[9][2] < 1000, "objects that Python's collector knows, for ten cells"


def test_a_replaced_panel_lets_go_of_its_session_and_its_inputs(running: Kernel) -> None:
    cell = "%%inductor_debug --lower dynamo\nlarge = nn.ReLU()\n_ = large(torch.ones(1 << 22))"
    running.run(cell, cell_id="large")
    before = running.value(SESSIONS)
    running.run(cell, cell_id="large")
    running.run(cell, cell_id="large")
    assert running.value(SESSIONS) == before
    running.run(cell)
    running.run(cell)
    assert int(running.value(SESSIONS)) == int(before) + 1, "without an id the text tells that it is the same cell"


LARGE = "--lower dynamo --diff --candidate aot_eager --as s\nlarge(torch.ones(256, 1 << 14)).sum()"
"""16 MB."""


@pytest.fixture
def small_budget(running: Kernel) -> Iterator[int]:
    """40 MB for kept inputs, and what the process has beside."""
    running.run("from inductor_debug_jupyter.jupyter.cells import KEPT_INPUTS; KEPT_INPUTS.limit = 40 << 20")
    running.run("large, sessions = nn.ReLU(), []")
    running.run(f"%%inductor_debug {LARGE}", cell_id="large")
    running.run("s = None", cell_id="large")
    yield int(running.value("kept()[0]")) + (40 << 20)
    running.run("KEPT_INPUTS.limit = 1 << 30; del sessions")


def test_comparisons_and_what_ifs_stay_within_the_budget_of_the_kernel(running: Kernel, small_budget: int) -> None:
    slack = 12 << 20
    for number in range(6):
        outcome = running.run(f"%%inductor_debug {LARGE}", cell_id=f"large {number % 3}")
        assert not outcome.error
        running.run("sessions.append(s)")
    assert running.value("s.record.diff.verdict") == "'match'"
    assert int(running.value("kept()[0]")) < small_budget + slack, "six times 16 MB"
    for number in range(6):
        assert not running.run(f"_ = s.try_out(batch={300 + number})").error
    assert running.value("len(s.trials), s.has_inputs") == "(6, True)"
    assert int(running.value("kept()[0]")) < small_budget + slack, "six times 19 MB more"


def test_a_session_of_the_users_goes_on_when_its_panel_is_gone(running: Kernel) -> None:
    running.run("%%inductor_debug --lower dynamo --as mine\nnet(x)", cell_id="mine")
    running.run("panel = mine.panel(); panel", cell_id="shows")
    running.run("panel", cell_id="shows")
    assert running.value("panel.is_closed") == "False", "shown again by the same cell"
    running.run("1", cell_id="mine")
    running.run("1", cell_id="shows")
    assert running.value("panel").startswith("this panel is gone: its cell ran again")
    assert running.value("mine.diff(candidate='eager').verdict") == "'match'"
    assert running.value("type(mine.panel()).__name__") == "'DebugPanel'"


def test_a_panel_whose_comm_the_front_end_closes_is_closed(running: Kernel) -> None:
    running.run("%%inductor_debug --lower dynamo --as mine\nnet(x)", cell_id="mine")
    running.run("panel = mine.panel(); before = kept()[2]", cell_id="made")
    running.run("panel.comm.handle_close({})", cell_id="closed")
    assert running.value("panel.is_closed, kept()[2] < before") == "(True, True)"


@pytest.mark.parametrize(
    ("cell", "closed"),
    [
        ("display(one); clear_output(); display(two)", "(True, False)"),
        ("display(one); clear_output()", "(True, False)"),
        ("display(one); clear_output(wait=True); display(two)", "(True, False)"),
        ("display(one); clear_output(wait=True); display('text')", "(True, False)"),
        ("display(one); clear_output(wait=True)", "(False, False)"),
        ("display(one); clear_output(); display(one)", "(False, False)"),
        ("display(one); clear_output(wait=True); display(one)", "(False, False)"),
        ("display(one)\nwith out: clear_output()", "(False, False)"),
        ("with out: display(one)\ndisplay(two); clear_output()", "(False, True)"),
    ],
)
def test_a_panel_that_its_cell_clears_away_is_closed(running: Kernel, cell: str, closed: str) -> None:
    running.run("%%inductor_debug --lower dynamo --no-panel --as mine\nnet(x)")
    running.run("from IPython.display import clear_output, display\nfrom ipywidgets import Output")
    running.run("one, two, out = mine.panel(), mine.panel(), Output()")
    assert not (outcome := running.run(cell, cell_id="clears")).error, outcome.traceback
    assert running.value("one.is_closed, two.is_closed") == closed
    running.run("one.close(); two.close(); out.close()")


def test_panels_of_the_magic_that_a_loop_clears_away_are_closed_at_once(running: Kernel) -> None:
    running.run("1", cell_id="loop")
    before = int(running.value("kept()[2]"))
    loop = (
        "from IPython.display import clear_output\nfor number in range(4):\n    clear_output(wait=True)\n"
        "    %inductor_debug --lower dynamo net(x)\n    counts = [] if number == 0 else counts\n"
        "    counts.append(kept()[2])"
    )
    assert not (outcome := running.run(loop, cell_id="loop")).error, outcome.traceback
    assert running.value("len(counts), len(set(counts)), counts[0] > " + str(before)) == "(4, 1, True)"
    running.run("1", cell_id="loop")
    assert int(running.value("kept()[2]")) == before


@pytest.mark.parametrize("make", ["nn.Linear(8, 8)", "nn.Sequential(nn.Linear(8, 8))", "Net()"])
def test_a_model_that_the_cell_deletes_is_gone_at_once(running: Kernel, make: str) -> None:
    outcome = running.run(
        "%%inductor_debug --no-panel --lower aot --as mine\nimport weakref\ngc.disable()\n"
        f"model = {make}\nseen = weakref.ref(model)\nmodel(torch.ones(1, 16 if {make!r} == 'Net()' else 8))\n"
        "del model\nprint(seen() is None)\ngc.enable()"
    )
    assert outcome.stdout.splitlines()[0] == "True", outcome.stderr
    assert "is gone: keep it in a variable" in running.run("mine.diff()").error
