"""Numbers rounded to a format, checked against what torch and whole numbers say."""

from __future__ import annotations

import pytest
import torch

from inductor_debug_jupyter.pipeline.formats.rounding import is_held_in, precision, rounded, rounded_weight, unit

FORMATS = ("tf32", "float16", "bfloat16", "float8_e4m3fn", "int8")


@pytest.mark.parametrize("kind", FORMATS)
def test_rounding_twice_changes_nothing_and_keeps_the_dtype(kind: str) -> None:
    value = torch.randn(64, 33, generator=torch.Generator().manual_seed(0))
    once = rounded(value, kind)
    assert once.dtype == value.dtype
    torch.testing.assert_close(rounded(once, kind), once, rtol=1e-6, atol=1e-7)
    assert not torch.equal(once, value)


def test_tf32_has_ten_bits_behind_the_point_and_rounds_to_even() -> None:
    step = 2.0**-10
    value = torch.tensor([1 + step, 1 + step / 2, 1 + 3 * step / 2, 1 + 0.51 * step, -1 - 0.51 * step, 3e38])
    wanted = torch.tensor([1 + step, 1.0, 1 + 2 * step, 1 + step, -1 - step, 3e38])
    torch.testing.assert_close(rounded(value, "tf32"), wanted, rtol=2**-11, atol=0)
    assert rounded(value, "tf32")[:5].tolist() == wanted[:5].tolist()
    assert rounded(torch.tensor([float("inf"), float("nan")]), "tf32").isfinite().sum() == 0


@pytest.mark.parametrize("kind", ["tf32", "float16", "bfloat16"])
def test_nothing_is_further_off_than_half_a_unit(kind: str) -> None:
    value = torch.randn(4096, generator=torch.Generator().manual_seed(1)) * 8
    error = (rounded(value, kind) - value).abs().double()
    assert bool((error <= unit(value, kind) / 2 * (1 + 1e-6)).all())
    assert float((error / unit(value, kind)).max()) > 0.45
    assert precision(kind) == float(unit(torch.ones(1), kind))


def test_whole_numbers_are_held_in_every_format_and_thirds_in_none() -> None:
    for kind in ("float16", "bfloat16", "tf32"):
        assert is_held_in(torch.arange(128.0), kind)
        assert not is_held_in(torch.tensor([1 / 3]), kind)


def test_int8_weights_have_a_scale_for_each_channel() -> None:
    weight = torch.tensor([[127.0, 1.4], [1.27, 0.014]])
    torch.testing.assert_close(rounded_weight(weight, 0), torch.tensor([[127.0, 1.0], [1.27, 0.01]]))
    torch.testing.assert_close(rounded(weight, "int8"), torch.tensor([[127.0, 1.0], [1.0, 0.0]]))
    assert rounded(torch.zeros(3), "int8").tolist() == [0, 0, 0]
