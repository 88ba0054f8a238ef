"""What a run writes to, whether it repeats itself, and what is compiled once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import KernelDiffHarness
from inductor_debug_jupyter.pipeline.errors import OptionError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def eagerly(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Any:
    return graph_module.forward


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x)
        x.mul_(2)
        return x.sum()


def test_written_inputs_and_buffers_are_compared() -> None:
    x = torch.ones(3)
    report = KernelDiffHarness(Counter(), (x,), test_backend=eagerly).compare()
    assert {output.path: output.verdict for output in report.outputs} == {
        "output": "match",
        "input:x": "match",
        "buffer:seen": "match",
    }
    assert torch.equal(x, torch.ones(3))


def test_a_backend_that_forgets_to_write_is_found_out() -> None:
    def forgetful(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Any:
        def run(*args: torch.Tensor) -> Any:
            return graph_module(*(arg.clone() for arg in args))

        return run

    report = KernelDiffHarness(Counter(), (torch.ones(3),), test_backend=forgetful).compare()
    wrong = {output.path for output in report.outputs if output.verdict == "mismatch"}
    assert wrong == {"input:x", "buffer:seen"}


def test_what_changes_by_run_is_told_from_what_is_wrong() -> None:
    def unsteady(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Any:
        runs = iter(range(100))

        def run(*args: torch.Tensor) -> Any:
            (out,) = graph_module(*args)
            return [out + next(runs)]

        return run

    def wrong(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Any:
        return lambda *args: [graph_module(*args)[0] + 1]

    x = torch.arange(4.0)
    (output,) = KernelDiffHarness(torch.sin, (x,), test_backend=wrong, repeats=2).compare().outputs
    assert output.verdict == "mismatch"
    assert "from run to run" not in output.reason
    report = KernelDiffHarness(torch.sin, (x,), reference_backend=unsteady, test_backend=wrong, repeats=3).compare()
    assert report.verdict == "not_compared"
    assert "the reference by up to 3" in report.outputs[0].reason
    assert any("the reference (unsteady) is nondeterministic" in note for note in report.record.notes)
    report = KernelDiffHarness(torch.sin, (x,), reference_backend=wrong, test_backend=unsteady, repeats=3).compare()
    assert report.verdict == "mismatch", "that it changes by run does not excuse the candidate"
    assert "the candidate by up to 3" in report.outputs[0].reason
    with pytest.raises(OptionError, match="repeats=0"):
        KernelDiffHarness(torch.sin, (x,), repeats=0)


def test_a_second_comparison_compiles_nothing() -> None:
    compiled = []

    def counting(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Any:
        compiled.append(graph_module)
        return graph_module.forward

    torch.manual_seed(0)
    model, x = nn.Linear(3, 3), torch.randn(2, 3)
    harness = KernelDiffHarness(model, (x,), test_backend=counting, repeats=2)
    first = harness.compare()
    with torch.no_grad():
        model.weight.add_(1)
    second = harness.compare()
    assert len(compiled) == 1
    assert first.passed
    assert second.passed
    assert first.outputs[0].verdict == second.outputs[0].verdict == "match"
