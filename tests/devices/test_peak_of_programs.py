"""The peak of programs drawn at random and of small models, against what is alive while they run eagerly: within 5%."""

from dataclasses import replace

import pytest
import torch
from proofs import draws
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.devices.memory import memory_notes, memory_of
from inductor_debug_jupyter.pipeline.records import EagerRun
from tests.proofs.inside_torch.peak import MeasuredPeak

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
        (False, "aot", range(draws(24, 3))),
        (False, "inductor", range(100, 100 + draws(6, 1))),
        (True, "aot", range(200, 200 + draws(16, 2))),
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


def width(**names):
    """A config of two layers of 64 in four heads, without dropout; ``names`` are what the model calls them."""
    return {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, **names}


MODELS = {
    "Llama": width(num_key_value_heads=2, intermediate_size=128, use_cache=False, attn_implementation="eager"),
    "DebertaV2": width(intermediate_size=128, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "GPT2": {"vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "use_cache": False},
    "Mamba": {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1, "state_size": 8, "use_cache": False},
    "Bert": width(intermediate_size=128, attn_implementation="eager"),
    "ViT": width(intermediate_size=128, image_size=32, patch_size=4),
    "Swin": {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2], "num_heads": [2], "window_size": 4},
    "ConvNext": {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2},
}


class Loss(nn.Module):
    """The mean of a model's first result."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)[0].mean()


@pytest.mark.every(3)
@pytest.mark.parametrize("name", [*MODELS][: draws(len(MODELS), 2)])
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_the_peak_of_a_model(name, training):
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(**MODELS[name])
    model = Loss(getattr(transformers, f"{name}Model")(config)).train(training)
    is_image = name in {"ViT", "Swin", "ConvNext"}
    x = torch.randn(2, 3, 32, 32) if is_image else torch.randint(0, 100, (2, 8))
    measured = eager_peak(model, x, training)
    assert estimated(model, x, training, "aot").peak_memory == pytest.approx(measured, rel=0.05)


@pytest.mark.every(3)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", ["mask", "padding", "other keys", "one more key"])
def test_multihead_attention_in_training(kind, need_weights):
    """The defect: twice what eager needs, since AOTAutograd makes a whole tensor for the gradient of each part."""
    x, options = torch.randn(4, 16, 32), {}
    heads = nn.MultiheadAttention(32, 4, batch_first=True, add_bias_kv=kind == "one more key", dropout=0.1)
    if kind == "mask":
        options["attn_mask"] = torch.ones(16, 16).triu(1) > 0
    if kind == "padding":
        options["key_padding_mask"] = torch.arange(16).expand(4, 16) > 12
    keys = torch.randn(4, 24, 32) if kind == "other keys" else x

    def step():
        heads(x, keys, keys, need_weights=need_weights, **options)[0].mean().backward()

    with MeasuredPeak([*heads.parameters(), x, keys, *options.values()]) as measured:
        step()
    heads.zero_grad(set_to_none=True)
    with capture(eager=True, lower="aot", constraints=[]) as session:
        step()
    assert session.peak_memory == pytest.approx(measured.peak, rel=0.05)


class Half(nn.Module):
    """A model under autocast, that of its own or that of the caller."""

    def __init__(self, own):
        super().__init__()
        self.model, self.own = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), own

    def forward(self, x):
        if not self.own:
            return self.model(x)
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(x)


@pytest.mark.parametrize("own", [True, False], ids=["in the program", "around it"])
def test_autocast_is_that_of_the_program_and_stays_in_it(own):
    model, x = Half(own), torch.randn(128, 64)

    def run():
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=not own):
            model(x)

    with MeasuredPeak([*model.parameters(), x]) as measured:
        run()
    random = torch.get_rng_state()
    with capture(eager=True, lower="aot", constraints=[]) as session:
        run()
    assert session.peak_memory == pytest.approx(measured.peak, rel=0.05)
    assert torch.equal(torch.get_rng_state(), random)
    assert not torch.is_autocast_enabled("cpu")
    assert torch.is_grad_enabled()


def test_what_cannot_be_run_without_data_is_said():
    x = torch.randn(64, 256)
    (compiled,) = estimated(InPlace().eval(), x, False, "aot").captures
    failed = replace(compiled, eager=EagerRun(failed="ValueError: no"))
    (note,) = memory_notes([failed])
    assert "could not be run without data (ValueError: no)" in note.message
    assert memory_of(compiled.graph("forward"), failed).peak == 3 * x.nbytes, "AOTAutograd's graph has no write"
    assert not [*memory_notes([compiled])]


@torch._dynamo.config.patch(allow_rnn=True)
def test_the_workspace_of_a_library_is_said_to_be_missing():
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    model = nn.LSTM(32, 64)
    with capture(eager=True, lower="aot", constraints=[]) as session:
        model(torch.randn(8, 4, 32))[0].mean().backward()
    assert [note.part for note in session.notes] == ["memory"]
    assert "mkldnn_rnn_layer" in session.notes[0].message


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
