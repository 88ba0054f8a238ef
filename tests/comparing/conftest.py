"""Runs of one program, as it is and with four faults planted, captured once."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from torch._inductor.codegen.cpp import CppScheduling

from inductor_debug_jupyter import capture


class Net(torch.nn.Module):
    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.first, self.second, self.norm = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)
        self.planted = planted

    def forward(self, x):
        x = self.first(x).relu()
        if self.planted:
            torch._dynamo.graph_break()
        return self.norm(self.second(x))


def inverted(x, planted):
    y = x.sin() * 2
    if planted:
        y = torch.linalg.inv(y)
    return y.exp() + 1


def two_sums(x):
    return x.sin().sum(-1), x.cos().sum(0)


def wrong(graph, inputs):
    """A backend whose results are off."""

    def run(*args):
        return tuple(out + 0.25 if isinstance(out, torch.Tensor) else out for out in graph(*args))

    return run


def run_of(folder, *faults: str):
    """Capture and compare; of ``break``, ``fallback``, ``split`` and ``error`` those are planted."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = Net("break" in faults), torch.randn(64, 64)
    with capture(target="stick128", artifacts=str(folder), keep_inputs=True) as session, torch.no_grad():
        torch.compile(model)(x)
        torch.compile(inverted)(x, "fallback" in faults)
        with patch.object(CppScheduling, "MAX_FUSED_KERNEL_ARGS_NUM", 1 if "split" in faults else 500):
            torch.compile(two_sums)(x)
    session.diff(candidate=wrong if "error" in faults else "aot_eager")
    return session


FAULTS = ("break", "fallback", "split", "error")


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Twice the same run, and one with every fault."""
    folder = tmp_path_factory.mktemp("runs")
    return run_of(folder), run_of(folder), run_of(folder, *FAULTS)
