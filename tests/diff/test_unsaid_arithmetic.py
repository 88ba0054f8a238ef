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
