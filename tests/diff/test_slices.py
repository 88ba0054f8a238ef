"""Any part of two tensors, in any measure, pooled or element by element."""

from __future__ import annotations

import pytest
import torch

from inductor_debug_jupyter import KernelDiffHarness
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.errors import NotFoundError, OptionError

REFERENCE = torch.ones(2, 3, 200, 300)
CANDIDATE = REFERENCE.clone()
CANDIDATE[1, 2, 150, 299] = -2.0
CANDIDATE[1, 2, 3, 4] = float("nan")
CANDIDATE[0, 0, 7, 8] = 1 + 2**-23
PAIRS = LivePairs({"y": (REFERENCE, CANDIDATE)})


def test_a_plane_of_four_dimensions_is_pooled_and_keeps_its_worst() -> None:
    part = PAIRS.look("y", at=(1, 2, 0, 0))
    assert (part["rows"], part["columns"], part["tall"], part["wide"]) == (67, 75, 3, 4)
    assert part["values"][150 // 3 * 75 + 299 // 4] == 3.0
    assert part["values"][1 * 75 + 1] is None
    assert sum(value != 0 for value in part["values"]) == 2
    assert part["elements"] == []


def test_other_dimensions_other_measures() -> None:
    signed = PAIRS.look("y", measure="signed", at=(1, 2, 150, 0), rows=1, columns=3)
    assert (signed["full_rows"], signed["full_columns"]) == (3, 300)
    assert min(value for value in signed["values"] if value is not None) == -3.0
    turned = PAIRS.look("y", at=(1, 2), rows=3, columns=2)
    assert (turned["full_rows"], turned["full_columns"]) == (300, 200)
    assert PAIRS.look("y", measure="relative", at=(1, 2))["values"][150 // 3 * 75 + 74] == 3.0
    assert max(PAIRS.look("y", measure="ulp")["values"]) == 1.0


def test_a_small_window_is_told_element_by_element() -> None:
    part = PAIRS.look("y", at=(1, 2), window=(148, 296, 5, 9))
    assert (part["rows"], part["columns"], part["tall"]) == (5, 4, 1)
    assert [150, 299, "1", "-2"] in part["elements"]
    assert len(part["elements"]) == 20


def test_bad_wishes_get_one_line() -> None:
    with pytest.raises(NotFoundError, match="not kept"):
        PAIRS.look("z")
    with pytest.raises(OptionError, match="measure='odd'; allowed: absolute, signed, relative, ulp"):
        PAIRS.look("y", measure="odd")
    with pytest.raises(OptionError, match="two different dimensions from 0 to 3"):
        PAIRS.look("y", rows=3)
    with pytest.raises(OptionError, match="a part of 200 × 300"):
        PAIRS.look("y", window=(500, 0, 1, 1))


def test_a_report_keeps_the_tensors_of_what_differs() -> None:
    def off(graph_module: torch.fx.GraphModule, _: object):
        return lambda *args: [out + (at == 0) for at, out in enumerate(graph_module(*args))]

    report = KernelDiffHarness(lambda x: (x * 2, x * 3), (torch.ones(5),), test_backend=off).compare()
    assert set(report.pairs.pairs) == {"[0]"}
    assert report.pairs.look("[0]")["values"] == [1.0] * 5
    output = report.outputs[0]
    assert output.worst[0].reference == "2"
    assert output.histogram
    assert output.quantiles[0] == (0.5, 1.0)
