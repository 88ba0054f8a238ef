"""Figures that porters quote, and what a user requires of them."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest
import torch

from inductor_debug_jupyter import ComparisonConfig, KernelDiffHarness, compare_tensors
from inductor_debug_jupyter.pipeline.diff.gates import Gate
from inductor_debug_jupyter.pipeline.diff.native import DTYPES, LIBRARY
from inductor_debug_jupyter.pipeline.diff.outputs import compare_outputs
from inductor_debug_jupyter.pipeline.errors import OptionError


def _pair(size: int = 5000, mean: float = 0.0, noise: float = 1e-2) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    reference = torch.randn(size, generator=generator, dtype=torch.float64) + mean
    return reference, reference + noise * torch.randn(size, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("mean", [0.0, -3.0, 1e4])
@pytest.mark.parametrize("noise", [1e-6, 1e-2, 1.0, 30.0])
@pytest.mark.parametrize("size", [7, 5000, 300_000])
def test_pearsons_correlation_is_numpys(mean: float, noise: float, size: int) -> None:
    reference, candidate = _pair(size, mean, noise)
    expected = numpy.corrcoef(reference.numpy(), candidate.numpy())[0, 1]
    assert LIBRARY.wait()
    assert DTYPES[torch.float64] == "float64"
    for sides in ((reference, candidate), (reference[::1].unsqueeze(0), candidate.unsqueeze(0))):
        found = compare_tensors(*sides).pcc
        assert 1 - found == pytest.approx(1 - expected, rel=1e-4, abs=1e-12)
    infinite = torch.cat([reference, torch.tensor([math.inf], dtype=torch.float64)])  # element by element
    found = compare_tensors(infinite, torch.cat([candidate, infinite[-1:]])).pcc
    assert 1 - found == pytest.approx(1 - expected, rel=1e-4, abs=1e-12)


def test_the_portable_way_gives_the_same_correlation(monkeypatch: pytest.MonkeyPatch) -> None:
    reference, candidate = _pair(mean=2.0)
    fast = compare_tensors(reference, candidate).pcc
    monkeypatch.setattr(LIBRARY, "_functions", {})
    assert compare_tensors(reference, candidate).pcc == pytest.approx(fast, rel=1e-12)
    assert compare_tensors(reference.float(), candidate).pcc == pytest.approx(fast, rel=1e-6)
    turned = -candidate
    assert compare_tensors(reference, turned).pcc == pytest.approx(-fast, rel=1e-9)


def test_a_correlation_with_a_constant_is_not_known_and_no_pass() -> None:
    constant = torch.full((100,), 1000.1)
    found = compare_tensors(constant, constant * (1 + 1e-7), require_pcc(0.9))
    assert math.isnan(found.pcc)
    assert found.verdict == "not_compared"
    assert "pcc not known, required at least 0.9" in found.reason
    assert compare_tensors(constant, constant.clone(), require_pcc(1.0)).verdict == "match"


def test_what_misses_a_gate_by_little_is_not_written_as_if_it_met_it() -> None:
    gate = Gate("pcc", 0.99999999)
    assert gate.text(0.9999999) == "pcc 0.9999999, required at least 0.99999999"
    assert gate.text(0.5) == "pcc 0.5, required at least 0.99999999"


def require_pcc(limit: float, **more: Any) -> ComparisonConfig:
    return ComparisonConfig(require={"pcc": limit}, **more)


def test_units_in_the_last_place_have_a_median_and_a_tail() -> None:
    reference = torch.linspace(1.0, 1.5, 4001)
    steps = torch.ones(4001, dtype=torch.int32) * 2
    steps[:4] = 1000
    candidate = (reference.view(torch.int32) + steps).view(torch.float32)
    details = compare_tensors(reference, candidate, details=True).details
    assert details is not None
    assert details.max_ulp == 1000
    assert details.ulp_quantiles == ((0.5, 2.0), (0.999, 2.0))


@pytest.mark.parametrize(
    ("require", "missed"),
    [
        ("pcc=0.9999", ()),
        (
            "pcc=0.999999",
            (
                "pcc 0.9999",
                " required at least 0.999999",
            ),
        ),
        ("sqnr=30dB, cosine=0.9", ()),
        ("sqnr=50", ("sqnr 40.", " required at least 50 dB")),
        ({"rmse": 1.0, "max_error": 1.0}, ()),
        ({"max_error": 1e-3}, ("max_error 0.0", "required at most 0.001")),
        (["ulp=3"], ("ulp ", "required at most 3")),
    ],
)
def test_a_missed_gate_is_a_mismatch_that_says_which(require: Any, missed: tuple[str, ...]) -> None:
    found = compare_tensors(*_pair(), ComparisonConfig(atol=1.0, rtol=0.0, require=require))
    assert found.verdict == ("mismatch" if missed else "rounding")
    assert len(found.missed_gates) == bool(missed)
    assert all(part in found.reason for part in missed)


@pytest.mark.parametrize(
    ("require", "line"),
    [
        ("pxc=0.9", "require='pxc=0.9': there is no gate 'pxc'; did you mean pcc?"),
        ("pcc", "require='pcc': pcc needs a number; allowed: gates such as pcc=0.99,sqnr=40dB"),
        ("pcc=40dB", "require='pcc=40dB': pcc needs a number; allowed: gates such as pcc=0.99,sqnr=40dB"),
        ({"sqnr": True}, "require={'sqnr': True}: sqnr needs a number; allowed: gates such as pcc=0.99,sqnr=40dB"),
        (3, "require=3; allowed: a limit for each of pcc, cosine, sqnr, max_error, rmse, ulp, or for a function"),
    ],
)
def test_a_bad_gate_is_one_clear_line(require: Any, line: str) -> None:
    with pytest.raises(OptionError) as raised:
        ComparisonConfig(require=require)
    assert str(raised.value) == line


def test_a_function_of_the_users_is_a_gate_and_what_it_raises_no_pass() -> None:
    def agreement(reference: torch.Tensor, candidate: torch.Tensor) -> float:
        return float((reference.sign() == candidate.sign()).double().mean())

    def broken(reference: torch.Tensor, candidate: torch.Tensor) -> float:
        raise RuntimeError("no such thing")

    loose = {"atol": 1.0, "rtol": 0.0}
    reference, candidate = _pair(noise=0.1)
    assert compare_tensors(reference, candidate, ComparisonConfig(**loose, require={agreement: 0.9})).passed
    missed = compare_tensors(reference, candidate, ComparisonConfig(**loose, require={agreement: 0.9999}))
    assert missed.verdict == "mismatch"
    assert missed.missed_gates[0].startswith("agreement 0.9")
    untold = compare_tensors(reference, candidate, ComparisonConfig(**loose, require={broken: 1.0}))
    assert untold.verdict == "not_compared"
    assert "broken not known, required at least 1 (it raised RuntimeError: no such thing)" in untold.reason


class _Deep(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"hidden": (x @ x.T).softmax(-1) @ x, "loss": (x @ x.T).mean(), "best": x.argmax(-1)}


def test_what_rounding_explains_is_still_held_to_the_gates() -> None:
    inputs = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    plain = KernelDiffHarness(_Deep(), inputs, test_backend="stick128").compare()
    assert plain.passed
    config = ComparisonConfig(require="sqnr=100dB,pcc=0.9")
    harness = KernelDiffHarness(_Deep(), inputs, test_backend="stick128", comparison_config=config)
    report = harness.compare()
    hidden = next(output for output in report.outputs if output.path == "hidden")
    assert report.verdict == hidden.verdict == "mismatch"
    assert [each.partition(" ")[0] for each in hidden.missed_gates] == ["sqnr"]
    assert "as float16 gives it" in hidden.reason
    assert "sqnr" in str(report)
    assert "pcc" in str(report)
    assert not harness.localize().culprits
    assert "pcc has no meaning for one element" in next(o for o in report.outputs if o.path == "loss").reason
    assert (
        KernelDiffHarness(
            _Deep(), inputs, test_backend="stick128", comparison_config=ComparisonConfig(require="sqnr=40dB,pcc=0.99")
        )
        .compare()
        .passed
    )


def test_whole_numbers_have_no_gates() -> None:
    (output,) = compare_outputs(torch.arange(3), torch.arange(3), require_pcc(1.0))
    assert output.verdict == "match"


@pytest.mark.parametrize("values", [math.nan, math.inf])
def test_without_a_finite_pair_nothing_is_correlated(values: float) -> None:
    found = compare_tensors(torch.randn(8), torch.full((8,), values), ComparisonConfig(require="pcc=0.9,sqnr=40dB"))
    assert all(map(math.isnan, (found.pcc, found.cosine, found.signal_to_noise)))
    assert not found.passed
