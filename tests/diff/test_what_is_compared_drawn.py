"""Drawn models with one fault beside the numbers: the verdict, the path that is named, nothing of the user's changed.

A model is a stack of drawn parts over modules and tensors that it reaches in a drawn way. The backend is AOTAutograd
with eager kernels; a fault wraps what it made. Seeded, so that a failure can be run again: the test's id has the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.backends.debugging import aot_eager

from inductor_debug_jupyter import KernelDiffHarness
from inductor_debug_jupyter.pipeline.rerun.reachable import reach

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

GLOBAL_STATE = torch.zeros(6)
WIDTH = 6


@dataclass
class Drawn:
    """A model, and which of its paths a fault of each kind shows in."""

    call: Callable[..., Any]
    written: set[str]
    differentiable: set[str]
    aliased: bool


class Parts(nn.Module):
    """Layers, and one piece of state of a drawn kind that every call writes to."""

    def __init__(self, draw: random.Random, state: str, output: str) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Linear(WIDTH, WIDTH)]
        for _ in range(draw.randint(0, 2)):
            layers.append(draw.choice([nn.Tanh, lambda: nn.Linear(WIDTH, WIDTH), lambda: nn.LayerNorm(WIDTH)])())
        self.layers = nn.Sequential(*layers)
        self.state, self.output = state, output
        if state == "buffer":
            self.register_buffer("seen", torch.zeros(WIDTH))
        elif state == "parameter":
            self.seen = nn.Parameter(torch.zeros(WIDTH), requires_grad=False)
        elif state == "attribute":
            self.seen = torch.zeros(WIDTH)
        elif state == "list":
            self.many = [torch.zeros(1), torch.zeros(WIDTH)]
        elif state == "dict":
            self.named = {"seen": torch.zeros(WIDTH)}

    def _slot(self) -> torch.Tensor:
        if self.state == "list":
            return self.many[1]
        if self.state == "dict":
            return self.named["seen"]
        return GLOBAL_STATE if self.state == "global" else self.seen

    def forward(self, x: torch.Tensor) -> Any:
        with torch.no_grad():
            self._slot().add_(x[0].detach() + 1)
        out = self.layers(x) * 1.5
        if self.output == "transposed":
            return out.mT
        if self.output == "with a view":
            return out, out[:, :2]
        if self.output == "with the input":
            return out, x.view(-1)
        return out


PATHS = {
    "buffer": "buffer:{}seen",
    "parameter": "parameter:{}seen",
    "attribute": "attribute:{}seen",
    "list": "attribute:{}many[1]",
    "dict": "attribute:{}named['seen']",
    "global": "global:GLOBAL_STATE",
}


class Holder:
    """A callable that is no module."""

    def __init__(self, parts: nn.Module) -> None:
        self.parts = parts

    def run(self, x: torch.Tensor) -> Any:
        return self.parts(x)


def drawn_model(draw: random.Random) -> tuple[Drawn, Parts]:
    state = draw.choice(list(PATHS))
    output = draw.choice(["plain", "transposed", "with a view", "with the input"])
    parts = Parts(draw, state, output)
    reached, prefix = draw.choice(["module", "closure", "method"]), ""
    call: Callable[..., Any] = parts
    if reached == "closure":

        def call(x: torch.Tensor) -> Any:
            return parts(x)

        prefix = "parts."
    elif reached == "method":
        call, prefix = Holder(parts).run, "parts."
    names = {f"grad:{prefix}{name}" for name, each in parts.named_parameters() if each.requires_grad}
    return Drawn(call, {PATHS[state].format(prefix)}, names, output.startswith("with")), parts


Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def planted(wrap: Wrap | None) -> Callable[..., Any]:
    def backend(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        run = aot_eager(graph_module, example_inputs)
        return run if wrap is None else wrap(run)

    return backend


def lost_write(run: Callable[..., Any]) -> Callable[..., Any]:
    def forgetful(*args: Any) -> Any:
        kept = [arg if arg.requires_grad or arg.ndim > 1 else arg.clone() for arg in args]
        return run(*kept)

    return forgetful


def lost_gradient(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: run(*(arg.detach() if isinstance(arg, nn.Parameter) else arg for arg in args))


def wrong_stride(run: Callable[..., Any]) -> Callable[..., Any]:
    def moved(*args: Any) -> Any:
        first, *rest = run(*args)
        return (first.mT.contiguous().mT if first.is_contiguous() else first.contiguous(), *rest)

    return moved


def wrong_alias(run: Callable[..., Any]) -> Callable[..., Any]:
    def apart(*args: Any) -> Any:
        *first, last = run(*args)
        return (*first, last.clone())

    return apart


def only_call_2(run: Callable[..., Any]) -> Callable[..., Any]:
    calls = iter(range(1, 100))

    def late(*args: Any) -> Any:
        first, *rest = run(*args)
        return (first * 1.5 if next(calls) == 2 else first, *rest)

    return late


FAULTS: dict[str, Wrap] = {
    "lost write": lost_write,
    "lost gradient": lost_gradient,
    "wrong stride": wrong_stride,
    "wrong alias": wrong_alias,
    "only call 2": only_call_2,
}


def snapshot(parts: Parts) -> dict[str, tuple[int, torch.Tensor, Any]]:
    """Every tensor of the user's: which object it is, its value, its gradient; and the generators."""
    found = {
        leaf.path: (id(leaf.tensor), leaf.tensor.detach().clone(), leaf.tensor.grad) for leaf in reach(parts).leaves
    }
    found["global"] = (id(GLOBAL_STATE), GLOBAL_STATE.clone(), None)
    found["torch"] = (0, torch.get_rng_state(), None)
    found["numpy"] = (0, torch.from_numpy(np.random.get_state()[1].astype(np.int64)), None)  # type: ignore[index]
    return found


