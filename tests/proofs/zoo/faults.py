"""What the zoo makes wrong: changes of one op's result, and changes of what a backend hands over.

An :class:`Alteration` is written for tensors (custom backends and decompositions), for Inductor's IR (lowerings) and
for FX nodes (passes), as far as each can say it. Sizes are well above rounding and far from absurd: a percent, a
thousandth, one element of a hundred by 5%.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from tests.proofs.inside_torch.planting import Lowered, drop, scale, swap_operands

EVERY = 97
"""Of so many elements one is wrong, where a fault is in a few elements only."""

_FLOATS = frozenset(
    [
        "tanh",
        "gelu",
        "sigmoid",
        "silu",
        "softmax",
        "exp",
        "erf",
        "mul",
        "sub",
        "add",
        "div",
        "relu",
        "rsqrt",
        "cos",
        "sin",
        "mean",
        "polar",
        "log",
        "sum",
    ]
)
_UNARY = frozenset(["tanh", "gelu", "sigmoid", "silu", "exp", "erf", "relu", "rsqrt", "cos", "sin"])


@dataclass(frozen=True)
class Alteration:
    """One way in which an op's result is wrong.

    Args:
        name: as in a case's id.
        ops: the ops that it makes sense on.
        kind: the fault's kind in the table, where it has one of its own.
        tensors: ``(original, *args) → result`` on tensors.
        lowered: the same on Inductor's IR.
        node: the same as an edit of a node that Inductor goes on with; told how to multiply at that level.
    """

    name: str
    ops: frozenset[str]
    tensors: Callable[..., Any]
    lowered: Callable[..., Any] | None = None
    node: Callable[[Node, Any], None] | None = None
    kind: str = ""


def _scaled(factor: float) -> dict[str, Any]:
    return {
        "tensors": lambda original, *args, **kwargs: original(*args, **kwargs) * factor,
        "lowered": lambda original, *args, **kwargs: Lowered.of("mul", original(*args, **kwargs), factor),
        "node": lambda node, multiply: scale(node, factor, multiply),
    }


def _some(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    made = original(*args, **kwargs)
    flat = torch.arange(made.numel(), device=made.device).view(made.shape) % EVERY == EVERY // 2
    return torch.where(flat, made * 1.05 + 1e-3, made)


def _off_by_one(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    made = original(*args, **kwargs)
    return made + (torch.arange(made.numel(), device=made.device).view(made.shape) % EVERY == EVERY // 2).to(made.dtype)


def _flipped(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    made = original(*args, **kwargs)
    return made ^ (torch.arange(made.numel(), device=made.device).view(made.shape) % EVERY == EVERY // 2)


def _narrow(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    made = original(*args, **kwargs)
    return made.to(torch.bfloat16).to(made.dtype)


def _lowered_some(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    made = original(*args, **kwargs)
    dtype = made.get_dtype()
    return Lowered.each(
        made,
        EVERY,
        lambda ops, x: ops.add(ops.mul(x, ops.constant(1.05, dtype)), ops.constant(1e-3, dtype)),
    )


def _lowered_narrow(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Eight bits of each number, by Veltkamp's splitting: Inductor takes a cast there and back out again."""
    made = original(*args, **kwargs)
    high = Lowered.of("mul", made, 65537.0)
    return Lowered.of("sub", high, Lowered.of("sub", high, made))


ALTERATIONS = {
    each.name: each
    for each in (
        Alteration("scale", _FLOATS, **_scaled(1.01)),
        Alteration("scale-small", _UNARY | {"softmax"}, **_scaled(1.001)),
        Alteration(
            "as-relu",
            frozenset({"gelu", "silu", "tanh"}),
            lambda original, x, *_, **__: torch.relu(x),
            lambda original, x, *_, **__: Lowered.of("relu", x),
        ),
        Alteration(
            "inverted",
            frozenset({"sigmoid"}),
            lambda original, x: 1 - original(x),
            lambda original, x: Lowered.of("add", Lowered.of("neg", original(x)), 1.0),
        ),
        Alteration(
            "dropped",
            frozenset({"relu", "tanh", "add", "mul", "gelu", "silu", "masked_fill", "sub", "sigmoid"}),
            lambda original, x, *_, **__: x,
            None,
            lambda node, _: drop(node),
        ),
        Alteration(
            "swapped",
            frozenset({"sub"}),
            lambda original, x, y, *rest: original(y, x, *rest),
            lambda original, x, y, *rest: original(y, x, *rest),
            lambda node, _: swap_operands(node),
        ),
        Alteration("operand", frozenset({"add"}), lambda original, x, y, *rest: original(x, y * 1.01, *rest)),
        Alteration(
            "log-abs",
            frozenset({"log"}),
            lambda original, x: original(x.abs()),
            lambda original, x: original(Lowered.of("abs", x)),
            kind="nan-swallowed",
        ),
        Alteration("some", _FLOATS, _some, _lowered_some, kind="k-of-n"),
        Alteration(
            "off-by-one",
            frozenset({"bitwise_xor", "cumsum"}),
            _off_by_one,
            lambda original, *args, **kwargs: Lowered.each(
                original(*args, **kwargs), EVERY, lambda ops, x: ops.add(x, ops.constant(1, torch.int64))
            ),
            kind="k-of-n",
        ),
        Alteration(
            "flipped",
            frozenset({"logical_xor"}),
            _flipped,
            lambda original, *args: Lowered.each(original(*args), EVERY, lambda ops, x: ops.logical_not(x)),
            kind="k-of-n",
        ),
        Alteration("in-bfloat16", _FLOATS - {"polar", "log"}, _narrow, _lowered_narrow, kind="wrong-dtype"),
    )
}
"""Every alteration by name."""

MULTIPLY = {"pre-grad": operator.mul}
"""Pass → what a multiplication is called in its graphs; elsewhere ``aten.mul.Tensor``."""
