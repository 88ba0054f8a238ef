"""The worked example of ``pipeline.adapters``: an adapter of one's own in under 60 lines, run from its own text."""

import inspect
import textwrap

import pytest
import torch
from torch import nn

from inductor_debug_jupyter.pipeline import adapters
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def example():
    """The text of the example, with the name that the package root will give."""
    text = inspect.getdoc(adapters)
    block = text.split("CPU::", 1)[1].split("``ToyAdapter()", 1)[0]
    code = textwrap.dedent(block).strip()
    assert len(code.splitlines()) < 60
    return code


def toy(model, x):
    code = example().replace(
        "from inductor_debug_jupyter import", "from inductor_debug_jupyter.pipeline.adapters import"
    )
    names = {"model": model, "x": x}
    exec(compile(code, "<example>", "exec"), names)
    return names["ToyAdapter"](), names["out"]


def test_it_runs_and_says_what_it_does():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU()), torch.randn(8, 64)
    adapter, out = toy(model, x)
    exact = model(x)
    error = (out - exact).abs().max()
    assert 1e-4 < error < 5e-2  # bfloat16 has 8 bits: it differs, by its rounding
    assert adapter.capabilities().description == "matmuls in bfloat16, everything else on the CPU"
    gm = torch.fx.symbolic_trace(lambda a, b: torch.relu(a @ b))
    result = adapter.build(gm, [x, x.T.contiguous()])
    assert [spec["compute"] for spec in result.kernel_specs] == ["bfloat16"]


def test_it_refuses_what_it_does_not_have():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    with pytest.raises(ConstraintViolationError, match="the target has no tanh"):
        toy(model, torch.randn(2, 8))
