"""The modes and gradients of a call that runs again, where a difference would be another model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from inductor_debug_jupyter import KernelDiffHarness, QuickRun, capture
from inductor_debug_jupyter.pipeline.capture.calls import CallModes
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.rerun.copies import clone_inputs
from inductor_debug_jupyter.pipeline.session import DebugSession

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def captured(model: nn.Module, *inputs: Tensor, grad: bool = True, lower: str = "dynamo") -> DebugSession:
    with capture(eager=True, lower=lower, keep_inputs=True) as session, torch.set_grad_enabled(grad):
        model(*inputs)
    return session


@pytest.mark.parametrize("grad", [True, False])
def test_a_comparison_traces_the_graph_that_the_cell_made(grad: bool) -> None:
    """torch's encoder layer is one op without gradients, and a dozen with them."""
    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    session = captured(model, torch.randn(2, 5, 32), grad=grad)
    calls = len(session.captures[0].graph("dynamo").calls)
    given: list[int] = []

    def backend(graph_module: torch.fx.GraphModule, _: Any) -> Any:
        given.append(len([node for node in graph_module.graph.nodes if node.op.startswith("call_")]))
        assert not torch.is_grad_enabled(), "nobody asked for gradients"
        return graph_module.forward

    assert session.diff(candidate=backend).passed
    assert set(given) == {calls}
    trial = session.try_out(batch=4)
    assert len(trial.session.captures[0].graph("dynamo").calls) == calls
    assert session.node(session.captures[0].graph("dynamo").calls[-1].name).run().shape == (2, 5, 32)


class WritesToItsInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(x) * self.scale


def test_an_input_that_was_computed_can_be_written_to_again() -> None:
    """As a leaf that requires a gradient it could not."""
    x = nn.Linear(4, 4)(torch.randn(3, 4))
    session = captured(WritesToItsInput(), x)
    report = session.diff(candidate="aot_eager")
    assert report.passed, report
    assert "input:x" in {output.path for output in report.record.outputs}


def test_a_copy_that_counts_as_computed_has_the_contents_strides_and_shared_memory() -> None:
    base = torch.randn(4, 6, requires_grad=True)
    inputs = (base.t(), base.detach().expand(2, 4, 6).requires_grad_())
    first, second = clone_inputs(inputs, leaves=False)
    assert torch.equal(first, inputs[0])
    assert first.stride() == (1, 6)
    assert torch.equal(second, inputs[1])
    assert [(each.requires_grad, each.is_leaf) for each in (first, second)] == [(True, False)] * 2


@pytest.mark.parametrize("backend", ["dynamo", "aot_eager"])
def test_a_function_that_goes_backward_by_itself(backend: str) -> None:
    """Without a ``backward`` to compare, graphs are compiled without gradients, unless the model uses them."""
    layer = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    report = KernelDiffHarness(step, torch.randn(4, 3), test_backend=backend).compare()
    assert report.verdict == "match", str(report)
    assert {"parameter:layer.weight", "parameter:layer.bias"} <= {output.path for output in report.outputs}


class ComplexOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.complex(x @ self.weight, x)


def test_a_backward_from_complex_outputs() -> None:
    model, x = ComplexOutput(), torch.randn(4, 4)
    with capture(eager=True, lower="aot", keep_inputs=True) as session:
        model(x).abs().sum().backward()
    trial = session.try_out(batch=8)
    assert trial.session.captures[0].graph("backward") is not None
    quick = QuickRun(model, x, backend="aot_eager", backward=True).run()
    assert quick.captures[0].graph("backward") is not None


class CastsHalf(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        low = x @ y
        with torch.autocast("cpu", enabled=False):
            return x @ low.float()


def test_lowered_graphs_are_searched_without_autocast() -> None:
    """It is part of them already: ops that the model took out of it would be cast all the same."""
    on: set[bool] = set()

    def backend(graph_module: torch.fx.GraphModule, _: Any) -> Any:
        lowered = any("aten" in str(node.target) for node in graph_module.graph.nodes)

        def run(*args: Any) -> Any:
            if lowered:
                on.add(torch.is_autocast_enabled("cpu"))
            return graph_module(*args)

        return run

    with torch.autocast("cpu", torch.bfloat16):
        found = KernelDiffHarness(CastsHalf(), (torch.randn(8, 8), torch.randn(8, 8)), test_backend=backend).localize()
        assert torch.is_autocast_enabled("cpu")
    assert found.verdict == "match"
    assert on == {False}


def test_what_is_run_unnoticed_keeps_the_grad_mode() -> None:
    with torch.no_grad(), unnoticed():
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        modes = CallModes.now()
        with unnoticed():
            assert not torch.is_grad_enabled()
            assert not torch.is_inference_mode_enabled()
        assert torch.is_inference_mode_enabled()
    with unnoticed(), modes.again():
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
