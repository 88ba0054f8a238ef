"""200 cases (a sample without --long) of ``compare_tensors`` against plain numpy, on both ways through the tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proofs import draws

from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, compare_tensors, portable
from inductor_debug_jupyter.pipeline.diff.native import LIBRARY

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
COMPLEX = (torch.complex64, torch.complex128)
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, 3e38)


def plain(reference: np.ndarray, candidate: np.ndarray, atol: float, rtol: float, equal_nan: bool) -> dict[str, Any]:
    """Every figure the long way: all at once, in float64 (or complex128)."""
    with np.errstate(all="ignore"):
        equal = reference == candidate
        both_nan = np.isnan(reference) & np.isnan(candidate)
        if equal_nan:
            equal = equal | both_nan
        finite = np.isfinite(reference) & np.isfinite(candidate)
        wild = ~finite & ~equal
        error = np.where(equal, 0.0, np.abs(reference - candidate))
        size = np.abs(reference)
        tame, sizes, errors = finite, size[finite], error[finite]
        outside = wild | (~equal & ~(error <= atol + rtol * size))
        nonzero = sizes > 0
        relative = errors[nonzero] / sizes[nonzero]
        one, other = reference[tame], candidate[tame]
        pp, qq = float((np.abs(one) ** 2).sum()), float((np.abs(other) ** 2).sum())
        pq = float((np.conj(one) * other).real.sum())
    found: dict[str, Any] = {
        "mismatch_percentage": 100 * outside.mean(),
        "reference_nonfinite": int((~np.isfinite(reference)).sum()),
        "candidate_nonfinite": int((~np.isfinite(candidate)).sum()),
        "largest_finite_error": errors.max(initial=0.0),
    }
    if not math.isinf(pp) and not math.isinf(qq):
        length = math.sqrt(pp) * math.sqrt(qq)
        found["cosine"] = pq / length if length else float(pp == qq)
    if wild.any():
        return found | dict.fromkeys(("max_absolute_error", "rmse", "smallest_atol"), math.inf)
    needed = np.where(errors > atol, (errors - atol) / np.where(sizes == 0, math.nan, sizes), 0.0)
    return found | {
        "max_absolute_error": errors.max(initial=0.0),
        "mean_absolute_error": error.mean(),
        "rmse": math.sqrt((error**2).mean()),
        "smallest_atol": (errors - rtol * sizes).max(initial=0.0),
        "smallest_rtol": math.inf if np.isnan(needed).any() else needed.max(initial=0.0),
        **({"max_relative_error": relative.max(), "mean_relative_error": relative.mean()} if len(relative) else {}),
    }


def wide(tensor: torch.Tensor) -> np.ndarray:
    dtype = torch.complex128 if tensor.is_complex() else torch.float64
    return tensor.to(dtype).numpy()


@st.composite
def pairs(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of one shape: any dtype, any strides, noise, other values, and what is not finite."""
    dtype = draw(st.sampled_from((*FLOATS, *INTEGERS, *COMPLEX)))
    shape = tuple(draw(st.lists(st.integers(1, 9), max_size=4)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    scale = draw(st.sampled_from((1e-3, 1.0, 100.0)))
    noise = draw(st.sampled_from((0.0, 1e-6, 1e-3, 1.0)))
    working = torch.complex128 if dtype.is_complex else torch.float64
    reference = torch.randn(shape, generator=generator, dtype=working) * scale
    candidate = reference * (1 + noise * torch.randn(shape, generator=generator, dtype=torch.float64))
    if dtype in FLOATS:
        for tensor in (reference, candidate):
            for _ in range(draw(st.integers(0, 3))):
                tensor.view(-1)[draw(st.integers(0, tensor.numel() - 1))] = draw(st.sampled_from(SPECIAL))
    if dtype == torch.bool:
        reference, candidate = reference > 0, candidate > 0
    elif dtype in INTEGERS:
        reference, candidate = (each.clamp(0, 120).round() for each in (reference, candidate))
    order = draw(st.permutations(range(len(shape))))
    one, other = (each.to(dtype).permute(order) for each in (reference, candidate))
    return (one, other.contiguous()) if draw(st.booleans()) else (one, other)


@settings(max_examples=draws(200, 40), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(), st.booleans(), st.sampled_from(((0.0, 0.0), (1e-3, 1e-4), (1.0, 0.0), (0.0, 0.5))), st.integers(1, 40))
def test_every_figure_is_that_of_a_plain_computation(
    pair: tuple[torch.Tensor, torch.Tensor], equal_nan: bool, tolerances: tuple[float, float], chunk: int
) -> None:
    reference, candidate = pair
    config = ComparisonConfig(*tolerances, equal_nan=equal_nan)
    expected = plain(wide(reference), wide(candidate), *tolerances, equal_nan)
    assert LIBRARY.wait(), LIBRARY.why_not
    with pytest.MonkeyPatch.context() as patch:
        results = [compare_tensors(reference, candidate, config, details=True)]
        patch.setattr(LIBRARY, "_functions", {})
        patch.setattr(portable, "CHUNK", chunk)
        results.append(compare_tensors(reference, candidate, config, details=True))
    for result in results:
        for name, value in expected.items():
            assert getattr(result, name) == pytest.approx(value, rel=1e-9, abs=1e-300), name
        assert result.passed == (expected["mismatch_percentage"] == 0)
    native, slow = results
    assert (native.verdict, native.reason, native.signed_zeros) == (slow.verdict, slow.reason, slow.signed_zeros)
    assert native.reference_nonfinite_kinds == slow.reference_nonfinite_kinds
    assert native.details is not None
    check_details(native, wide(reference), wide(candidate))


def check_details(result: Any, reference: np.ndarray, candidate: np.ndarray) -> None:
    details = result.details
    worst = details.worst
    assert [place.error for place in worst] == sorted((place.error for place in worst), reverse=True)
    if worst and math.isfinite(worst[0].error):
        assert worst[0].error == pytest.approx(result.largest_finite_error)
    for place in worst:
        assert complex(reference[place.index]) == complex(place.reference) or place.reference != place.reference
    total = sum(each.count for each in details.histogram)
    assert total + sum(math.isinf(place.error) for place in worst) >= min(total, result.elements)
    if result.max_error_indices is None:
        assert all(error == 0 for _, error in details.quantiles)


@pytest.mark.parametrize("dtype", [*FLOATS[:4], torch.float8_e4m3fn])
def test_neighbouring_numbers_are_one_unit_in_the_last_place_apart(dtype: torch.dtype) -> None:
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    x = torch.tensor([1.0, -2.0, 0.5]).to(dtype)
    y = (x.view(bits) + torch.tensor([1, 3, 0], dtype=bits)).view(dtype)
    details = compare_tensors(x, y, details=True).details
    assert details is not None
    assert details.max_ulp == 3
    assert details.mean_ulp == pytest.approx(4 / 3)
    zeros = compare_tensors(torch.zeros(1).to(dtype), (-torch.zeros(1)).to(dtype), details=True)
    assert (zeros.verdict, zeros.signed_zeros) == ("match", 1)
    assert zeros.details is not None
    assert zeros.details.max_ulp == 0


def test_quantiles_of_many_elements_are_right_to_a_hundredth() -> None:
    torch.manual_seed(0)
    x = torch.randn(300_000, dtype=torch.float64)
    errors = torch.rand_like(x)
    details = compare_tensors(x, x + errors, details=True).details
    assert details is not None
    found = (x + errors - x).abs().sort().values
    for share, error in details.quantiles:
        assert error == pytest.approx(float(found[math.ceil(share * len(x)) - 1]), rel=0.02)
    assert sum(each.count for each in details.histogram) == len(x)


def test_the_worst_places_and_those_that_are_not_finite_are_named() -> None:
    x = torch.zeros(3, 100)
    y = x.clone()
    y[1, 5], y[2, 7], y[0, 9] = 3.0, -5.0, math.nan
    details = compare_tensors(x, y, details=True).details
    assert details is not None
    assert [place.index for place in details.worst] == [(0, 9), (2, 7), (1, 5)]
    assert (details.worst[1].reference, details.worst[1].candidate, details.worst[1].error) == (0.0, -5.0, 5.0)
    assert [place.index for place in details.nonfinite] == [(0, 9)]
    assert "not finite       [0, 9]: 0 against nan" in compare_tensors(x, y, details=True).summary()


def test_the_smallest_tolerance_passes_and_a_smaller_one_does_not() -> None:
    torch.manual_seed(0)
    x = torch.randn(1000, dtype=torch.float64)
    y = x + 0.01 * torch.randn(1000, dtype=torch.float64)
    first = compare_tensors(x, y, atol=1e-4, rtol=1e-3)
    assert compare_tensors(x, y, atol=first.smallest_atol * (1 + 1e-9), rtol=1e-3).passed
    assert not compare_tensors(x, y, atol=first.smallest_atol * 0.999, rtol=1e-3).passed
    assert compare_tensors(x, y, atol=1e-4, rtol=first.smallest_rtol * (1 + 1e-9)).passed
    assert not compare_tensors(x, y, atol=1e-4, rtol=first.smallest_rtol * 0.999).passed


def test_channels_last_and_expanded_tensors_keep_their_indices() -> None:
    x = torch.randn(2, 3, 40, 50).to(memory_format=torch.channels_last)
    y = x.clone(memory_format=torch.channels_last)
    y[1, 2, 3, 4] += 1
    for candidate in (y, y.contiguous()):
        assert compare_tensors(x, candidate).max_error_indices == (1, 2, 3, 4)
    wide_, narrow = torch.ones(1).expand(300, 200), torch.ones(300, 200)
    narrow[299, 199] = 2
    assert compare_tensors(wide_, narrow).max_error_indices == (299, 199)
