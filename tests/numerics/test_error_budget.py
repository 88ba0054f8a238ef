"""Error budgets hold what they predict, and a prescription is seen to work."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from inductor_debug_jupyter.pipeline.diff.executions import Call
from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.formats.arithmetic import Arithmetic, named_arithmetic
from inductor_debug_jupyter.pipeline.numerics.error_budget import error_budget
from inductor_debug_jupyter.pipeline.numerics.prescription import prescribe
from inductor_debug_jupyter.pipeline.records.numerics import ErrorBudget

NARROW = ("float16", "bfloat16", "bfloat16-products")


class Offset(nn.Module):
    """A sum around 300 goes into a layer norm: in 16 bits nearly nothing is left of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.rest = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = nn.functional.layer_norm(self.first(x) + 300, (64,))
        for layer in self.rest:
            h = h + nn.functional.gelu(layer(h)) * 0.1
        return h


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = (q @ k.transpose(-1, -2) / 32**0.5).softmax(-1)
        return x + self.out(weights @ v)


def models() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    torch.manual_seed(0)
    convolutions = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(576, 10))
    return {
        "mlp": (nn.Sequential(nn.Linear(96, 64), nn.GELU(), nn.Linear(64, 48)), torch.randn(32, 96)),
        "convolutions": (convolutions.eval(), torch.randn(8, 3, 8, 8)),
        "attention": (Attention(), torch.randn(4, 16, 32)),
    }


@pytest.mark.every(3)
@pytest.mark.parametrize("numerics", NARROW)
@pytest.mark.parametrize("name", ["mlp", "convolutions", "attention"])
def test_the_prediction_is_what_a_run_shows(name: str, numerics: str) -> None:
    model, x = models()[name]
    budget = error_budget(Call(model, (x,), {}), named_arithmetic(numerics))
    assert budget.seen / 1.3 <= budget.predicted <= budget.seen * 1.3
    assert sum(share.share for share in budget.shares) == pytest.approx(1)
    assert [share.share for share in budget.shares] == sorted((share.share for share in budget.shares), reverse=True)
    for share in budget.shares:
        if share.seen_alone is not None and share.share > 0.05:
            assert share.seen_alone / 1.6 <= share.predicted_alone <= share.seen_alone * 1.6


def test_shares_name_the_line_and_the_module() -> None:
    model, x = Offset(), torch.randn(16, 64)
    budget = error_budget(Call(model, (x,), {}), named_arithmetic("bfloat16"))
    first = budget.shares[0]
    assert first.share > 0.9
    assert first.op == "aten.add.Tensor"
    assert first.source is not None
    assert "+ 300" in first.source.text
    assert "off by" in str(budget)
    assert "half of it" in str(budget)


def test_keeping_one_op_of_many_precise_is_enough() -> None:
    torch.manual_seed(0)
    model, x = Offset(), torch.randn(16, 64)
    found = prescribe(Call(model, (x,), {}), named_arithmetic("bfloat16"))
    assert found.before > 20
    assert found.is_reached
    assert found.after <= 1.1
    assert [share.op for share in found.kept] == ["aten.add.Tensor"]
    assert found.ops > 10
    assert "keep aten.add.Tensor" in str(found)


def test_a_model_within_the_format_needs_nothing() -> None:
    model, x = models()["mlp"]
    found = prescribe(Call(model, (x,), {}), named_arithmetic("float16"))
    assert found.kept == ()
    assert "no op needs float32" in str(found)


def test_the_users_model_is_as_before() -> None:
    model, x = models()["convolutions"]
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    budget = error_budget(Call(model, (x,), {}), named_arithmetic("float16"))
    assert isinstance(budget, ErrorBudget)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"of": "nothing"}, "of='nothing'; allowed: output"),
        ({"arithmetic": Arithmetic()}, "rounds as the model itself does"),
    ],
)
def test_what_cannot_be_answered_is_one_line(asked: dict[str, object], said: str) -> None:
    model, x = models()["mlp"]
    with pytest.raises(InductorDebugError, match=said):
        error_budget(Call(model, (x,), {}), **{"arithmetic": named_arithmetic("float16"), **asked})  # type: ignore[arg-type]


def test_a_goal_is_a_number_above_zero() -> None:
    model, x = models()["mlp"]
    with pytest.raises(InductorDebugError, match="goal=0; allowed: a number above 0"):
        prescribe(Call(model, (x,), {}), named_arithmetic("float16"), goal=0)
