"""Features of torch and Python, each in a cell that is run plainly and under the magic: nobody can tell the difference.

Compared are what the cell prints, shows and raises, what the user's instruments saw, and what is left behind in the
process: environment, recursion limit, Dynamo's counters, compile times and cache entries, random numbers, filters.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import feature_cells
import proofs
import pytest

_NOISE = (
    (r"[\w/.-]*/ipykernel_\d+/\d+\.py|<ipython-input-[\w-]+>", "<cell>"),  # named after the cell's text
    (r"___torch_mangle_\d+\.", ""),  # TorchScript numbers classes of the same name
    (r"USDT:.*\n?", ""),  # Kineto says when it starts
    (r' *File "[^"]*/inductor_debug_jupyter/.*\n(?:    .*\n)?', ""),  # anomaly mode prints the whole stack
)


def _without_noise(value: Any) -> Any:
    if isinstance(value, str):
        for pattern, replacement in _NOISE:
            value = re.sub(pattern, replacement, value)
        return "\n".join(line for line in value.splitlines() if "# without" not in line)
    return [_without_noise(each) for each in value] if isinstance(value, list | tuple) else value


def _run(kernel: Any, name: str, first_line: str) -> dict[str, Any]:
    """What a user can tell of a cell."""
    parts = [feature_cells.SETUP, feature_cells.LEFT, feature_cells.BEFORE.get(name, "")]
    for part in parts:
        assert not (outcome := kernel.run(part)).error, outcome.traceback
    shown = [kernel.run(f"{first_line}\n{feature_cells.CELLS[name]}").visible()]
    if name in feature_cells.AFTER:
        shown.append(kernel.run(feature_cells.AFTER[name]).visible())
    left = ast.literal_eval(kernel.value("_left()"))
    unasked = feature_cells.NOT_LEFT.get(name, set())
    return {"shown": _without_noise(shown), **{key: value for key, value in left.items() if key not in unasked}}


def _compared(kernel: Any, name: str, options: str) -> None:
    kernel.run("get_ipython().displayhook.flush()")  # a cache that other tests filled warns in one of the two runs
    if name in feature_cells.ONCE:
        _run(kernel, name, "# without")
    plain = _run(kernel, name, "# without")
    debugged = _run(kernel, name, f"%%inductor_debug --no-panel --as session {options}")
    assert debugged == plain


@pytest.mark.parametrize("name", proofs.but_long(feature_cells.CELLS, feature_cells.LONG))
def test_a_cell_behaves_as_without_the_magic(kernel, name):
    _compared(kernel, name, feature_cells.OPTIONS.get(name, "--lower dynamo"))


@pytest.mark.parametrize("name", proofs.but_long(feature_cells.DIFFED, feature_cells.LONG_DIFFED))
def test_a_comparison_is_not_seen_either(kernel, name):
    _compared(kernel, name, "--lower dynamo --diff eager --candidate aot_eager")


def test_strict_does_not_pass_a_call_that_could_not_be_checked(kernel):
    kernel.run(feature_cells.SETUP)
    cell = feature_cells.CELLS["dispatch mode"]
    outcome = kernel.run(f"%%inductor_debug --no-panel --strict --target stick128 --lower dynamo\n{cell}")
    assert outcome.error.startswith("ConstraintViolationError")
    assert "could not be checked" in outcome.error
    assert "the dispatch mode Ops is on" in outcome.error
