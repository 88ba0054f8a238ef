"""Each element is judged by what rounding can do to it, whatever stands beside it and however small it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from planted import in_float64, wrong
from torch import nn

from inductor_debug_jupyter import KernelDiffHarness, StickAdapter
from inductor_debug_jupyter.pipeline.diff.floors import Floors, Spread
from inductor_debug_jupyter.pipeline.diff.judging import judge
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import StochasticArithmetic

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

LOWEST = torch.finfo(torch.float32).min
BEHIND = {"nothing": 0.0, "-1e9": -1e9, "lowest": LOWEST, "-inf": -math.inf, "1e30": 1e30}


@dataclass(frozen=True)
class Drawn:
    """A model with one op to plant a fault in, and its inputs."""

    model: Callable[..., Any]
    inputs: tuple[Any, ...]
    op: str
    fault: Callable[..., Any]
    backward: bool = False


def scaled(by: float) -> Callable[..., Any]:
    return lambda op, *args, **kwargs: op(*args, **kwargs) * by


def masked_gelu(seed: int, fill: float) -> Drawn:
    torch.manual_seed(seed)
    linear, mask = nn.Linear(16, 32), torch.rand(8, 32) < 0.1

    def model(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(linear(x)).masked_fill(mask, fill)

    return Drawn(model, (torch.randn(8, 16),), "gelu", lambda op, x, **_: x.relu())


def masked_scores(seed: int, fill: float) -> Drawn:
    torch.manual_seed(seed)
    q, k = nn.Linear(16, 16), nn.Linear(16, 16)
    mask = torch.full((12, 12), fill).triu(1) if fill else torch.zeros(12, 12)

    def model(x: torch.Tensor) -> torch.Tensor:
        return q(x) @ k(x).transpose(-1, -2) + mask

    def of_the_scores(op: Any, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return op(scores * 1.001, mask)  # a factor of the sum would show as an infinity behind the lowest number

    return Drawn(model, (torch.randn(2, 12, 16),), "add", of_the_scores)


def tall_beside_small(seed: int, fill: float) -> Drawn:
    torch.manual_seed(seed)
    linear = nn.Linear(8, 8)

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x * 1e6, torch.full_like(x, fill), torch.sigmoid(linear(x))], -1)

    return Drawn(model, (torch.randn(4, 8),), "sigmoid", lambda op, x: 1 - op(x))


def one_element(seed: int, fill: float) -> Drawn:
    torch.manual_seed(seed)
    linear = nn.Linear(32, 64)

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.tanh(linear(x)), torch.full((64, 1), fill)], -1)

    def off(op: Any, x: torch.Tensor) -> torch.Tensor:
        result = op(x)
        result.view(-1)[seed * 7 % result.numel()] *= 1.001
        return result

    return Drawn(model, (torch.randn(64, 32),), "tanh", off)


DRAWS = (masked_gelu, masked_scores, tall_beside_small, one_element)


@pytest.mark.every(3)
@pytest.mark.parametrize("fill", BEHIND.values(), ids=BEHIND.keys())
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("seed", range(2))
def test_a_large_element_hides_nothing_and_makes_nothing_up(draw: Any, fill: float, seed: int) -> None:
    drawn = draw(seed, fill)
    faulty = KernelDiffHarness(drawn.model, drawn.inputs, test_backend=wrong(drawn.op, drawn.fault))
    assert faulty.compare().verdict == "mismatch"
    healthy = KernelDiffHarness(drawn.model, drawn.inputs, test_backend=in_float64())
    assert healthy.compare().verdict in {"match", "rounding"}


@pytest.mark.every(2)
@pytest.mark.parametrize("fill", BEHIND.values(), ids=BEHIND.keys())
def test_the_wrong_op_beside_a_mask_is_named_alone(fill: float) -> None:
    drawn = masked_scores(0, fill)

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(drawn.model(x), -1)

    found = KernelDiffHarness(model, drawn.inputs, test_backend=wrong(drawn.op, drawn.fault)).localize()
    assert [culprit.op for culprit in found.culprits] == ["aten.add.Tensor"]
    assert found.verdict == "mismatch"
    healthy = KernelDiffHarness(model, drawn.inputs, test_backend=in_float64()).localize()
    assert healthy.culprits == ()
    assert healthy.verdict in {"match", "rounding"}


@pytest.mark.parametrize("factor", [1.1, 1.001, 0.0])
def test_small_numbers_are_judged_at_their_own_size(factor: float) -> None:
    model, x = (lambda x: torch.softmax(x, -1)), torch.randn(2, 50_000) * 0.1
    assert (
        KernelDiffHarness(model, (x,), test_backend=wrong("_softmax", scaled(factor))).compare().verdict == "mismatch"
    )
    assert KernelDiffHarness(model, (x,), test_backend=in_float64()).compare().verdict in {"match", "rounding"}


def test_a_gradient_of_a_millionth_that_is_lost_is_seen() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return (torch.tanh(x) * 1e-6).sum()

    inputs = (torch.randn(64, requires_grad=True),)
    zeroed = wrong("mul", scaled(0.0))
    assert KernelDiffHarness(model, inputs, test_backend=zeroed, backward=True).compare().verdict == "mismatch"
    assert KernelDiffHarness(model, inputs, test_backend=in_float64(), backward=True).compare().passed


class FixedDtype(nn.Module):
    """Makes tensors of a dtype of its own: it does not run in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16).bfloat16()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(x.shape[0], 16, dtype=torch.bfloat16)
        for step in range(4):
            state = torch.tanh(self.linear(state) + x[:, step])
        return state


