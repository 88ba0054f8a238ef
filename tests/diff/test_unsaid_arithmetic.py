"""A device that does not say how it computes: judged by what its single ops look like, and by nothing that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode

from inductor_debug_jupyter import KernelDiffHarness

PRODUCTS = {"aten.mm.default": (0, 1), "aten.addmm.default": (1, 2), "aten.bmm.default": (0, 1)}


class Chip(TorchDispatchMode):
    """Rounds what it multiplies, perhaps its results too, and perhaps has a fault."""

    def __init__(self, operands: torch.dtype, results: torch.dtype, fault: Callable[[str, Any], Any]) -> None:
        super().__init__()
        self.operands, self.results, self.fault = operands, results, fault

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = list(args)
        for at in PRODUCTS.get(str(func), ()):
            args[at] = args[at].to(self.operands).float()
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made.dtype is torch.float32 and not func.is_view:
            made = made.to(self.results).float()
        return self.fault(str(func), made)


def chip(
    operands: torch.dtype, results: torch.dtype = torch.float32, fault: Callable[[str, Any], Any] = lambda _, made: made
) -> Any:
    def compiler(graph: torch.fx.GraphModule, _: Any) -> Any:
        def run(*args: Any) -> Any:
            with Chip(operands, results, fault):
                return graph(*args)

        return make_boxed_func(run)

    return aot_autograd(fw_compiler=compiler)


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(96, 64), nn.GELU(), nn.Linear(64, 48)).eval()


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    ("device", "words"),
    [
        (chip(torch.bfloat16), "looks like bfloat16 products with float32 sums"),
        (chip(torch.float16, torch.float16), "looks like float16 throughout, float32 sums"),
    ],
)
def test_a_healthy_chip_is_not_red(model: nn.Module, device: Any, words: str) -> None:
    harness = KernelDiffHarness(model, (torch.randn(32, 96),), test_backend=device)
    with torch.no_grad():
        report = harness.compare()
        assert report.verdict == "rounding"
        assert report.outputs[0].reason.startswith(words)
        assert any("does not say how it computes" in note for note in report.record.notes)
        assert harness.localize().culprits == ()


def off(op: str, by: float) -> Callable[[str, Any], Any]:
    return lambda name, made: made * by if op in name and isinstance(made, torch.Tensor) else made


@pytest.mark.every(2)
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("fault", [off("gelu", 1.05), off("gelu", 0.0), off("addmm", 1.02), off("addmm", -1.0)])
def test_a_fault_on_such_a_chip_is_red(model: nn.Module, fault: Callable[[str, Any], Any]) -> None:
    device = chip(torch.bfloat16, fault=fault)
    with torch.no_grad():
        assert KernelDiffHarness(model, (torch.randn(32, 96),), test_backend=device).compare().verdict == "mismatch"


@pytest.mark.usefixtures("fresh_dynamo")
def test_the_faulty_op_alone_is_blamed(model: nn.Module) -> None:
    device = chip(torch.bfloat16, fault=off("gelu", 1.1))
    harness = KernelDiffHarness(model, (torch.randn(32, 96),), test_backend=device)
    with torch.no_grad():
        assert harness.compare().verdict == "mismatch"
        assert {culprit.op for culprit in harness.localize().culprits} == {"aten.gelu.default"}


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_plain_fault_looks_like_no_arithmetic(model: nn.Module) -> None:
    device = chip(torch.float32, fault=off("gelu", 1.001))
    with torch.no_grad():
        report = KernelDiffHarness(model, (torch.randn(32, 96),), test_backend=device).compare()
    assert report.verdict == "mismatch"
    assert not any("does not say" in note for note in report.record.notes)


class Many(nn.Module):
    """More kinds of ops than a few."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.norm, self.down = nn.Linear(96, 64), nn.LayerNorm(64), nn.Linear(64, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(torch.tanh(self.up(x)))
        h = h + torch.sigmoid(h) * torch.nn.functional.gelu(h)
        return torch.softmax(self.down(h), -1)


def with_nan(op: str) -> Callable[[str, Any], Any]:
    def spoiled(name: str, made: Any) -> Any:
        return made.index_fill(0, torch.tensor([3]), float("nan")) if op in name else made

    return spoiled


def noisy(share: float) -> Callable[[str, Any], Any]:
    return lambda name, made: made * (1 + share * torch.randn_like(made)) if "mm" in name else made


def one_row(op: str) -> Callable[[str, Any], Any]:
    return lambda name, made: made * (1 + 0.3 * (torch.arange(len(made)) == 5))[:, None] if op in name else made


def stored(op: str, dtype: torch.dtype) -> Callable[[str, Any], Any]:
    return lambda name, made: made.to(dtype).float() if op in name else made


BRAIN, HALF, FULL = torch.bfloat16, torch.float16, torch.float32


@pytest.mark.every(3)
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    "device",
    [
        chip(HALF, HALF, off("softmax", 1.02)),  # of a kind that comes late among the ops
        chip(BRAIN, FULL, off("sigmoid", 1.02)),
        chip(BRAIN, BRAIN, one_row("tanh")),
        chip(BRAIN, FULL, with_nan("tanh")),
        chip(HALF, HALF, off("tanh", float("inf"))),
        chip(FULL, FULL, noisy(2e-3)),  # of the size of bfloat16's rounding, and none
        chip(FULL, FULL, stored("addmm", BRAIN)),  # one op in another format than all others
        chip(BRAIN, FULL, stored("sigmoid", HALF)),
    ],
    ids=["softmax", "sigmoid", "a row", "nan", "inf", "noise", "one op's format", "another op's format"],
)
def test_nothing_that_is_no_arithmetic_looks_like_one(device: Any) -> None:
    with torch.no_grad():
        report = KernelDiffHarness(Many().eval(), (torch.randn(32, 96),), test_backend=device).compare()
    assert report.verdict == "mismatch"
    assert not report.outputs[0].reason.startswith("looks like")


@pytest.mark.every(2)
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("device", [chip(HALF, HALF), chip(BRAIN, BRAIN), chip(BRAIN), chip(HALF)])
def test_a_healthy_chip_of_many_ops_is_not_red(device: Any) -> None:
    with torch.no_grad():
        report = KernelDiffHarness(Many().eval(), (torch.randn(32, 96),), test_backend=device).compare()
    assert report.verdict == "rounding"
    assert report.outputs[0].reason.startswith("looks like")


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_model_that_is_too_small_to_tell_says_so() -> None:
    with torch.no_grad():
        report = KernelDiffHarness(nn.Linear(4, 4), (torch.randn(2, 4),), test_backend=chip(BRAIN)).compare()
    assert any("is not known: no product of enough elements was seen" in note for note in report.record.notes)
