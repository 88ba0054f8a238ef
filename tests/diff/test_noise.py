"""Bug or rounding: what is outside its tolerance is judged by what rounding can do to it."""

import itertools

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
    assert "× what rounding explains" in output.reason


def test_a_small_fault_stays_a_mismatch():
    assert compare(wrong).verdict == "mismatch"


def test_dropout_draws_the_same_under_noise_and_hides_no_fault():
    assert compare(wrong, nn.Dropout(0.5), train=True).verdict == "mismatch"
    assert compare(reordered, nn.Dropout(0.5), train=True).verdict == "rounding"


def test_a_model_that_does_not_run_under_noise_says_that_it_is_not_known():
    calls = itertools.count(1)

    @torch.library.custom_op("planted::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        if next(calls) > 2:
            raise ValueError("a third time")
        return x * 1.5

    twice.register_fake(torch.empty_like)

    class Twice(nn.Module):
        def forward(self, x):
            return twice(x)

    report = KernelDiffHarness(Twice(), (torch.randn(4),), test_backend=wrong, comparison_config=TIGHT).compare()
    assert report.verdict == "mismatch"
    assert any("bug or rounding is not known" in note for note in report.record.notes)


def test_tolerances_that_the_user_gave_are_kept_and_the_usual_ones_are_not_trusted():
    loose = ComparisonConfig(atol=1e-2)
    inputs = (torch.randn(16, 64),)
    assert KernelDiffHarness(model(), inputs, test_backend=wrong, comparison_config=loose).compare().passed
    small = nn.Sequential(model(), nn.Softmax(-1))
    within_the_usual = ComparisonConfig().tolerances(torch.float32)[0]
    assert within_the_usual == 1e-5

    def a_little_wrong(graph_module, example_inputs):
        return lambda *args: [graph_module(*args)[0] + 9e-6]

    assert KernelDiffHarness(small, inputs, test_backend=a_little_wrong).compare().verdict == "mismatch"