def under_autocast(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.autocast("cpu", torch.bfloat16):
        keys = x @ x.transpose(-1, -2)
    return keys.float() * torch.cos(x[..., :1]).float(), keys.softmax(-1)


HEALTHY: dict[str, tuple[Callable[..., Any], tuple[Any, ...], bool]] = {
    "layer norm of bfloat16 around 1000": (
        lambda x: F.layer_norm(x + 1e3, (64,)),
        (torch.randn(8, 64, dtype=torch.bfloat16),),
        False,
    ),
    "batch norm around 1000": (
        nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 4)),
        (torch.randn(64, 16) + 1000,),
        True,
    ),
    "a dtype of its own": (FixedDtype(), (torch.randn(4, 4, 16, dtype=torch.bfloat16),), True),
    "autocast": (under_autocast, (torch.randn(2, 16, 16),), False),
    "a long sum": (lambda x: x.sum(0), (torch.randn(128_000, 4),), False),
    "a difference of equals": (lambda x: (x * 3).sum(-1) - (x + x + x).sum(-1), (torch.randn(64, 100),), False),
    "denormals": (lambda x: torch.exp(x) * 2.0**-130, (torch.randn(100),), False),
    "NaN inside": (lambda x: torch.sqrt(x) * 1.1, (torch.randn(100),), False),
    "argmax": (lambda x: torch.tanh(x).argmax(-1), (torch.randn(64, 100),), False),
    "truth values": (lambda x: torch.sin(x) > torch.cos(x), (torch.randn(4096),), False),
    "complex": (lambda x: torch.fft.fft(x) * 1j, (torch.randn(64),), False),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("backend", ["in_float64", pytest.param("aot_eager_decomp_partition", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_rounds_otherwise_is_no_alarm(name: str, backend: str) -> None:
    model, inputs, backward = HEALTHY[name]
    inputs = tuple(x.detach().clone().requires_grad_(backward and x.is_floating_point()) for x in inputs)
    candidate = in_float64() if backend == "in_float64" else backend
    harness = KernelDiffHarness(model, inputs, test_backend=candidate, backward=backward)
    report = harness.compare()
    assert report.verdict in {"match", "rounding"}, report.summary()
    found = harness.localize()
    assert found.culprits == ()
    assert found.verdict == report.verdict


FAULTY: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, Callable[..., Any]]] = {
    "NaN swallowed": (
        lambda x: torch.log(x) * 2,
        (torch.randn(100),),
        "log",
        lambda op, x: op(x.abs()),
    ),
    "one of 4096 whole numbers": (
        lambda x: torch.cumsum(x * 3, 0),
        (torch.arange(4096),),
        "cumsum",
        lambda op, x, dim: op(x, dim) + (torch.arange(len(x)) == 17),
    ),
    "one of 4096 truth values": (
        lambda x: (x * 2) > 1,
        (torch.arange(4096).float(),),
        "gt",
        lambda op, x, y: op(x, y) ^ (torch.arange(len(x)) == 4000),
    ),
    "denormals gone wrong": (lambda x: x * 3e-39, (torch.rand(64) + 1,), "mul", scaled(1e8)),
    "complex": (lambda x: torch.complex(x, x) * 1.5, (torch.randn(64),), "mul", scaled(1.0001)),
    "bfloat16": (lambda x: torch.tanh(x) + 1, (torch.randn(64, dtype=torch.bfloat16),), "tanh", scaled(1.2)),
}


@pytest.mark.parametrize("name", FAULTY)
def test_faults_in_other_kinds_of_values_are_found_and_named(name: str) -> None:
    model, inputs, op, fault = FAULTY[name]
    harness = KernelDiffHarness(model, inputs, test_backend=wrong(op, fault))
    assert harness.compare().verdict == "mismatch"
    found = harness.localize()
    assert found.verdict == "mismatch"
    assert [culprit.op.split(".")[1] for culprit in found.culprits] == [op]


def test_a_spread_needs_runs_of_the_same_shape_and_judges_whole_numbers_by_equality() -> None:
    spread = Spread(torch.arange(4))
    assert not spread.add(torch.arange(5))
    assert not spread.add(None)
    assert spread.add(torch.tensor([0, 1, 2, 7]))
    assert not judge(torch.tensor([0, 1, 2, 6]), spread).wrong, "rounding decides the last one"
    assert judge(torch.tensor([0, 1, 2, 9]), spread).wrong, "but nothing that no run came near"
    found = judge(torch.tensor([0, 1, 3, 3]), spread)
    assert (found.wrong, found.index, found.expected, found.found) == (True, (2,), 2.0, 3.0)


def test_a_kind_that_rounding_decides_is_no_fault_and_one_that_it_does_not_is() -> None:
    spread = Spread(torch.tensor([1.0, math.inf, math.nan]))
    spread.add(torch.tensor([1.0, 3e38, math.nan]))
    assert not judge(torch.tensor([1.0, 3e38, math.nan]), spread).wrong
    assert judge(torch.tensor([1.0, math.inf, 0.0]), spread).error == math.inf
    assert judge(torch.tensor([math.nan, math.inf, math.nan]), spread).index == (0,)


def test_noise_leaves_generators_inputs_and_masks_alone() -> None:
    x = torch.randn(64)
    kept, state = x.clone(), torch.random.get_rng_state()
    with StochasticArithmetic(0):
        masked = (x + 1).masked_fill(x > 0, LOWEST) + 0.5
        counted = torch.arange(5.0) * 2 + 1
        noisy = torch.exp(x)
    assert torch.equal(x, kept)
    assert torch.equal(state, torch.random.get_rng_state())
    assert set(masked[x > 0].tolist()) == {LOWEST}, "rounding does not make it infinite"
    assert counted.tolist() == [1, 3, 5, 7, 9], "what is exact stays exact"
    assert not torch.equal(noisy, torch.exp(x))
    assert torch.allclose(noisy, torch.exp(x), rtol=1e-5)


def test_a_run_that_raises_is_kept_as_a_problem() -> None:
    def again(seed: int) -> dict[str, torch.Tensor]:
        raise ValueError("other numbers")

    floors = Floors.of({"x": torch.ones(3)}, again)
    assert floors.problems[0] == "ValueError: other numbers"
    assert floors.spreads["x"].runs == 0


TIED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a sum that is one": (lambda x: x.softmax(-1).sum(-1) >= 1, (torch.randn(50, 33),)),
    "whole numbers of a norm": (lambda x: torch.round(F.layer_norm(x, (64,)) * 127).int(), (torch.randn(64, 64),)),
    "steps of a norm": (lambda x: torch.round(F.layer_norm(x, (64,)) * 127) / 127, (torch.randn(64, 64),)),
    "buckets": (lambda x: torch.bucketize(torch.tanh(x), torch.linspace(-1, 1, 33)), (torch.randn(1000),)),
    "a count": (lambda x: (x.softmax(-1).cumsum(-1) < 0.9).sum(-1), (torch.randn(400, 40),)),
    "an entropy at its end": (
        lambda x, y: F.binary_cross_entropy(torch.sigmoid(x), y),
        (torch.randn(8) * 50, torch.rand(8)),
    ),
    "evenly spaced": (lambda x: torch.linspace(-1, 1, 7) * x, (torch.randn(7),)),
    "halves that overflow": (lambda x: (x * x) / x, (torch.randn(500).half() * 300,)),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("backend", ["stick128", pytest.param("aot_eager_decomp_partition", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", TIED)
def test_what_rounding_only_just_decides_is_no_alarm(name: str, backend: str) -> None:
    model, inputs = TIED[name]
    candidate = StickAdapter(check=False, faults=()) if backend == "stick128" else backend
    harness = KernelDiffHarness(model, inputs, test_backend=candidate)
    assert harness.compare().verdict in {"match", "rounding"}, harness.compare().summary()
    assert harness.localize().culprits == ()


@pytest.mark.parametrize("name", ["whole numbers of a norm", "steps of a norm", "buckets", "a count"])
def test_a_fault_beside_ties_is_still_one(name: str) -> None:
    model, inputs = TIED[name]
    off = wrong("_softmax" if name == "a count" else "tanh" if name == "buckets" else "native_layer_norm", _one_off)
    assert KernelDiffHarness(model, inputs, test_backend=off).compare().verdict == "mismatch"


def _one_off(op: Any, *args: Any, **kwargs: Any) -> Any:
    made = op(*args, **kwargs)
    first = made[0] if isinstance(made, tuple) else made
    first[3] = first[3] * 0.9 + 0.2
    return made


HIDDEN: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, Callable[..., Any]]] = {
    "near a zero of tanh": (torch.tanh, (torch.randn(64) * 1e-6,), "tanh", scaled(1.1)),
    "a small sigmoid": (lambda x: torch.log(torch.sigmoid(x)), (torch.randn(64) - 15,), "sigmoid", scaled(1.5)),
    "an index of a tie": (
        lambda x: torch.tanh(x + torch.rand(1000) * 0).argmax(-1),
        (torch.ones(8, 1000) + torch.rand(8, 1000) * 1e-7,),
        "argmax",
        lambda op, x, dim: op(x, dim) * 0 - 12345,
    ),
    "exact beside noise": (
        lambda x, y: torch.cat([(x + 3e4) - 3e4, y.abs()]),
        (torch.randn(64), torch.randn(64)),
        "abs",
        lambda op, x: op(x) * torch.where(torch.arange(64) == 9, 1.01, 1.0),
    ),
    "bfloat16 that is exact": (
        torch.relu,
        (torch.rand(64).bfloat16() + 1,),
        "relu",
        lambda op, x: op(x) * torch.where(torch.arange(64) == 9, 1.05, 1.0).bfloat16(),
    ),
    "an imaginary part": (
        lambda x: torch.complex(x, x * 1e-6),
        (torch.randn(64),),
        "complex",
        lambda op, x, y: op(x, y * 1.3),
    ),
    "a finite number for infinity": (
        lambda x: (x * x) / x,
        (torch.rand(64).half() * 100 + 300,),
        "div",
        lambda op, x, y: torch.where(op(x, y).isinf(), torch.full_like(x, 7.0), op(x, y)),
    ),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_rounding_cannot_do_is_wrong_however_well_it_hides(name: str) -> None:
    model, inputs, op, fault = HIDDEN[name]
    assert KernelDiffHarness(model, inputs, test_backend=wrong(op, fault)).compare().verdict == "mismatch"


@pytest.mark.usefixtures("fresh_dynamo")
def test_float8_outputs_have_a_verdict() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x).to(torch.float8_e4m3fn)

    def device(factor: float) -> Any:
        return lambda graph, _: lambda *args: [(each.float() * factor).to(each.dtype) for each in graph(*args)]

    verdicts = [
        KernelDiffHarness(model, (torch.randn(64),), test_backend=device(by)).compare().verdict for by in (1, -1)
    ]
    assert verdicts == ["match", "mismatch"]
