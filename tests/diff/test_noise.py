"""Bug or rounding: both sides are measured against float64."""

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import ComparisonConfig, KernelDiffHarness

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

TIGHT = ComparisonConfig(atol=0.0, rtol=0.0)


def reordered(graph_module, example_inputs):
    """A backend that is right, but sums in another order: float32 noise and nothing else."""

    def run(*args):
        (out,) = graph_module(*args)
        return [out + 1e-7 * out.abs()]

    return run


def wrong(graph_module, example_inputs):
    """A backend whose first element is off by a thousandth."""

    def run(*args):
        (out,) = graph_module(*args)
        out = out.clone()
        out.flatten()[0] += 1e-3
        return [out]

    return run


def model(*extra):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 8), *extra)


def compare(backend, *extra, train=False):
    harness = KernelDiffHarness(
        model(*extra).train(train), (torch.randn(16, 64),), test_backend=backend, comparison_config=TIGHT
    )
    (output,) = harness.compare().outputs
    return output


def test_noise_of_the_references_own_size_is_rounding_and_says_so():
    output = compare(reordered)
    assert output.verdict == "rounding"
    assert "from float64, where rounding explains" in output.reason


def test_a_small_fault_stays_a_mismatch():
    assert compare(wrong).verdict == "mismatch"


def test_other_random_numbers_in_float64_explain_nothing():
    assert compare(wrong, nn.Dropout(0.5), train=True).verdict == "mismatch"


def test_a_model_that_cannot_run_in_float64_says_that_it_is_not_known():
    class Float32Only(nn.Module):
        def forward(self, x):
            if x.dtype != torch.float32:
                raise TypeError("float32 only")
            return x * 1.5

    report = KernelDiffHarness(Float32Only(), (torch.randn(4),), test_backend=wrong, comparison_config=TIGHT).compare()
    assert report.verdict == "mismatch"
    assert any("bug or rounding is not known" in note for note in report.record.notes)
