"""A factor that all elements share, too small for the floor of any one of them in a 16-bit format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from inductor_debug_jupyter import KernelDiffHarness
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import WideArithmetic
from tests.support.planted import in_float64, wrong

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

NARROW = (torch.bfloat16, torch.float16)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 32))


class Attention(nn.Module):
    """One head."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inside, self.out = nn.LayerNorm(48), nn.Linear(48, 144), nn.Linear(48, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.inside(self.norm(x)).chunk(3, -1)
        return self.out(torch.softmax(q @ k.transpose(-1, -2) / 7, -1) @ v)


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (3, 4, 4)), nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU())


def steps_that_are_rounded_away(x: torch.Tensor) -> torch.Tensor:
    """In bfloat16 none of the steps changes anything; together they make 8%."""
    for _ in range(40):
        x = x * 1.002
    return x


def unrounded(graph_module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    """A healthy compiler that rounds to 16 bits only at the end."""

    def run(*args: Any) -> Any:
        plain = graph_module(*args)
        with WideArithmetic():
            wide = graph_module(*args)
        return [one.to(other.dtype) for one, other in zip(wide, plain, strict=True)]

    return run


def times(factor: float) -> Callable[..., Any]:
    def replacement(op: Any, *args: Any, **kwargs: Any) -> Any:
        made = op(*args, **kwargs)
        return (made[0] * factor, *made[1:]) if isinstance(made, tuple) else made * factor

    return replacement


FAULTS = (
    (mlp, "tanh", 1.02),
    (mlp, "gelu", 1.05),
    (mlp, "addmm", 0.98),
    (Attention, "native_layer_norm", 1.03),
    (Attention, "addmm", 1.02),
    (convolutions, "convolution", 1.02),
    (convolutions, "silu", 0.97),
)


@pytest.mark.every(3)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(("build", "op", "factor"), FAULTS)
def test_a_common_factor_is_wrong(build: Callable[[], nn.Module], op: str, factor: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = build().to(dtype).eval(), torch.randn(32, 48).to(dtype)
    with torch.no_grad():
        assert KernelDiffHarness(model, x, test_backend=wrong(op, times(factor))).compare().verdict == "mismatch"


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("build", [mlp, Attention, convolutions, lambda: steps_that_are_rounded_away])
def test_a_healthy_compiler_has_none(build: Callable[[], Any], dtype: torch.dtype, seed: int) -> None:
    torch.manual_seed(seed)
    model, x = build(), torch.randn(32, 48).to(dtype)
    model = model.to(dtype).eval() if isinstance(model, nn.Module) else model
    with torch.no_grad():
        for backend in (in_float64(), unrounded):
            report = KernelDiffHarness(model, x, test_backend=backend).compare()
            assert report.verdict in {"match", "rounding"}, report.summary()


def test_the_factor_is_told_and_the_op_named() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return functional.silu(functional.gelu(x) + 1)

    x = torch.randn(32, 64).bfloat16()
    harness = KernelDiffHarness(model, x, test_backend=wrong("silu", times(1.02)))
    report = harness.compare()
    assert report.verdict == "mismatch"
    assert "common factor of 1.02" in report.outputs[0].reason
    assert [culprit.op for culprit in harness.localize().culprits] == ["aten.silu.default"]


def test_an_output_is_judged_so_beside_gradients_too() -> None:
    torch.manual_seed(0)
    model, x = mlp().bfloat16(), torch.randn(32, 48).bfloat16()
    report = KernelDiffHarness(model, x, test_backend=wrong("tanh", times(1.03)), backward=True).compare()
    assert next(output for output in report.outputs if output.path == "output").verdict == "mismatch"
