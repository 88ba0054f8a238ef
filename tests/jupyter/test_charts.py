"""What charts say beside their curves."""

from __future__ import annotations

from itertools import pairwise

import pytest

from inductor_debug_jupyter.jupyter.panel.charts import whole_ticks


@pytest.mark.parametrize("last", [0, 1, 4, 9, 10, 11, 99, 953, 100_000])
def test_ticks_of_an_axis_that_counts_are_whole_numbers_and_few(last: int) -> None:
    ticks = whole_ticks(last)
    assert ticks[0] == 0
    assert 1 <= len(ticks) <= 10
    assert last - (ticks[1] - ticks[0] if len(ticks) > 1 else 1) < ticks[-1] <= last
    assert len({after - before for before, after in pairwise(ticks)}) <= 1
