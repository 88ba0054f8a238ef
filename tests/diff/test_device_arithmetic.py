"""A device that says in which format it computes is judged by that format, wherever numbers are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from inductor_debug_jupyter import ComparisonConfig, KernelDiffHarness, StickAdapter, capture
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


def test_torchs_own_backends_are_not_judged_by_the_targets_format() -> None:
    harness = KernelDiffHarness(
        Net(), (X,), test_backend="aot_eager", comparison_config=ComparisonConfig(numerics="float16")
    )
    assert harness.held_as is None
    assert KernelDiffHarness(Net(), (X,), test_backend=StickAdapter(format="float32")).held_as is None
    assert KernelDiffHarness(Net(), (X,), test_backend="stick128").held_as is torch.float16
