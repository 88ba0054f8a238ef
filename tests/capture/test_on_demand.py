"""Inductor's part of a plain model is made when somebody wants it, and is then what it would have been at once."""

from __future__ import annotations

import gc
import re
import weakref

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.pipeline.torch_compat import patches

INDUCTOR = {"post_grad", "ir_pre_fusion", "ir_post_fusion", "code", "kernel"}


class Images(nn.Module):
    """Convolution, batch norm (which writes to buffers), dropout and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, images):
        return self.layer(self.norm(self.conv(images)).relu().flatten(2).transpose(1, 2)).softmax(-1).sum()


class Constants(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("scale", torch.randn(8))

    def forward(self, x):
        return self.linear(x) * torch.tensor([1.0, 2.0] * 4) + self.scale


def captured(lower: str | None, training: bool) -> DebugSession:
    torch.manual_seed(0)
    model, images = Images().train(training), torch.randn(2, 3, 8, 8)
    with capture(target="stick128", eager=True, lower=lower) as session:
        result = model(images)
        if training:
            result.backward()
    return session


def without_ids(text: str) -> str:
    """Dynamo and AOTAutograd number the graphs of a process."""
    return re.sub(r"(AOT ID: \['|compile_id='|\W)\d+(?=_forward'|_backward'|/0\b)", r"\1n", text)


@pytest.fixture(scope="module", params=[True, False], ids=["training", "inference"])
def both(request):
    """The same model, lowered at once and on demand; the second is completed by the tests."""
    return captured("inductor", request.param), captured(None, request.param)


def test_findings_come_first_and_the_rest_is_the_same_in_the_end(both):
    at_once, on_demand = both
    (before,) = on_demand.record.captures
    assert not INDUCTOR & set(before.stages)
    assert "code" not in str(on_demand).lower().split()
    for name in ("findings", "coverage", "memory", "peak_memory", "notes"):
        ours, expected = (repr(getattr(each.record, name)) for each in (on_demand, at_once))
        assert without_ids(ours) == without_ids(expected), name
    (whole,), (expected,) = on_demand.captures, at_once.captures
    assert whole.stages == expected.stages
    assert whole.missing == expected.missing
    assert whole.kernels == expected.kernels
    assert {stage: without_ids(text) for stage, text in whole.texts.items()} == {
        stage: without_ids(text) for stage, text in expected.texts.items()
    }
    for stage, graph in expected.graphs.items():
        ours = whole.graphs[stage]
        assert [(n.name, n.target, n.inputs, n.outputs, n.source, n.cell) for n in ours.nodes] == [
            (n.name, n.target, n.inputs, n.outputs, n.source, n.cell) for n in graph.nodes
        ], stage
    assert on_demand.captures[0] is whole, "it is made once"
    assert patches.installed() == ()


def test_nothing_of_the_model_is_kept_alive():
    model, x = Constants(), torch.randn(4, 8)
    held = [*map(weakref.ref, (model, x, *model.parameters(), *model.buffers()))]
    with capture(eager=True) as session:
        model(x).sum().backward()
    del model, x
    gc.collect()
    assert [each() for each in held] == [None] * len(held)
    assert set(session.captures[0].stages) >= INDUCTOR


def test_the_settings_are_those_of_the_capture():
    import torch._inductor.config as inductor_config

    model, x = Images(), torch.randn(2, 3, 8, 8)
    with inductor_config.patch(max_fusion_size=1), capture(eager=True) as session:
        model(x)
    with capture(eager=True) as fused:
        model(x)
    torch.set_default_dtype(torch.float64)
    try:
        apart = session.captures[0]
    finally:
        torch.set_default_dtype(torch.float32)
    assert len(apart.kernels) > len(fused.captures[0].kernels)
    assert inductor_config.max_fusion_size != 1
    assert "double" not in apart.text("code")


def test_with_open_sizes_it_is_made_at_once():
    """Inductor adds guards on open sizes: they belong to the compile that runs."""
    model = Constants()
    with capture(eager=True) as session:
        for rows in (4, 5):
            model(torch.randn(rows, 8))
    first, second = session.record.captures
    assert not INDUCTOR & set(first.stages)
    assert set(second.stages) >= INDUCTOR


@pytest.fixture
def broken_once(monkeypatch):
    """Inductor's code generation raises the first time."""
    from torch._inductor.graph import GraphLowering

    original = GraphLowering.run

    def broken(error):
        def run(self, *args):
            monkeypatch.setattr(GraphLowering, "run", original)
            raise error

        monkeypatch.setattr(GraphLowering, "run", run)

    return broken


