"""A device that says in which format it computes is judged by that format, wherever numbers are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from inductor_debug_jupyter import ComparisonConfig, KernelDiffHarness, StickAdapter, capture, compare_tensors
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.norm, self.down = nn.Linear(64, 128), nn.LayerNorm(128), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.norm(F.gelu(self.up(x))).clone()
        return self.down(hidden), torch.softmax(hidden, -1)


X = torch.linspace(-2, 2, 512).reshape(8, 64)


def held_in_float16(faulty: bool = False) -> Callable[..., Any]:
    """A backend that says nothing of its arithmetic: every result is rounded to float16."""

    def compile_graph(graph_module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        class Rounded(torch.fx.Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                made = super().call_function(target, args, kwargs)
                made = made.half().float() if isinstance(made, torch.Tensor) and made.is_floating_point() else made
                return made * 1.05 if faulty and "softmax" in str(target) else made

        return Rounded(graph_module).run

    return compile_graph


@pytest.mark.parametrize("backward", [False, True])
def test_a_healthy_device_is_never_red(backward: bool) -> None:
    harness = KernelDiffHarness(Net(), (X,), test_backend="stick128", backward=backward)
    report = harness.compare()
    assert report.verdict == "rounding", report.summary()
    assert all("as float16 gives it" in output.reason for output in report.outputs if output.verdict == "rounding")
    found = harness.localize()
    assert (found.culprits, found.verdict) == ((), "rounding")


def test_a_session_judges_compares_searches_and_bisects_by_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    with capture(target="stick128", eager=True, lower="dynamo", keep_inputs=True) as session:
        Net()(X)
    assert session.diff(candidate="stick128").verdict == "rounding"
    with pytest.raises(UsageError, match="nothing to reproduce"):
        session.reproduce()
    monkeypatch.setenv("INDUCTOR_DEBUG_FAULTS", "copy-first-stick")
    assert session.diff(candidate="stick128").verdict == "mismatch"
    assert [culprit.op for culprit in session.localize().culprits] == ["aten.clone.default"]


def test_a_backend_that_says_nothing_is_judged_by_what_the_target_or_the_user_says() -> None:
    unsaid = KernelDiffHarness(Net(), (X,), test_backend=held_in_float16()).compare()
    assert unsaid.verdict == "rounding"
    assert unsaid.outputs[0].reason.startswith("looks like float16 throughout")
    said = ComparisonConfig(numerics="float16")
    assert KernelDiffHarness(Net(), (X,), test_backend=held_in_float16(), comparison_config=said).compare().passed
    faulty = KernelDiffHarness(Net(), (X,), test_backend=held_in_float16(faulty=True), comparison_config=said)
    assert faulty.compare().verdict == "mismatch"
    assert [culprit.op for culprit in faulty.localize().culprits] == ["aten._softmax.default"]
    with capture(target="stick128", eager=True, lower="dynamo", keep_inputs=True) as session:
        Net()(X)
    assert session.diff(candidate=held_in_float16()).verdict == "rounding"
    with pytest.raises(OptionError, match="numerics='float17'; allowed: float64, float32"):
        ComparisonConfig(numerics="float17")


@pytest.mark.parametrize(
    ("stated", "verdict", "note"),
    [
        ("float16", "rounding", ""),
        ("bfloat16", "rounding", "said to compute in bfloat16, but its single ops look like float16 throughout"),
        ("float32", "mismatch", "said to compute in float32, but its single ops look like float16 throughout"),
    ],
)
def test_a_stated_format_is_the_users_word_and_what_speaks_against_it_is_said(
    stated: str, verdict: str, note: str
) -> None:
    config = ComparisonConfig(numerics=stated)
    report = KernelDiffHarness(Net(), (X,), test_backend=held_in_float16(), comparison_config=config).compare()
    assert report.verdict == verdict
    assert f"what {stated} explains" in report.outputs[0].reason
    against = [each for each in report.record.notes if "is said to compute" in each]
    assert len(against) == bool(note)
    assert note in "".join(against)


def test_a_device_that_rounds_nothing_contradicts_a_stated_format() -> None:
    def plain(graph_module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        return lambda *args: [each * (1 + 2.0**-22) for each in graph_module(*args)]

    config = ComparisonConfig(numerics="float16")
    report = KernelDiffHarness(Net(), (X,), test_backend=plain, comparison_config=config).compare()
    assert report.passed
    assert any("but its single ops look like float32" in note for note in report.record.notes), report.record.notes


def test_a_format_that_is_not_used_is_said() -> None:
    config = ComparisonConfig(numerics="bfloat16")
    for backend, own in (("aot_eager", "the tensors' own formats"), ("stick128", "float16")):
        harness = KernelDiffHarness(Net(), (X,), test_backend=backend, comparison_config=config)
        assert f"numerics=bfloat16 was not used: {backend} computes in {own}" in harness.compare().record.notes


def test_without_a_model_the_formats_tolerances_decide() -> None:
    held = X.bfloat16().float()
    assert compare_tensors(X, held).verdict == "mismatch"
    assert compare_tensors(X, held, ComparisonConfig(numerics="bfloat16")).verdict == "rounding"
    assert compare_tensors(X, held, ComparisonConfig(numerics="float16")).verdict == "mismatch"
    whole = torch.tensor([1000])
    assert compare_tensors(whole, whole + 1, ComparisonConfig(numerics="bfloat16")).verdict == "mismatch"


def test_torchs_own_backends_are_not_judged_by_the_targets_format() -> None:
    harness = KernelDiffHarness(
        Net(), (X,), test_backend="aot_eager", comparison_config=ComparisonConfig(numerics="float16")
    )
    assert harness.held_as is None
    assert KernelDiffHarness(Net(), (X,), test_backend=StickAdapter(format="float32")).held_as is None
    assert KernelDiffHarness(Net(), (X,), test_backend="stick128").held_as is torch.float16