def assert_untouched(before: dict[str, Any], parts: Parts) -> None:
    after = snapshot(parts)
    assert before.keys() == after.keys()
    for path, (identity, value, gradient) in before.items():
        assert after[path][0] == identity, path
        assert torch.equal(after[path][1], value), path
        assert after[path][2] is gradient, path


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(6))
def test_every_planted_fault_is_named_and_nothing_else_is(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    model, parts = drawn_model(draw)
    x = torch.randn(3, WIDTH)
    first = parts(x.clone())
    (first[0] if isinstance(first, tuple) else first).sum().backward()
    before = snapshot(parts)
    python = random.getstate()
    backward = draw.random() < 0.5

    def run(fault: Wrap | None, **options: Any) -> Any:
        options = {"backward": backward, **options}
        return KernelDiffHarness(model.call, (x,), test_backend=planted(fault), **options).compare()

    clean = run(None, repeats=draw.choice([1, 2]))
    assert clean.verdict in {"match", "rounding"}, str(clean)
    assert model.written <= {output.path for output in clean.outputs}
    for name, fault in FAULTS.items():
        if name == "wrong alias" and not model.aliased:
            continue
        options = {"backward": True} if name == "lost gradient" else {"repeats": 2} if name == "only call 2" else {}
        report = run(fault, **options)
        wrong = {output.path: output.reason for output in report.outputs if output.verdict == "mismatch"}
        assert report.verdict == "mismatch", f"{name}: {report}"
        if name == "lost write":
            assert model.written <= set(wrong), name
        elif name == "lost gradient":
            assert model.differentiable <= set(wrong), name
        elif name == "wrong stride":
            assert any("the strides differ" in reason for reason in wrong.values()), wrong
        elif name == "wrong alias":
            assert any("shares memory with" in reason for reason in wrong.values()), wrong
        else:
            assert all(path.startswith("call 2: ") for path in wrong), wrong
    assert_untouched(before, parts)
    assert random.getstate() == python
