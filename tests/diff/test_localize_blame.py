"""The op at fault is named, and not the one that shows it: wrong views, overwritten inputs, other shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func

from inductor_debug_jupyter import KernelDiffHarness
from tests.proofs.inside_torch.planting import Lowered, lowering_planted
from tests.support.planted import wrong

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

Model = Callable[[torch.Tensor], Any]

VIEWS: list[tuple[str, Model, Callable[..., Any]]] = [
    ("permute", lambda x: x.view(2, 2, 4).permute(1, 0, 2).sin() * 2, lambda op, x, dims: x.permute(0, 1, 2)),
    ("transpose", lambda x: x.transpose(0, 1).exp(), lambda op, x, *_: x.flip(0).t()),
    ("t", lambda x: x.t().sin() + 1, lambda op, x: x.flip(1).t()),
    ("select", lambda x: x[1].sin() * 2, lambda op, x, dim, at: x.select(dim, at + 1)),
    ("slice", lambda x: x[:, 1:3].sin(), lambda op, x, *_: x[:, 0:2]),
    ("view", lambda x: x.view(2, 8).cumsum(1), lambda op, x, size: x.flip(0).reshape(size)),
    ("unsqueeze", lambda x: x.unsqueeze(1).sin(), lambda op, x, dim: x.flip(0).unsqueeze(dim)),
    ("expand", lambda x: x[:1].expand(4, 4).sin(), lambda op, x, size: (x + 1).expand(size)),
    ("split", lambda x: x.split(2, 1)[0].sin(), lambda op, x, size, dim: x.flip(dim).split(size, dim)),
    ("diagonal", lambda x: x.diagonal().sin(), lambda op, x, *_: x.flip(1).diagonal()),
]


@pytest.mark.every(3)
@pytest.mark.parametrize(("op", "model", "fault"), VIEWS, ids=[op for op, _, _ in VIEWS])
def test_a_wrong_view_is_named_and_not_what_reads_it(op: str, model: Model, fault: Callable[..., Any]):
    torch.manual_seed(0)
    harness = KernelDiffHarness(model, torch.randn(4, 4), test_backend=wrong(op, fault))
    assert harness.compare().verdict == "mismatch"
    assert [culprit.op.split(".")[1] for culprit in harness.localize().culprits] == [op]


def test_an_op_that_writes_over_its_input_is_named_and_not_its_input():
    def model(x: torch.Tensor) -> torch.Tensor:
        doubled = x * 2
        return torch.relu(doubled) + doubled

    harness = KernelDiffHarness(model, torch.randn(4, 4), test_backend=wrong("relu", lambda op, x: x.relu_()))
    assert harness.compare().verdict == "mismatch"
    (culprit,) = harness.localize().culprits
    assert (culprit.op, culprit.reason) == ("aten.relu.default", "it writes over its input mul")


KINDS: list[tuple[str, Model, Callable[..., Any], str]] = [
    ("sin", lambda x: x.sin().exp(), lambda op, x: x.sin().double(), "float64[4, 4], and in eager mode float32[4, 4]"),
    ("argmin", lambda x: x.tanh().argmin(-1), lambda op, x, dim: x.argmin(dim).int(), "int32[4]"),
    ("sum", lambda x: x.sum(-1), lambda op, x, dim: x.sum(dim, keepdim=True), "float32[4, 1]"),
    ("gt", lambda x: x.sin() > 0, lambda op, x, other: (x > other).byte(), "uint8[4, 4], and in eager mode bool[4, 4]"),
]


@pytest.mark.every(2)
@pytest.mark.parametrize(("op", "model", "fault", "reason"), KINDS, ids=[op for op, _, _, _ in KINDS])
def test_an_op_of_another_shape_or_dtype_is_named(op: str, model: Model, fault: Callable[..., Any], reason: str):
    harness = KernelDiffHarness(model, torch.randn(4, 4), test_backend=wrong(op, fault))
    found = harness.localize()
    assert found.verdict == "mismatch"
    (culprit,) = found.culprits
    assert culprit.op.split(".")[1] == op
    assert reason in culprit.reason


MAXIMA: list[Model] = [
    lambda x: x.sin().amax(-1),
    lambda x: x.sin().exp().max(),
    lambda x: torch.linalg.vector_norm(x.sin(), float("inf")),
    lambda x: x.sin().amin(0),
]


@pytest.mark.every(2)
@pytest.mark.parametrize("model", MAXIMA)
def test_a_wrong_gradient_behind_a_maximum_is_a_mismatch(model: Model):
    """The gradient of a maximum asks which elements are equal to it; noise must not make that none."""
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    harness = KernelDiffHarness(model, x, test_backend=wrong("cos", lambda op, x: x.cos() * 1.01), backward=True)
    assert harness.compare().verdict == "mismatch"
    assert [culprit.op for culprit in harness.localize().culprits] == ["aten.cos.default"]
    assert KernelDiffHarness(model, x, test_backend="aot_eager_decomp_partition", backward=True).compare().passed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_an_overflow_that_is_swallowed_is_a_mismatch(dtype: torch.dtype):
    large = torch.tensor([torch.finfo(dtype).max / 2, 1.0, 2.0], dtype=dtype)
    saturating = wrong("mul", lambda op, x, y: torch.nan_to_num(x * y))
    harness = KernelDiffHarness(lambda x: x * x, large, test_backend=saturating)
    assert harness.compare().verdict == "mismatch"
    assert [culprit.op for culprit in harness.localize().culprits] == ["aten.mul.Tensor"]


def test_what_only_the_second_call_has_wrong_is_no_pass_of_localize():
    def second_call_wrong(graph_module: torch.fx.GraphModule, _: Any) -> Any:
        calls = [0]

        def run(*args: Any) -> Any:
            calls[0] += 1
            return [value * 1.5 if calls[0] == 2 else value for value in graph_module(*args)]

        return run

    harness = KernelDiffHarness(torch.nn.Linear(6, 6), torch.randn(6, 6), test_backend=second_call_wrong, repeats=3)
    assert harness.compare().verdict == "mismatch"
    assert harness.localize().verdict == "mismatch"


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return x * self.calls


def test_results_that_a_later_call_writes_over_are_a_mismatch():
    def reusing_memory(graph_module: torch.fx.GraphModule, _: Any) -> Any:
        memory: list[torch.Tensor] = []

        def run(*args: Any) -> Any:
            made = [value.clone() for value in graph_module(*args)]
            if not memory:
                memory.extend(made)
            for mine, value in zip(memory, made, strict=True):
                mine.copy_(value)
            return list(memory)

        return run

    report = KernelDiffHarness(Counting(), torch.ones(3), test_backend=reusing_memory, repeats=3).compare()
    assert report.verdict == "mismatch"
    assert "a later call wrote over it" in report.summary()
    assert KernelDiffHarness(Counting(), torch.ones(3), test_backend="aot_eager", repeats=3).compare().passed


def only_backward(op: str, replacement: Callable[..., Any]) -> Any:
    """A backend whose compiler for backward graphs is wrong, and that for forward graphs is right."""
    faulty = wrong(op, replacement)
    return type(faulty)(**faulty.kwargs | {"bw_compiler": faulty.kwargs["fw_compiler"], "fw_compiler": _right})


def _right(graph_module: torch.fx.GraphModule, _: Any) -> Any:
    return make_boxed_func(graph_module.forward)


@pytest.mark.parametrize("is_hidden", [False, True])
@pytest.mark.parametrize("op", ["tanh_backward", "mm", "sum"])
def test_a_fault_of_the_compiler_for_backward_graphs_is_found(op: str, is_hidden: bool):
    """Also where a function calls AOTAutograd, as most vendors' backends do."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())
    made = only_backward(op, lambda original, *args, **kwargs: original(*args, **kwargs) * 1.5)
    backend = (lambda *graph: made(*graph)) if is_hidden else made
    harness = KernelDiffHarness(model, torch.randn(4, 8), test_backend=backend, backward=True)
    found = harness.localize().culprits
    assert {culprit.op.split(".")[1] for culprit in found} == {op}
    assert {culprit.graph for culprit in found} == {"backward"}


class ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * 1.5


def test_where_the_compiler_for_backward_graphs_cannot_be_reached_it_is_said():
    def without_aot(graph_module: torch.fx.GraphModule, _: Any) -> Any:
        return lambda *args: [ScaledGradient.apply(value) for value in graph_module(*args)]

    harness = KernelDiffHarness(torch.nn.Linear(8, 8), torch.randn(4, 8), test_backend=without_aot, backward=True)
    found = harness.localize()
    assert found.verdict == "mismatch"
    assert not found.culprits
    assert any("compiler for backward graphs" in note for note in found.notes)


def test_a_backend_that_gives_sparse_tensors_does_not_end_the_search():
    def backend(graph_module: torch.fx.GraphModule, _: Any) -> Any:
        return lambda *args: tuple(each.to_sparse() for each in graph_module(*args))

    found = KernelDiffHarness(torch.nn.Linear(6, 6), torch.randn(4, 6), test_backend=backend).localize()
    assert found.verdict != "match"
    assert "sparse" in found.culprits[0].reason


def _without_minus_zero(op: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    return op(*args, **kwargs) + 0.0


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("op", "model"),
    [
        ("neg", lambda x: 1 / (-x)),
        ("mul", lambda x: torch.reciprocal(x * -2)),
        ("neg", lambda x: torch.atan2(-x, torch.full_like(x, -1.0))),
        ("neg", lambda x: (1 / (-x)).sigmoid() * 3),
    ],
)
def test_an_op_that_loses_the_sign_of_zero_is_named_and_not_what_shows_it(op: str, model: Model):
    x = torch.tensor([0.0, -1.0, 2.0, -3.0] * 8)
    harness = KernelDiffHarness(model, x, test_backend=wrong(op, _without_minus_zero))
    found = harness.localize()
    assert found.verdict == "mismatch"
    assert [culprit.op.split(".")[1] for culprit in found.culprits] == [op]
    assert "it gives 0.0 where -0.0 is right" in found.culprits[0].reason


def test_the_sign_of_zero_that_a_lowering_loses_is_named_on_inductor():
    x = torch.tensor([0.0, -1.0, 2.0, -3.0] * 8)
    with lowering_planted("neg", lambda original, x: Lowered.of("sub", 0.0, x)):
        found = KernelDiffHarness(lambda x: 1 / (-x), x).localize()
    assert [culprit.op for culprit in found.culprits] == ["aten.neg.default"]
