"""Ops that know padded tensors: what they give stands for what they give without padding, and so do the gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from inductor_debug_jupyter.pipeline.fixits.backend import RewritingBackend
from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.torch_compat.regions import compile_alone, undisturbed

PADS = {5: 8, 6: 8, 10: 16, 3: 4, 12: 16}


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).requires_grad_()


CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "linear": (F.linear, lambda: (leaf(4, 10), leaf(6, 10), leaf(6))),
    "linear without bias": (lambda x, w: F.linear(x, w).relu(), lambda: (leaf(2, 4, 10), leaf(6, 10))),
    "two linears": (lambda x, a, b: F.linear(F.gelu(F.linear(x, a)), b), lambda: (leaf(4, 5), leaf(6, 5), leaf(3, 6))),
    "matmul": (torch.matmul, lambda: (leaf(2, 5, 10), leaf(2, 10, 6))),
    "matmul of a constant": (lambda x, y: (x + 1) @ (y - 2), lambda: (leaf(2, 5, 10), leaf(10, 6))),
    "mm": (torch.mm, lambda: (leaf(5, 10), leaf(10, 6))),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), lambda: (leaf(2, 3, 7, 7), leaf(6, 3, 3, 3), leaf(6))),
    "conv1d": (lambda x, w: F.conv1d(x, w), lambda: (leaf(2, 3, 7), leaf(6, 3, 3))),
    "depthwise": (lambda x, w: F.conv1d(x, w, groups=6), lambda: (leaf(2, 6, 7), leaf(6, 1, 3))),
    "grouped": (lambda x, w: F.conv1d(x, w, groups=3), lambda: (leaf(2, 6, 7), leaf(12, 2, 3))),
    "batch norm": (
        lambda x, w, b: F.batch_norm(x, torch.zeros(6), torch.ones(6), w, b).relu(),
        lambda: (leaf(2, 6, 3, 3), leaf(6), leaf(6)),
    ),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (6,), w, b), lambda: (leaf(4, 6), leaf(6), leaf(6))),
    "bare layer norm": (lambda x: F.layer_norm(x, (6,)), lambda: (leaf(4, 6),)),
    "softmax": (lambda x: F.softmax(x, -1) * 2, lambda: (leaf(4, 10),)),
    "softmax of rows": (lambda x: F.softmax(x, 0), lambda: (leaf(4, 10),)),
    "log softmax and loss": (
        lambda x: F.nll_loss(F.log_softmax(x, -1), torch.tensor([1, 2, 3, 9])),
        lambda: (leaf(4, 10),),
    ),
    "sum": (lambda x: (x + 3).sum(-1), lambda: (leaf(4, 10),)),
    "sum of all": (lambda x: (x + 3).sum(), lambda: (leaf(4, 10),)),
    "mean": (lambda x: (x + 3).mean(-1, keepdim=True) + x, lambda: (leaf(4, 10),)),
    "amax": (lambda x: (x - 30).amax(-1), lambda: (leaf(4, 10),)),
    "amin": (lambda x: (x + 30).amin(-1), lambda: (leaf(4, 10),)),
    "division": (lambda x, y: x / (y + 4), lambda: (leaf(4, 10), leaf(4, 10))),
    "square root": (lambda x: (x * x).sqrt(), lambda: (leaf(4, 10),)),
    "logarithm": (lambda x: (x * x + 1).log(), lambda: (leaf(4, 10),)),
    "power": (lambda x: (x * x + 1) ** -0.5, lambda: (leaf(4, 10),)),
    "broadcast": (lambda x, y: x * y + 1, lambda: (leaf(4, 10), leaf(10))),
    "broadcast over rows": (lambda x, y: x * y, lambda: (leaf(4, 10), leaf(4, 1))),
    "in place": (lambda x: (x * 2).add_(1).relu_(), lambda: (leaf(4, 10),)),
    "where": (lambda x, y: torch.where(x > 0, x, y), lambda: (leaf(4, 10), leaf(4, 10))),
    "reshape that splits": (lambda x: x.reshape(4, 2, 5).sum(1), lambda: (leaf(4, 10),)),
    "reshape that keeps": (lambda x: x.reshape(2, 2, 10) * 2, lambda: (leaf(4, 10),)),
    "reshape that merges": (lambda x: x.reshape(4, 60) * 2, lambda: (leaf(4, 6, 10),)),
    "flatten": (lambda x: x.flatten(1) * 2, lambda: (leaf(2, 6, 1, 1),)),
    "transpose": (lambda x: x.transpose(1, 2).contiguous() * 2, lambda: (leaf(2, 5, 10),)),
    "permute": (lambda x: x.permute(2, 0, 1) * 2, lambda: (leaf(2, 5, 10),)),
    "unsqueeze and expand": (lambda x: x.unsqueeze(1).expand(4, 3, 10) * 2, lambda: (leaf(4, 10),)),
    "squeeze": (lambda x: x.squeeze(1) * 2, lambda: (leaf(4, 1, 10),)),
    "slice": (lambda x: x[:, 2:7] * 2, lambda: (leaf(4, 10),)),
    "slice of rows": (lambda x: x[1:3] * 2, lambda: (leaf(4, 10),)),
    "select": (lambda x: x[:, 0] * 2, lambda: (leaf(4, 5, 10),)),
    "split": (lambda x: sum(part.sum() for part in x.split([4, 3, 3], -1)), lambda: (leaf(4, 10),)),
    "chunk": (lambda x: x.chunk(2, -1)[1] * 2, lambda: (leaf(4, 10),)),
    "cat": (lambda x, y: torch.cat([x, y], -1) * 2, lambda: (leaf(4, 10), leaf(4, 6))),
    "cat of rows": (lambda x, y: torch.cat([x, y], 0) * 2, lambda: (leaf(4, 10), leaf(2, 10))),
    "stack": (lambda x, y: torch.stack([x, y], 1) * 2, lambda: (leaf(4, 10), leaf(4, 10))),
    "cumsum": (lambda x: (x + 1).cumsum(-1), lambda: (leaf(4, 10),)),
    "embedding": (lambda w: F.embedding(torch.tensor([1, 4, 2]), w) * 2, lambda: (leaf(7, 10),)),
    "max pool": (lambda x: F.max_pool2d(x - 3, 2), lambda: (leaf(2, 6, 4, 4),)),
    "average pool": (lambda x: F.adaptive_avg_pool2d(x, 1), lambda: (leaf(2, 6, 4, 4),)),
    "attention": (F.scaled_dot_product_attention, lambda: (leaf(2, 2, 4, 10), leaf(2, 2, 4, 10), leaf(2, 2, 4, 10))),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
        lambda: (leaf(2, 2, 5, 10), leaf(2, 2, 5, 10), leaf(2, 2, 5, 6)),
    ),
    "attention by hand": (
        lambda q, k, v: F.softmax(q @ k.transpose(-1, -2) / 3, -1) @ v,
        lambda: (leaf(2, 5, 10), leaf(2, 5, 10), leaf(2, 5, 6)),
    ),
    "an op that knows nothing of it": (lambda x: torch.roll(x, 1, -1) + torch.flip(x, (-1,)), lambda: (leaf(4, 10),)),
    "gather": (lambda x: x.gather(1, torch.tensor([[9], [0], [3], [4]])), lambda: (leaf(4, 10),)),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", CASES)
def test_what_comes_out_is_what_came_out(name: str) -> None:
    function, inputs = CASES[name]
    torch.manual_seed(0)
    given = inputs()
    twins = tuple(each.detach().clone().requires_grad_() for each in given)
    expected = function(*given)
    torch.manual_seed(1)
    tangent = torch.randn_like(expected)
    expected.backward(tangent)
    backend = RewritingBackend(Rewrite(pads=PADS))
    with undisturbed():
        got = compile_alone(lambda *args: function(*args), backend)(*twins)
    got.backward(tangent)
    assert backend.waste.padding > 0, "nothing was padded: the case shows nothing"
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    for one, other in zip(given, twins, strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-4, atol=1e-5)


def test_two_rewrites_together_take_the_larger_padding() -> None:
    both = Rewrite(pads={5: 8}, channels_last=True) | Rewrite(pads={5: 16, 6: 8}, decompose=frozenset({"gelu"}))
    assert dict(both.pads) == {5: 16, 6: 8}
    assert both.channels_last
    assert both.decompose == {"gelu"}


def test_the_cheapest_come_first() -> None:
    def made(kind: Any, waste: float = 0.0) -> FixIt:
        return FixIt(kind, kind, "", Rewrite(), waste)

    mixed = [made("pad", 0.5), made("cast"), made("pad", 0.1), made("reorder")]
    assert [each.title for each in sorted(mixed, key=lambda each: each.cost)] == ["reorder", "cast", "pad", "pad"]
