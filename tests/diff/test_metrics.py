"""One pair of tensors: every kind gets a verdict and a reason, and the figures are those of a plain computation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from inductor_debug_jupyter.pipeline.diff import (
    DEFAULT_TOLERANCES,
    ComparisonConfig,
    compare_tensors,
    elements,
    tensors_are_close,
)
from inductor_debug_jupyter.pipeline.diff.details import LARGEST, error_heatmap
from inductor_debug_jupyter.pipeline.errors import OptionError

NAN, INF = math.nan, math.inf


def test_equal_tensors_match() -> None:
    x = torch.randn(3, 4)
    result = compare_tensors(x, x.clone())
    assert (result.verdict, result.passed, result.reason) == ("match", True, "")
    assert result.max_absolute_error == result.rmse == result.mismatch_percentage == 0
    assert result.max_error_indices is None
    assert result.elements == 12
    assert "MATCH" in result.summary()


def test_rounding_is_told_from_a_match_and_from_a_mismatch() -> None:
    x = torch.ones(10)
    assert compare_tensors(x, x + 5e-7).verdict == "rounding"
    wrong = x.clone()
    wrong[7] = 1.5
    result = compare_tensors(x, wrong)
    assert result.verdict == "mismatch"
    assert result.max_error_indices == (7,)
    assert (result.reference_value, result.candidate_value) == (1.0, 1.5)
    assert result.mismatch_percentage == pytest.approx(10)
    assert result.max_absolute_error == 0.5
    assert result.mean_absolute_error == pytest.approx(0.05)
    assert result.rmse == pytest.approx(math.sqrt(0.025))
    assert "[7]: 1 against 1.5" in result.reason
    assert f"{result.max_absolute_error:.2e}" == "5.00e-01"


def test_tolerances_are_those_of_torch_testing() -> None:
    from torch.testing._comparison import default_tolerances

    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128):
        rtol, atol = default_tolerances(dtype)
        assert DEFAULT_TOLERANCES[dtype] == (atol, rtol)
        assert ComparisonConfig().tolerances(dtype) == (atol, rtol)
    assert ComparisonConfig().tolerances(torch.int64) == (0, 0)
    assert ComparisonConfig().tolerances(torch.float32, torch.bfloat16) == (1e-5, 1.6e-2)
    assert ComparisonConfig(atol=0.5).tolerances(torch.float32) == (0.5, 1.3e-6)


def test_tolerances_given_in_the_call_count() -> None:
    x = torch.zeros(4)
    assert not tensors_are_close(x, x + 0.01)
    assert tensors_are_close(x, x + 0.01, atol=0.1)
    assert tensors_are_close(x + 1, x + 1.01, rtol=0.1)
    assert tensors_are_close(x, x + 0.01, ComparisonConfig(atol=0.1))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"atol": -1}, "atol=-1"),
        ({"rtol": NAN}, "rtol=nan"),
        ({"atol": INF}, "atol=inf"),
        ({"atol": "1"}, "atol='1'"),
        ({"max_mismatch_percentage": 101}, "max_mismatch_percentage=101; allowed: a number from 0 to 100"),
        ({"equal_nan": 1}, "equal_nan=1; allowed: True or False"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError, match="allowed") as raised:
        ComparisonConfig(**options)
    assert named in str(raised.value)


@pytest.mark.parametrize(
    ("reference", "candidate", "verdict"),
    [
        (torch.tensor(1.0), torch.tensor(1.0), "match"),
        (torch.tensor(1.0), torch.tensor(2.0), "mismatch"),
        (1.0, 1.0, "match"),
        (1, 2, "mismatch"),
        (True, False, "mismatch"),
        (1 + 2j, 1 + 2j, "match"),
        (np.ones(3), np.ones(3), "match"),
        (np.float32(1), np.float32(1), "match"),
        (torch.zeros(0), torch.zeros(0), "not_compared"),
        (torch.zeros(0, 3), torch.zeros(3, 0), "mismatch"),
        (torch.zeros(2, 3), torch.zeros(3, 2), "mismatch"),
        (torch.zeros(3), torch.zeros(3, 1), "mismatch"),
        (torch.zeros(3), torch.zeros(3, dtype=torch.float64), "mismatch"),
        (torch.zeros(3).to_sparse(), torch.zeros(3), "not_compared"),
        (torch.zeros(3), torch.zeros(3, device="meta"), "not_compared"),
        (torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8), torch.ones(2), "mismatch"),
        (*(torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8) for _ in "ab"), "match"),
        (torch.ones(3, dtype=torch.bool), torch.tensor([True, True, False]), "mismatch"),
        (torch.arange(3), torch.arange(3), "match"),
        (torch.arange(6).reshape(2, 3).T, torch.arange(6).reshape(2, 3).T, "match"),
        (torch.ones(1).expand(4, 4), torch.ones(4, 4), "match"),
        (torch.ones(3, requires_grad=True), torch.ones(3), "match"),
        (torch.ones(3, dtype=torch.complex64), torch.ones(3, dtype=torch.complex64) * 1j, "mismatch"),
        (torch.ones(3).to(torch.float8_e4m3fn), (torch.ones(3) * 1.1).to(torch.float8_e4m3fn), "rounding"),
        (torch.ones(3).to(torch.float8_e5m2), (torch.ones(3) * 2).to(torch.float8_e5m2), "mismatch"),
        (torch.ones(3).bfloat16(), torch.ones(3).bfloat16() + 0.01, "rounding"),
        ("text", torch.ones(3), "not_compared"),
        (torch.ones(3), None, "not_compared"),
        (2**70, 2**70, "not_compared"),
        (np.array(["a"]), np.array(["a"]), "not_compared"),
    ],
)
def test_everything_gets_a_verdict(reference: Any, candidate: Any, verdict: str) -> None:
    result = compare_tensors(reference, candidate)
    assert result.verdict == verdict, result.reason
    assert result.passed == (verdict in {"match", "rounding"})
    assert result.reason or verdict == "match"
    assert result.verdict.upper() in result.summary()


def test_a_scalar_has_an_index_too() -> None:
    result = compare_tensors(torch.tensor(1.0), torch.tensor(2.0))
    assert result.max_error_indices == ()
    assert (result.reference_value, result.candidate_value) == (1.0, 2.0)


def test_no_elements_is_no_pass() -> None:
    result = compare_tensors(torch.zeros(0, 3), torch.zeros(0, 3))
    assert "nothing was compared" in result.reason
    assert not tensors_are_close(torch.zeros(0), torch.zeros(0))


def test_other_dtypes_are_compared_all_the_same() -> None:
    half, single = torch.tensor([1.0, 2.0], dtype=torch.float16), torch.tensor([1.0, 2.5])
    result = compare_tensors(half, single)
    assert result.verdict == "mismatch"
    assert result.max_absolute_error == 0.5
    assert "float16 against float32" in result.reason
    allowed = compare_tensors(half, half.float(), ComparisonConfig(check_dtype=False))
    assert allowed.passed
    assert "float16 against float32" in allowed.reason


@pytest.mark.parametrize(
    ("reference", "candidate", "equal_nan", "verdict"),
    [
        ([1.0, NAN], [1.0, NAN], False, "mismatch"),
        ([1.0, NAN], [1.0, NAN], True, "match"),
        ([1.0, NAN], [1.0 + 1e-7, NAN], True, "rounding"),
        ([1.0, 2.0], [1.0, NAN], True, "mismatch"),
        ([1.0, NAN], [1.0, 2.0], True, "mismatch"),
        ([1.0, INF], [1.0, INF], False, "match"),
        ([1.0, INF], [1.0, -INF], False, "mismatch"),
        ([1.0, INF], [1.0, 3.0], False, "mismatch"),
        ([1.0, 3.0], [1.0, INF], False, "mismatch"),
        ([1.0, INF], [1.0, NAN], True, "mismatch"),
    ],
)
def test_nan_and_infinity(reference: list[float], candidate: list[float], equal_nan: bool, verdict: str) -> None:
    for rtol in (None, 0.0, 10.0):
        config = ComparisonConfig(equal_nan=equal_nan, rtol=rtol)
        result = compare_tensors(torch.tensor(reference), torch.tensor(candidate), config)
        if not (verdict == "rounding" and rtol == 0.0):
            assert result.verdict == verdict
        if verdict == "mismatch":
            assert result.max_error_indices == (1,)
            assert result.max_absolute_error == result.rmse == INF
            assert result.largest_finite_error == 0
            assert result.mismatch_percentage == 50
    assert result.reference_nonfinite == sum(not math.isfinite(value) for value in reference)
    assert result.candidate_nonfinite == sum(not math.isfinite(value) for value in candidate)


def test_both_nan_says_what_would_accept_it() -> None:
    x = torch.tensor([NAN])
    assert "equal_nan=True" in compare_tensors(x, x).reason


def test_some_elements_may_be_outside_but_never_a_nan() -> None:
    x = torch.zeros(100)
    y = x.clone()
    y[3] = 1
    allowed = ComparisonConfig(max_mismatch_percentage=1.0)
    assert compare_tensors(x, y).verdict == "mismatch"
    assert compare_tensors(x, y, allowed).verdict == "rounding"
    assert "1%" in compare_tensors(x, y, allowed).reason
    y[3] = NAN
    assert compare_tensors(x, y, allowed).verdict == "mismatch"


def test_relative_errors_leave_zeros_out() -> None:
    result = compare_tensors(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 3.0]))
    assert result.max_relative_error == result.mean_relative_error == 0.5
    assert compare_tensors(torch.zeros(2), torch.ones(2)).max_relative_error == INF
    assert compare_tensors(torch.zeros(2), torch.zeros(2)).max_relative_error == 0


def test_large_integers_are_exact() -> None:
    x = torch.tensor([2**62, 2**53, -(2**63)])
    y = torch.tensor([2**62, 2**53 + 1, 2**63 - 1])
    result = compare_tensors(x, y)
    assert result.mismatch_percentage == pytest.approx(200 / 3)
    assert result.max_absolute_error == 2.0**64
    assert compare_tensors(x[:2], y[:2]).max_absolute_error == 1
    big = torch.tensor([2**63 + 5], dtype=torch.uint64)
    assert compare_tensors(big, big.clone()).verdict == "match"


def _plain(reference: np.ndarray, candidate: np.ndarray, atol: float, rtol: float) -> dict[str, float]:
    """The same figures the long way: everything at once, in float64."""
    one, other = reference.astype(np.float64), candidate.astype(np.float64)
    with np.errstate(all="ignore"):
        equal = one == other
        wild = ~(np.isfinite(one) & np.isfinite(other)) & ~equal
        error = np.where(equal, 0, np.abs(one - other))
        outside = wild | ~(equal | (error <= atol + rtol * np.abs(one)))
        has_relative = (one != 0) & np.isfinite(one) & ~wild
        relative = error[has_relative] / np.abs(one)[has_relative]
    figures = {"mismatch_percentage": 100 * outside.mean()}
    if wild.any():
        return figures | {"max_absolute_error": INF, "rmse": INF, "max_relative_error": INF}
    figures |= {
        "max_absolute_error": error.max(),
        "mean_absolute_error": error.mean(),
        "rmse": math.sqrt((error**2).mean()),
    }
    if len(relative):
        figures |= {"max_relative_error": relative.max(), "mean_relative_error": relative.mean()}
    return figures


_shapes = arrays.array_shapes(min_dims=0, max_dims=4, max_side=6)
_values = st.floats(-1e6, 1e6, width=32) | st.sampled_from([NAN, INF, -INF, 0.0])


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_the_figures_are_those_of_a_plain_computation(data: st.DataObject) -> None:
    shape = data.draw(_shapes)
    reference = data.draw(arrays.arrays(np.float32, shape, elements=_values))
    noise = data.draw(arrays.arrays(np.float32, shape, elements=st.sampled_from([0, 1e-6, 1, NAN]) | _values))
    with np.errstate(all="ignore"):
        candidate = reference + noise
    order = data.draw(st.permutations(range(len(shape))))
    one, other = (torch.from_numpy(np.array(array)).permute(order) for array in (reference, candidate))
    chunk = data.draw(st.integers(1, 50))
    expected = _plain(reference.transpose(order), candidate.transpose(order), 1e-3, 1e-4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elements, "CHUNK", chunk)
        result = compare_tensors(one, other, atol=1e-3, rtol=1e-4)
        heatmap = error_heatmap(one, other)
    for name, value in expected.items():
        assert getattr(result, name) == pytest.approx(value, rel=1e-9), name
    assert result.passed == (expected["mismatch_percentage"] == 0)
    assert heatmap is not None
    known = [value for value in heatmap.values if value is not None]
    if None not in heatmap.values:
        assert max(known) == pytest.approx(result.max_absolute_error, rel=1e-3)
    if result.max_error_indices is not None and math.isfinite(result.max_absolute_error):
        at = result.max_error_indices
        assert abs(float(one[at]) - float(other[at])) == result.max_absolute_error


def test_pieces_are_small_whatever_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "CHUNK", 100)
    for shape in [(1000,), (1, 1000), (7, 3, 50), (3, 300), (40, 1, 9)]:
        x = torch.randn(shape)
        found = list(elements.pieces(x, x * 2, equal_nan=False))
        assert max(len(piece.error) for piece in found) <= 100
        assert [piece.offset for piece in found] == list(np.cumsum([0, *(len(p.error) for p in found[:-1])]))
        torch.testing.assert_close(torch.cat([piece.error for piece in found]), x.double().abs().reshape(-1))


@pytest.mark.parametrize("shape", [(), (5,), (500,), (7, 9), (300, 200), (4, 5, 6, 50), (1, 100_000)])
def test_a_heatmap_is_small_and_keeps_the_worst(shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape)
    y = x.clone()
    y.view(-1)[y.numel() // 2] = 3
    heatmap = error_heatmap(x, y)
    assert heatmap is not None
    assert max(heatmap.rows, heatmap.columns) <= LARGEST
    assert len(heatmap.values) == heatmap.rows * heatmap.columns
    assert sorted(v for v in heatmap.values if v) == [3]
    position = y.numel() // 2
    tall, wide = (
        -(-full // small)
        for full, small in ((heatmap.full_rows, heatmap.rows), (heatmap.full_columns, heatmap.columns))
    )
    row, column = divmod(position, heatmap.full_columns)
    assert heatmap.values[row // tall * heatmap.columns + column // wide] == 3


def test_a_heatmap_marks_what_is_not_finite() -> None:
    heatmap = error_heatmap(torch.zeros(2, 2), torch.tensor([[NAN, 0], [1, INF]]))
    assert heatmap is not None
    assert heatmap.values == (None, 0.0, 1.0, None)
    assert error_heatmap(torch.zeros(0), torch.zeros(0)) is None
    assert error_heatmap(torch.zeros(2), torch.zeros(3)) is None


def test_what_was_compared_in_inference_mode_does_not_matter_later() -> None:
    one, other = torch.ones(1234), torch.zeros(1234, dtype=torch.float64)  # of two dtypes: not for the native library
    with torch.inference_mode():
        assert compare_tensors(one, other).max_absolute_error == 1.0
    assert compare_tensors(one, other).max_absolute_error == 1.0
    assert compare_tensors(one[:100], other[:100]).mean_absolute_error == 1.0


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors_are_not_compared_and_it_is_said(layout):
    nested = torch.nested.nested_tensor([torch.ones(3), torch.ones(4)], layout=layout)
    for pair in ((nested, nested), (nested, torch.ones(3)), (torch.ones(3), nested)):
        result = compare_tensors(*pair)
        assert (result.verdict, result.passed) == ("not_compared", False)
        assert "nested tensor" in result.reason


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64])
@pytest.mark.parametrize("size", [3e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("wrong", [0.0, 0.9, 1.1])
def test_small_numbers_do_not_pass_for_being_small(dtype: torch.dtype, size: float, wrong: float) -> None:
    reference = (torch.rand(100, dtype=torch.float64) + 0.5).mul(size).to(dtype)
    candidate = (reference.to(torch.complex128 if dtype.is_complex else torch.float64) * wrong).to(dtype)
    exact = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    if 0.1 * size > 2 * exact:
        assert compare_tensors(reference, candidate).verdict == "mismatch"
        assert not tensors_are_close(reference, candidate)
    assert tensors_are_close(reference, candidate, atol=size * 2), "the user's own tolerance is the user's word"
    assert tensors_are_close(reference, reference * (1 + torch.finfo(dtype).eps))


def test_beside_a_zero_reference_the_usual_tolerance_holds() -> None:
    found = compare_tensors(torch.zeros(8), torch.full((8,), 1e-6))
    assert (found.verdict, found.atol) == ("rounding", 1e-5)
    assert compare_tensors(torch.ones(8), torch.ones(8) + 1e-6).atol == 1e-5