def test_an_error_of_inductor_is_a_reason(broken_once):
    with capture(eager=True) as session:
        Constants()(torch.randn(4, 8))
    broken_once(RuntimeError("no kernels today"))
    (capture_,) = session.captures
    assert "no kernels today" in capture_.missing["code"]
    assert capture_.graph("post_grad") is not None
    assert "no kernels today" in str(session)


def test_ctrl_c_leaves_it_to_be_made(broken_once):
    with capture(eager=True) as expected:
        Constants()(torch.randn(4, 8))
    with capture(eager=True) as session:
        Constants()(torch.randn(4, 8))
    told = []
    session.on_change(lambda: told.append(session.record))
    before = session.record
    broken_once(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        session.complete()
    assert session.record is before
    assert told == []
    assert patches.installed() == ()
    assert len(session.captures[0].kernels) == len(expected.captures[0].kernels)
    assert session.captures[0].stages == expected.captures[0].stages
    assert told == [session.record]


def test_ctrl_c_inside_a_fake_op_leaves_it_to_be_made():
    from torch._subclasses import fake_tensor

    with capture(eager=True) as session:
        Images()(torch.randn(2, 3, 8, 8))
    mode = session.record.captures[0].rest._lowering._fake_mode
    struck = fake_tensor.in_kernel_invocation_manager(mode)
    struck.__enter__()  # Ctrl-C between two of its lines: the flag stays, the dispatch keys are put back
    struck.gen.close()
    mode.in_kernel_invocation = True
    (made,) = session.captures
    assert set(made.stages) >= INDUCTOR
    assert not INDUCTOR & set(made.missing)


def test_what_fails_late_is_not_said_to_be_missing(monkeypatch):
    from inductor_debug_jupyter.pipeline.torch_compat.suspended_lowering import SuspendedLowering

    original = SuspendedLowering.finish

    def finish(self):
        original(self)
        raise RuntimeError("at the very end")

    with capture(eager=True) as session:
        Constants()(torch.randn(4, 8))
    monkeypatch.setattr(SuspendedLowering, "finish", finish)
    (made,) = session.captures
    assert not set(made.stages) & set(made.missing)
    assert "at the very end" in str(session)


def test_a_session_that_was_saved_before_says_why_its_code_is_missing(tmp_path):
    from inductor_debug_jupyter.pipeline.records import dump_session, load_session

    with capture(eager=True, artifacts=str(tmp_path)) as session:
        Constants()(torch.randn(4, 8))
    loaded = DebugSession.of_record(load_session(dump_session(session.record)))
    assert "--lower inductor" in loaded.captures[0].missing["code"]
    assert "--lower inductor" in str(loaded)
    assert "--lower inductor" not in str(session)
    assert DebugSession.load(session.save(tmp_path / "whole.json")).captures[0].kernels


def test_a_kernel_that_is_not_made_yet_can_be_asked_for():
    with capture(eager=True) as session:
        Constants()(torch.randn(4, 8))
    assert not session.record.captures[0].kernels
    assert session.trace(node="add").kernels


def test_what_is_made_while_another_capture_is_open_is_not_that_ones():
    with capture(target="stick128", eager=True) as first:
        nn.Linear(64, 64)(torch.randn(8, 64))
    with capture(target="stick128", eager=True) as second:
        (whole,) = first.captures
        nn.Linear(64, 128)(torch.randn(8, 64))
    assert set(whole.stages) >= INDUCTOR
    assert [each.graph("dynamo") is not None for each in second.captures] == [True]
    assert second.notes == ()
