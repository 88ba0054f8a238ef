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


class Autocast(TorchDispatchMode):
    """Products and their gradients alone are in a 16-bit format, with operands, biases and results."""

    def __init__(self, dtype: torch.dtype, fault: Callable[[str, Any], Any]) -> None:
        super().__init__()
        self.dtype, self.fault = dtype, fault

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        if "mm" not in name and "convolution" not in name and "attention" not in name:
            return self.fault(name, func(*args, **(kwargs or {})))
        sums = 5 if "attention_for_cpu_backward" in name else -1  # the logarithms of the sums stay in float32
        given = [self.cast(value, torch.float32, self.dtype) if at != sums else value for at, value in enumerate(args)]
        made = func(*given, **(kwargs or {}))
        several = tuple(self.cast(each, self.dtype, FULL) for each in (made if isinstance(made, tuple) else (made,)))
        return self.fault(name, several if isinstance(made, tuple) else several[0])

    @staticmethod
    def cast(value: Any, old: torch.dtype, new: torch.dtype) -> Any:
        return value.to(new) if isinstance(value, torch.Tensor) and value.dtype is old else value


def autocasting(dtype: torch.dtype, fault: Callable[[str, Any], Any] = lambda _, made: made) -> Any:
    def compiler(graph: torch.fx.GraphModule, _: Any) -> Any:
        def run(*args: Any) -> Any:
            with Autocast(dtype, fault):
                return graph(*args)

        return make_boxed_func(run)

    return aot_autograd(fw_compiler=compiler)


class Convolutions(nn.Module):
    """Images, a norm, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2)
        self.norm, self.last = nn.BatchNorm2d(32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.norm(self.second(torch.relu(self.first(x)))))
        return self.last(h.mean((2, 3)))


class Attention(nn.Module):
    """One block of a language model; its attention is one kernel, or products and a softmax."""

    def __init__(self, one_kernel: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one_kernel = one_kernel
        self.norm, self.into, self.out = nn.LayerNorm(64), nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each.unflatten(-1, (4, 16)).transpose(1, 2) for each in self.into(self.norm(x)).split(64, -1))
        if self.one_kernel:
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mixed = torch.softmax(q @ k.mT / 4, -1) @ v
        return x + torch.tanh(self.out(mixed.transpose(1, 2).flatten(2)))


AUTOCAST: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (Many, (32, 96)),
    "convolutions": (Convolutions, (4, 3, 16, 16)),
    "attention": (lambda: Attention(False), (2, 16, 64)),
    "attention in one kernel": (lambda: Attention(True), (2, 16, 64)),
}


@pytest.mark.every(3)
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dtype", [BRAIN, HALF], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("name", AUTOCAST)
def test_a_chip_that_rounds_its_products_as_autocast_does_is_not_red(
    name: str, dtype: torch.dtype, backward: bool
) -> None:
    build, shape = AUTOCAST[name]
    harness = KernelDiffHarness(
        build().eval(), (torch.randn(shape),), test_backend=autocasting(dtype), backward=backward
    )
    with torch.set_grad_enabled(backward):
        report = harness.compare()
        assert report.verdict == "rounding", report
        assert report.outputs[0].reason.startswith("looks like")
        assert harness.localize().culprits == ()


@pytest.mark.every(2)
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    ("name", "fault"), [("mlp", off("tanh", 1.02)), ("convolutions", off("convolution", 1.1)), ("mlp", noisy(5e-2))]
)
def test_a_fault_on_a_chip_that_rounds_its_products_is_red(name: str, fault: Callable[[str, Any], Any]) -> None:
    build, shape = AUTOCAST[name]
    with torch.no_grad():
        device = autocasting(BRAIN, fault)
        assert (
            KernelDiffHarness(build().eval(), (torch.randn(shape),), test_backend=device).compare().verdict
            == "mismatch"
        )


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_model_that_is_too_small_to_tell_says_so() -> None:
    with torch.no_grad():
        report = KernelDiffHarness(nn.Linear(4, 4), (torch.randn(2, 4),), test_backend=chip(BRAIN)).compare()
    assert any("is not known: no product of enough elements was seen" in note for note in report.record.notes)
