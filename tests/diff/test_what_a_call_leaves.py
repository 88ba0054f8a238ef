"""What a call leaves behind beside its outputs, and what eager mode itself does not repeat; faults by planted ops."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from inductor_debug_jupyter import KernelDiffHarness
from inductor_debug_jupyter.pipeline.diff import DiffReport

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

Edit = Callable[[torch.fx.GraphModule], None]


def scaled(name: str, factor: float) -> Edit:
    """Every result of the ops of that name times a factor."""

    def edit(graph_module: torch.fx.GraphModule) -> None:
        for node in graph_module.graph.nodes:
            if node.op == "call_function" and str(node.target).startswith(f"aten.{name}."):
                node.target = wrong(node.target, factor)

    return edit


def wrong(op: Any, factor: float) -> Callable[..., Any]:
    return lambda *args, **kwargs: op(*args, **kwargs) * factor


def faithful(graph_module: torch.fx.GraphModule) -> None:
    """No fault."""


def backend(forward: Edit = faithful, backward: Edit = faithful) -> Any:
    """A backend of AOT graphs with these faults."""

    def compiler(edit: Edit) -> Callable[..., Any]:
        def compile_graph(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Any:
            edit(graph_module)
            graph_module.recompile()
            return make_boxed_func(graph_module.forward)

        return compile_graph

    return aot_autograd(fw_compiler=compiler(forward), bw_compiler=compiler(backward))


def compared(model: Any, candidate: Any, *inputs: Any, **options: Any) -> tuple[DiffReport, dict[str, str]]:
    """The report, and every verdict by path."""
    report = KernelDiffHarness(model, inputs, test_backend=candidate, **options).compare()
    return report, {output.path: output.verdict for output in report.outputs}


def trained() -> nn.Linear:
    """A layer that has gradients, as after a backward of the user's."""
    layer = nn.Linear(4, 4)
    layer(torch.randn(3, 4)).square().sum().backward()
    return layer


@pytest.mark.parametrize("calls", [1, 2])
def test_an_optimizer_steps_with_the_gradients_that_are_there(calls: int) -> None:
    """Without them a step does nothing, and nothing that is wrong in it would be seen."""
    layer = trained()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    kept = layer.weight.detach().clone(), layer.weight.grad

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.step()
        return x * 2

    report, found = compared(step, backend(scaled("add", 1.1)), torch.ones(2), repeats=calls)
    assert report.verdict == "mismatch"
    assert found["output"] == "match"
    assert compared(step, backend(), torch.ones(2), repeats=calls)[0].passed
    assert torch.equal(layer.weight, kept[0])
    assert layer.weight.grad is kept[1]
    assert not optimizer.state


def test_a_gradient_that_the_model_makes_itself_is_compared() -> None:
    layer = nn.Linear(4, 4)

    def step(x: torch.Tensor) -> torch.Tensor:
        layer(x).square().sum().backward()
        return x.sum()

    report, found = compared(step, backend(backward=scaled("mm", 1.5)), torch.ones(2, 4))
    assert report.verdict == "mismatch"
    assert found["grad:parameter:layer.weight (as left)"] == "mismatch"
    assert compared(step, backend(), torch.ones(2, 4))[0].passed
    assert layer.weight.grad is None


def test_gradients_that_are_there_are_not_added_to_those_compared() -> None:
    """The gradients of a comparison are of its own backward alone; a parameter that is an input has one, too."""
    layer, weight = trained(), torch.randn(4, 4, requires_grad=True)
    weight.grad = torch.full((4, 4), 1e6)

    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return layer(x @ weight).tanh() + weight.grad.mean()

    small = backend(backward=scaled("mm", 1.001))
    report, found = compared(model, small, torch.randn(3, 4), weight, backward=True)
    assert found["grad:weight"] == "mismatch"
    assert report.verdict == "mismatch"
    assert compared(model, backend(), torch.randn(3, 4), weight, backward=True)[0].passed
    assert torch.equal(weight.grad, torch.full((4, 4), 1e6))


class Keeps(nn.Module):
    """Keeps a plain value of what it computed, in one way or another."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place
        self.value: Any = None
        self.log: list[Any] = []
        self.table: dict[str, Any] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = x.tanh().sum().item()
        kept = {"bool": value > 0, "int": round(value * 1000), "str": "up" if value > 0 else "down"}.get(
            self.place, value
        )
        if self.place == "list":
            self.log.append(kept)
        elif self.place == "dict":
            self.table["last"] = kept
        else:
            self.value = kept
        return x + 1


@given(
    place=st.sampled_from(["bool", "int", "str", "float", "list", "dict"]),
    seed=st.integers(0, 10**6),
    factor=st.sampled_from([-1.0, 1.0]),
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_plain_values_that_a_model_keeps_are_compared(place: str, seed: int, factor: float) -> None:
    torch._dynamo.reset()
    x = torch.randn(5, generator=torch.Generator().manual_seed(seed)) + 0.5
    model = Keeps(place)
    report, found = compared(model, backend(scaled("tanh", factor)), x)
    assert (report.verdict == "mismatch") == (factor < 0), found
    assert found["output"] == "match"
    assert (model.value, model.log, model.table) == (None, [], {})


def test_a_closure_and_a_global_of_numbers_are_compared() -> None:
    count = 0

    def model(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1 if x.tanh().sum().item() > 0 else 5
        return x + 1

    report, found = compared(model, backend(scaled("tanh", -1.0)), torch.full((3,), 0.5))
    assert (report.verdict, found["closure:count"], count) == ("mismatch", "mismatch", 0)


def reordered(graph_module: torch.fx.GraphModule) -> None:
    """Sums in float64, rounded once: as good as eager mode, and not the same bits."""

    def wide(op: Any) -> Callable[..., Any]:
        return lambda *args: op(*(each.double() if isinstance(each, torch.Tensor) else each for each in args)).float()

    for node in graph_module.graph.nodes:
        if node.op == "call_function" and str(node.target).startswith(("aten.mm.", "aten.sum.")):
            node.target = wide(node.target)


@given(seed=st.integers(0, 10**6), rows=st.integers(2, 9))
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_of_pythons_have_floors(seed: int, rows: int) -> None:
    torch._dynamo.reset()
    x = torch.randn(rows, 40, generator=torch.Generator().manual_seed(seed))

    def model(x: torch.Tensor) -> Any:
        product = x @ x.t()
        return float(product.sum()), product.tolist(), product.numpy()

    report, found = compared(model, backend(reordered), x)
    assert report.passed, found
    assert compared(model, backend(scaled("mm", 1.0001)), x)[0].verdict == "mismatch"


def test_what_eager_mode_does_not_repeat_is_neither_right_nor_wrong() -> None:
    def model(x: torch.Tensor) -> Any:
        return x + 1, time.time(), str(time.time_ns()), torch.full((3,), float(time.perf_counter_ns() % 10**6))

    report, found = compared(model, backend(), torch.ones(2))
    assert set(found.values()) == {"match", "not_compared"}
    assert report.verdict == "not_compared"
    _, found = compared(model, backend(scaled("add", 1.5)), torch.ones(2))
    assert found["[0]"] == "mismatch"
