"""A device that says in which format it keeps sums is held to it, where the rounding of every result would hide it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import ComparisonConfig, DiffReport, KernelDiffHarness, StickAdapter
from inductor_debug_jupyter.pipeline.adapters.stick import parse_fault
from inductor_debug_jupyter.pipeline.views.verdict_sentence import diff_story

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    """Sums of 128 and 256 terms, which are two sticks and four."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(128, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.up(x))
        return self.down(hidden)


def harness(*faults: str, config: ComparisonConfig | None = None, **said: Any) -> KernelDiffHarness:
    device = StickAdapter(faults=[parse_fault(each) for each in faults], check=False, **said)
    return KernelDiffHarness(Net().eval(), (torch.randn(16, 128),), test_backend=device, comparison_config=config)


def compared(made: KernelDiffHarness) -> DiffReport:
    with torch.no_grad():
        return made.compare()


def test_sums_that_are_not_kept_as_the_device_says_are_red_and_named() -> None:
    made = harness("wrong-accumulation")
    report = compared(made)
    assert report.verdict == "mismatch"
    assert report.outputs[0].reason.startswith("stick128 says that it keeps sums in float32; of whole numbers")
    with torch.no_grad():
        found = made.localize()
    assert found.verdict == "mismatch"
    assert [(each.op, each.module_path, each.source is not None) for each in found.culprits] == [
        ("aten.addmm.default", "down", True)
    ]
    assert "come in at addmm (test_stated_sums.py" in diff_story(report.record, found)
    assert diff_story(report.record, found).endswith("the outputs' rounding hides it.")


@pytest.mark.parametrize(
    "healthy",
    [
        lambda: harness(),
        lambda: harness(accumulate="float16"),  # as it says
        lambda: harness("wrong-accumulation:bmm"),  # an op that the model does not have
        lambda: harness("wrong-accumulation", config=ComparisonConfig(atol=0.1, rtol=0.1)),  # the user's word
    ],
    ids=["float32", "float16", "another op", "tolerances"],
)
def test_what_is_kept_as_said_is_not_red(healthy: Callable[[], KernelDiffHarness]) -> None:
    assert compared(healthy()).verdict == "rounding"


class OnlyWhole(StickAdapter):
    """A device whose compiler takes the model, and then nothing more."""

    graphs = 0

    def compile(self, gm: torch.fx.GraphModule, inputs: Any) -> Any:
        self.graphs += 1
        if self.graphs > 1:
            raise RuntimeError("no licence for a second graph")
        return super().compile(gm, inputs)


def test_what_cannot_be_tried_is_noted() -> None:
    made = KernelDiffHarness(Net().eval(), (torch.randn(16, 128),), test_backend=OnlyWhole(check=False))
    report = compared(made)
    assert report.verdict == "rounding"
    assert any("keeps sums as it says was not tried" in note and "licence" in note for note in report.record.notes)
