"""The estimated peak of programs drawn at random, against what is alive while they run eagerly: within 5%."""

import pytest
import torch
from proofs import draws
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.torch_compat.peak import MeasuredPeak

from ..support.drawn_programs import Attention, drawn, eager_peak

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def estimated(program, x, training, lower):
    torch._dynamo.reset()
    with capture(eager=True, lower=lower, constraints=[]) as session, torch.set_grad_enabled(training):
        result = program(x)
        if training:
            result.backward()
    assert len(session.captures) == 1
    return session


@pytest.mark.parametrize(
    ("training", "lower", "seeds"),
    [
        (False, "aot", range(draws(24, 6))),
        (False, "inductor", range(100, 100 + draws(6, 2))),
        (True, "aot", range(200, 200 + draws(16, 4))),
    ],
    ids=["inference", "inference as Inductor lowers it", "training"],
)
def test_the_peak_is_that_of_the_program_as_it_was_written(training, lower, seeds):
    wrong, tried = [], 0
    for seed in seeds:
        program, x, text = drawn(seed, training)
        torch._dynamo.reset()
        measured = eager_peak(program, x, training)
        if measured is None:
            continue
        tried += 1
        session = estimated(program, x, training, lower)
        if abs(session.peak_memory / measured - 1) > 0.05:
            peaks = [(record.stage, record.peak, record.peak_node) for record in session.memory]
            wrong.append(f"{seed}: {text}: {session.peak_memory:,} for {measured:,}: {peaks}")
    assert not wrong, "\n".join(wrong)
    assert tried > len(seeds) // 2


class InPlace(nn.Module):
    """The chain of the defect: every write was counted as a new tensor."""

    def forward(self, x):
        y = x + 1
        y.relu_()
        y.mul_(2)
        return y.sigmoid_()


def test_a_chain_of_writes_in_place_takes_one_tensor():
    x = torch.randn(64, 256)
    session = estimated(InPlace().eval(), x, False, "aot")
    assert session.peak_memory == 2 * x.nbytes


@pytest.mark.parametrize("own", [True, False], ids=["sdpa", "written out"])
def test_attention_in_training_is_right_when_the_model_itself_is_run(own):
    """No replay of a graph: the module's own forward, where Python names no tensor longer than needed."""
    model, x = nn.Sequential(Attention(own, False), Attention(own, False)), torch.randn(4, 16, 32)
    with MeasuredPeak([*model.parameters(), x]) as measured:
        model(x).mean().backward()
    model.zero_grad(set_to_none=True)
    torch._dynamo.reset()
    with capture(eager=True, lower="aot", constraints=[]) as session:
        model(x).mean().backward()
    assert session.peak_memory == pytest.approx(measured.peak, rel=0.05)


def test_the_rule_about_the_peak_and_the_session_name_one_number():
    from inductor_debug_jupyter import MemoryConstraint

    x = torch.randn(64, 256)
    for limit, findings in ((2 * x.nbytes, 0), (2 * x.nbytes - 1, 1)):
        torch._dynamo.reset()
        rules = [MemoryConstraint(None, peak=limit)]
        with capture(eager=True, lower="aot", constraints=rules) as session, torch.no_grad():
            InPlace()(x)
        assert len(session.findings) == findings


def test_what_a_backward_does_not_read_is_still_the_callers():
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), torch.randn(4, 64)
    with capture(eager=True, lower="aot", constraints=[]) as session:
        model(x).mean().backward()
    (backward,) = (record for record in session.memory if record.stage == "backward")
    assert {tensor.origin for tensor in backward.alive} >= {"0.bias", "1.bias"}
    assert sum(tensor.bytes for tensor in backward.alive) == backward.peak == max(backward.timeline)
