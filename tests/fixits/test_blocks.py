"""Padding in blocks: heads, halves of heads and fused projections keep it; what does not fit a block loses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from inductor_debug_jupyter import capture, fixed
from inductor_debug_jupyter.pipeline.fixits.padded import (
    Block,
    Padded,
    PaddedCall,
    WantedSizes,
    block_of,
    cut,
    filled,
    grown,
    grown_in_blocks,
    tensor_of,
    without_blocks,
    wrapped,
)
from inductor_debug_jupyter.pipeline.fixits.padded_ops import compute
from inductor_debug_jupyter.pipeline.fixits.padded_views import reshaped

pytestmark = pytest.mark.usefixtures("fresh_dynamo")
HEADS, WIDTH = 3, 20


def projected(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Heads of WIDTH: [batch, heads, tokens, width]."""
    return F.linear(x, weight, bias).view(2, 5, HEADS, WIDTH).transpose(1, 2)


def merged(heads: torch.Tensor) -> torch.Tensor:
    return heads.transpose(1, 2).reshape(2, 5, HEADS * WIDTH)


def turned_by_half(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).requires_grad_()


def weights(count: int) -> list[torch.Tensor]:
    return [leaf(HEADS * WIDTH, 64) for _ in range(count)]


def with_rotation(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, out: torch.Tensor) -> Any:
    angles = torch.arange(5.0)[:, None] @ torch.linspace(0.1, 1, WIDTH // 2)[None]
    angles = torch.cat((angles, angles), -1)
    query, key = (
        each * angles.cos() + turned_by_half(each) * angles.sin() for each in (projected(x, a), projected(x, b))
    )
    return F.linear(merged(F.scaled_dot_product_attention(query, key, projected(x, c), is_causal=True)), out)


CASES: dict[str, tuple[dict[int, int], Callable[..., Any], Callable[[], list[torch.Tensor]]]] = {
    "attention": (
        {20: 32},
        lambda x, a, b, c, out: F.linear(
            merged(F.scaled_dot_product_attention(projected(x, a), projected(x, b), projected(x, c))), out
        ),
        lambda: [leaf(2, 5, 64), *weights(3), leaf(64, 60)],
    ),
    "with a bias": (
        {20: 32},
        lambda x, a, bias, out: F.linear(merged(projected(x, a, bias).relu()), out),
        lambda: [leaf(2, 5, 64), *weights(1), leaf(60), leaf(64, 60)],
    ),
    "op by op": (
        {20: 32},
        lambda x, a, b, c, out: F.linear(
            merged(F.softmax(projected(x, a) @ projected(x, b).transpose(-1, -2) / 4, -1) @ projected(x, c)), out
        ),
        lambda: [leaf(2, 5, 64), *weights(3), leaf(64, 60)],
    ),
    "halves of heads": ({10: 16}, with_rotation, lambda: [leaf(2, 5, 64), *weights(3), leaf(64, 60)]),
    "fused": (
        {20: 32},
        lambda x, a: sum(
            each.view(2, 5, HEADS, WIDTH).square().sum(-1) * number
            for number, each in enumerate(F.linear(x, a).chunk(3, -1), 1)
        ),
        lambda: [leaf(2, 5, 64), leaf(3 * HEADS * WIDTH, 64)],
    ),
    "repeated for groups": (
        {20: 32},
        lambda x, a: projected(x, a)[:, :, None].expand(2, HEADS, 2, 5, WIDTH).reshape(2, 6, 5, WIDTH).sum(1),
        lambda: [leaf(2, 5, 64), *weights(1)],
    ),
    "beside what is not in blocks": (
        {20: 32},
        lambda x, a, other: (F.linear(x, a) + other).view(2, 5, HEADS, WIDTH).square().sum(-1),
        lambda: [leaf(2, 5, 64), *weights(1), leaf(2, 5, 60)],
    ),
    "a part that ends in a block": (
        {20: 32},
        lambda x, a: F.linear(x, a)[..., 7:50].sum(-1) + projected(x, a)[..., 3:].sum((1, 3)),
        lambda: [leaf(2, 5, 64), *weights(1)],
    ),
    "an op that knows no blocks": (
        {20: 32},
        lambda x, a: F.layer_norm(merged(projected(x, a)), (60,)).roll(1, -1),
        lambda: [leaf(2, 5, 64), *weights(1)],
    ),
    "one head taken out": (
        {20: 32},
        lambda x, a: projected(x, a)[:, 1] + projected(x, a).unbind(1)[2],
        lambda: [leaf(2, 5, 64), *weights(1)],
    ),
    "a logarithm": (
        {20: 32},
        lambda x, a: (F.linear(x, a).square() + 1).log().view(2, 5, HEADS, WIDTH).amax(-1),
        lambda: [leaf(2, 5, 64), *weights(1)],
    ),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", CASES)
def test_what_comes_out_is_what_came_out(name: str) -> None:
    pads, function, inputs = CASES[name]
    torch.manual_seed(0)
    given = inputs()
    twins = [each.detach().clone().requires_grad_() for each in given]
    expected = function(*given)
    tangent = torch.randn_like(expected)
    expected.backward(tangent)
    graphs: list[torch.fx.GraphModule] = []
    made = fixed(lambda *args: function(*args), pad=pads, backend=lambda graph, _: graphs.append(graph) or graph)
    got = made(*twins)
    got.backward(tangent)
    sizes = {size for node in graphs[0].graph.nodes if "val" in node.meta for size in shape(node)}
    assert set(pads.values()) & sizes or 96 in sizes, "nothing was padded: the case shows nothing"
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    for one, other in zip(given, twins, strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-4, atol=1e-3)


def shape(node: torch.fx.Node) -> tuple[int, ...]:
    value = node.meta["val"]
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


class Rotating(nn.Module):
    """One layer of a Llama, with heads of 64 whose halves are 32."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.o = (nn.Linear(128, 128, bias=False) for _ in range(4))
        self.register_buffer("rates", torch.linspace(0.1, 1, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [each(x).view(1, 16, 2, 64).transpose(1, 2) for each in (self.q, self.k, self.v)]
        angles = torch.arange(16.0)[:, None] @ self.rates[None]
        angles = torch.cat((angles, angles), -1)
        query, key = (each * angles.cos() + turned_by_half(each) * angles.sin() for each in heads[:2])
        out = F.scaled_dot_product_attention(query, key, heads[2])
        return self.o(out.transpose(1, 2).reshape(1, 16, 128))


def test_a_target_takes_heads_whose_halves_are_too_narrow(tmp_path: Path) -> None:
    model, x = Rotating(), torch.randn(1, 16, 128)
    with capture(target="stick128", eager=True, lower="aot", keep_inputs=True, artifacts=str(tmp_path)) as session:
        model(x)
    assert "32 is not a multiple of 64" in [each.title for each in session.findings if each.severity == "error"]
    result = session.fix_all()
    assert result.accepted, str(result)
    assert [each.title for each in result.fixits if each.kind == "pad"] == ["pad 32 to 64 (+100%)"]
    torch.testing.assert_close(result.module(x), model(x), rtol=1e-4, atol=1e-5)
    forward = result.trial.after.captures[0].graphs["forward"] if result.trial is not None else None
    assert forward is not None
    padded = [node.name for node in forward.calls if "constant_pad" in node.target and node.outputs[0].shape[0] == 256]
    assert padded == [], "the host pads the weights"


def test_blocks_and_back() -> None:
    plain = torch.arange(24.0).reshape(2, 12)
    value = grown_in_blocks(plain, 1, Block(3, 5))
    assert isinstance(value, Padded)
    assert value.tensor.shape == (2, 20)
    assert (value.blocks, value.dims, value.zero) == (((1, 3),), (1,), True)
    assert torch.equal(tensor_of(cut(value)), plain)
    assert torch.equal(tensor_of(without_blocks(value)), plain)
    assert grown_in_blocks(value, -1, Block(3, 5)) is value
    ones = filled(value, 1.0)
    assert torch.equal(tensor_of(cut(ones)), plain)
    assert tensor_of(ones)[0].tolist() == [0, 1, 2, 1, 1, 3, 4, 5, 1, 1, 6, 7, 8, 1, 1, 9, 10, 11, 1, 1]
    larger = grown(value, {1: 32})
    assert block_of(larger, 1) == Block(12, 32), "what is padded at its end is in no blocks any more"
    assert torch.equal(tensor_of(cut(larger)), plain)


@pytest.mark.parametrize(
    ("sizes", "to", "memory", "blocks"),
    [
        ((2, 12), (2, 4, 3), (2, 4, 5), ()),
        ((2, 12), (2, 2, 6), (2, 2, 10), ((2, 3),)),
        ((2, 12), (2, 1, 12), (2, 1, 20), ((2, 3),)),
        ((2, 12), (24,), (40,), ((0, 3),)),
        ((2, 12), (2, 6, 2), (2, 6, 2), ()),
    ],
)
def test_a_reshape_keeps_blocks_that_stay_whole(sizes: Any, to: Any, memory: Any, blocks: Any) -> None:
    plain = torch.randn(sizes)
    made = reshaped(grown_in_blocks(plain, 1, Block(3, 5)), to)
    assert tuple(tensor_of(made).shape) == memory
    assert (made.blocks if isinstance(made, Padded) else ()) == blocks
    assert torch.equal(tensor_of(cut(made)), plain.reshape(to))


def test_heads_become_blocks() -> None:
    heads = torch.randn(2, 4, 3)
    made = reshaped(wrapped(F.pad(heads, (0, 2)), (2, 4, 3), True), (2, 12))
    assert isinstance(made, Padded)
    assert (tuple(made.tensor.shape), made.blocks) == ((2, 20), ((1, 3),))
    assert torch.equal(tensor_of(cut(made)), heads.reshape(2, 12))


def test_rows_padded_alike_are_joined_without_their_padding_when_their_columns_differ() -> None:
    one, other = torch.randn(3, 4), torch.randn(3, 4)
    padded = [grown(grown_in_blocks(one, 1, Block(2, 3)), {0: 4}), grown(other, {0: 4, 1: 6})]
    joined = compute(PaddedCall(torch.ops.aten.cat.default, (padded, 0), {}, ((6, 4),), WantedSizes({})))
    assert torch.equal(cut(joined), torch.cat([one, other]))
