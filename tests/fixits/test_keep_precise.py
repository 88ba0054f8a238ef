"""Ops that are kept in float32 in a model of 16 bits: really computed so, with real tensors of both formats."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import fixed
from inductor_debug_jupyter.pipeline.diff.executions import Call
from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.formats.arithmetic import named_arithmetic
from inductor_debug_jupyter.pipeline.numerics.prescription import prescribe

pytestmark = pytest.mark.usefixtures("fresh_dynamo")
BFLOAT16 = {"float32": "bfloat16"}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.inner(x) + 200) + x


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.softmax(-1)


@pytest.fixture
def model() -> Blocks:
    torch.manual_seed(0)
    return Blocks()


X = torch.linspace(-1, 1, 8 * 32).reshape(8, 32)


def off(made: torch.Tensor, model: nn.Module) -> float:
    return float((made.float() - model(X)).detach().norm())


def test_a_prescription_holds_with_real_tensors(model: Blocks) -> None:
    found = prescribe(Call(model, (X,), {}), named_arithmetic("bfloat16"))
    assert found.places == ("blocks.0:add#1", "blocks.1:add#1")
    with torch.no_grad():
        plain, kept = fixed(model, cast=BFLOAT16)(X), fixed(model, cast=BFLOAT16, keep_precise=found.places)(X)
        one = torch.finfo(torch.bfloat16).eps * float(model(X).norm())
        assert off(kept, model) / one == pytest.approx(found.after, rel=0.15)
        assert off(plain, model) / one == pytest.approx(found.before, rel=0.05)
    assert kept.dtype is torch.float32


@pytest.mark.parametrize("places", [["blocks.*:add#1"], ["blocks.*:add"], ["blocks.0:add", "blocks.1:add"]])
def test_a_star_stands_for_every_layer(model: Blocks, places: list[str]) -> None:
    with torch.no_grad():
        kept = off(fixed(model, cast=BFLOAT16, keep_precise=places)(X), model)
        assert kept < off(fixed(model, cast=BFLOAT16)(X), model) / 10


def test_a_model_that_is_narrow_itself(model: Blocks) -> None:
    narrow = Blocks().bfloat16()
    narrow.load_state_dict(model.state_dict())
    with torch.no_grad():
        made = fixed(narrow, keep_precise=["blocks.*:add#1"])(X.bfloat16())
        assert made.dtype is torch.bfloat16
        assert off(made, model) < off(narrow(X.bfloat16()), model) / 5


def test_products_and_softmax_in_float32(model: Blocks) -> None:
    with torch.no_grad():
        every = ["blocks.*.inner:matmul", "blocks.*:add", "blocks.*.norm:layer_norm", ":softmax"]
        made = fixed(model, cast=BFLOAT16, keep_precise=every)(X)
        assert torch.allclose(made, model(X), rtol=1e-6, atol=1e-8)


def test_an_op_that_is_taken_apart_is_named_by_its_parts() -> None:
    class Variance(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            shifted = x + 10
            return (shifted * shifted).mean(-1) - shifted.mean(-1).square()

    found = prescribe(Call(Variance(), (X,), {}), named_arithmetic("bfloat16"))
    assert any("pow" in place for place in found.places)
    with torch.no_grad():
        exact, made = Variance()(X), fixed(Variance(), cast=BFLOAT16, keep_precise=found.places)(X)
        one = torch.finfo(torch.bfloat16).eps * float(exact.norm())
        assert float((made - exact).norm()) / one == pytest.approx(found.after, rel=0.05)


def test_it_has_gradients(model: Blocks) -> None:
    fixed(model, cast=BFLOAT16, keep_precise=["blocks.*:add#1"])(X).square().sum().backward()
    kept = [parameter.grad for parameter in model.parameters()]
    assert all(grad is not None and grad.dtype is torch.float32 for grad in kept)


def test_names_that_are_none(model: Blocks) -> None:
    with pytest.raises(InductorDebugError, match="keep_precise: 3 is not allowed"):
        fixed(model, keep_precise=[3])  # type: ignore[list-item]
