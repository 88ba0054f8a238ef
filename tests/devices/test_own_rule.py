"""A rule of one's own: the example in the documentation, run as it stands there."""

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.devices import constraint

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def example():
    """The example's code, as the docstring of the module shows it."""
    text = constraint.__doc__.partition("::\n\n")[2]
    return "\n".join(line.removeprefix("    ") for line in text.splitlines())


def test_the_documented_rule_is_short_and_finds_what_it_says():
    code = example()
    assert 5 < len(code.strip().splitlines()) < 20
    names = {}
    exec(code, names)

    class Deep(nn.Module):
        def forward(self, x):
            return x.reshape(1, 1, 1, 2, 2, 3).exp().sum()

    with capture(eager=True, lower="aot", constraints=[names["AtMostFiveDimensions"]()]) as session:
        Deep()(torch.randn(4, 3))
    (finding,) = session.findings
    assert (finding.rule_id, finding.severity) == ("mine.rank", "error")
    assert finding.title == "exp has a tensor of 6 dimensions"
    assert finding.places[0].source.text.strip() == "return x.reshape(1, 1, 1, 2, 2, 3).exp().sum()"
    torch._dynamo.reset()
    with capture(eager=True, lower="aot", constraints=[names["AtMostFiveDimensions"]()]) as session:
        nn.Sequential(nn.ReLU())(torch.randn(4, 3))
    assert session.captures
    assert session.findings == ()
