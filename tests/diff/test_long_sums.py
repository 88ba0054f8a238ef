"""Long sums: a wrong one is never rounding, and one that is added up term by term always is."""

from __future__ import annotations

import numpy
import pytest
import torch
from planted import wrong

from inductor_debug_jupyter import KernelDiffHarness

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

SUMS = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
}
FAULTS = (0.0, -1.0, 1.1, 2.0, 5.0)


@pytest.mark.every(4)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("terms", [100, 10_000, 300_000])
def test_a_wrong_sum_is_wrong_however_long_it_is(name, dtype, terms):
    torch.manual_seed(terms)
    x = (torch.rand(2, terms) / 100).to(dtype)
    op = {"norm": "linalg_vector_norm"}.get(name, name)
    for by in FAULTS:
        backend = wrong(op, lambda original, *args, by=by, **kwargs: original(*args, **kwargs) * by)
        report = KernelDiffHarness(SUMS[name], (x,), test_backend=backend).compare()
        assert report.verdict == "mismatch", f"× {by}"


@pytest.mark.parametrize("terms", [1_000, 100_000, 1_000_000])
def test_a_sum_that_is_added_up_one_by_one_is_rounding(terms):
    torch.manual_seed(terms)
    x = torch.rand(terms)

    def one_by_one(original, value, *args, **kwargs):
        return torch.tensor(numpy.add.accumulate(value.numpy())[-1]).to(value)

    report = KernelDiffHarness(lambda x: x.sum(), (x,), test_backend=wrong("sum", one_by_one)).compare()
    assert report.verdict in {"match", "rounding"}
    by = 1 + 64 * terms**0.5 * float(torch.finfo(torch.float32).eps)
    scaled = wrong("sum", lambda original, *args, **kwargs: original(*args, **kwargs) * by)
    assert KernelDiffHarness(lambda x: x.sum(), (x,), test_backend=scaled).compare().verdict == "mismatch"


def test_a_device_that_holds_all_in_float16_may_give_what_float16_gives():
    """10000 ± 0.01 is one number in float16: the variance is 0, and what is divided by it is NaN."""
    torch.manual_seed(0)
    x = 1e4 + torch.randn(8, 256) * 1e-2

    def standardized(x):
        return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)

    assert KernelDiffHarness(standardized, (x,), test_backend="stick128").compare().verdict == "rounding"
