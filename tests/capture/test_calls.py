"""Calls that are kept to be run again: copies up to a limit, and no model kept alive for it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import DebugSession
from inductor_debug_jupyter.pipeline.capture.calls import CallLog, InputBudget, LostCall
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.settings import resolve


def test_the_first_call_of_each_model_is_copied() -> None:
    log, net, x = CallLog(), nn.Linear(2, 2), torch.ones(3, 2)
    log.add(net.forward, (x,), {"more": [torch.ones(1)]})
    log.add(net.forward, (torch.zeros(3, 2),), {})
    x.zero_()
    (call,) = log.calls
    assert call.model is net
    assert call.name == "Linear"
    assert torch.equal(call.args[0], torch.ones(3, 2))
    assert call.random_state is not None


def test_a_limit_is_for_all_copies_together_and_models_may_go() -> None:
    log = CallLog(InputBudget(100))
    small, large, gone = nn.Linear(2, 2), nn.ReLU(), nn.Tanh()
    log.add(small.forward, (torch.ones(10),), {})
    log.add(large.forward, (torch.ones(26),), {})
    log.add(gone.forward, (torch.ones(5),), {})
    assert log.lost == {"ReLU": LostCall("ReLU", "too large", 104)}
    assert [call.name for call in log.calls] == ["Linear", "Tanh"]
    seen = weakref.ref(gone)
    del gone
    gc.collect()
    assert seen() is None
    assert [call.name for call in log.there()] == ["Linear"]
    assert log.lost["Tanh"] == LostCall("Tanh", "model is gone")
    log.add((other := nn.Sigmoid()).forward, (torch.ones(14),), {})
    assert [call.model for call in log.there()] == [small, other], "there is room again"
    asked = CallLog()
    asked.add(nn.Tanh().forward, (), {})
    assert asked.calls[0].is_there


def test_one_budget_for_all_sessions_lets_the_least_recently_used_go(caplog: pytest.LogCaptureFixture) -> None:
    budget, nets = InputBudget(100), [nn.ReLU(), nn.Tanh(), nn.Sigmoid()]
    first, second, third = (CallLog(budget) for _ in nets)
    for log, net in zip((first, second), nets, strict=False):
        log.add(net.forward, (torch.ones(10),), {})
    assert torch.equal(first.there()[0].args[0], torch.ones(10)), "used: so the second one's go first"
    third.add(nets[2].forward, (torch.ones(14),), {})
    assert [len(log.there()) for log in (first, second, third)] == [1, 0, 1]
    assert second.lost == {"Tanh": LostCall("Tanh", "inputs were let go", 40)}
    assert budget.nbytes == 96
    CallLog(budget).add(nn.ReLU().forward, (torch.ones(25),), {})
    said = [record.message for record in caplog.records]
    assert len(said) == 1, "said once"
    assert "not used for the longest time are let go" in said[0]


def test_inputs_that_were_let_go_are_no_match() -> None:
    budget, nets = InputBudget(100), [nn.ReLU(), nn.Tanh()]
    session = DebugSession(resolve({"lower": "dynamo"}), eager=True, keep_inputs=True, inputs_limit=budget)
    session.open()
    for net in nets:
        net(torch.ones(10))
    session.close()
    assert session.diff(candidate="eager").verdict == "match"
    assert session._calls.needed()[1].args, "used"
    CallLog(budget).add((other := nn.Sigmoid()).forward, (torch.ones(10),), {})
    report = session.diff(candidate="eager")
    assert report.verdict == "not_compared"
    assert not report.passed
    assert "the inputs of this call of ReLU were let go (40 B)" in " ".join(report.record.notes)
    assert "were let go" in " ".join(session.localize(candidate="aot_eager").notes)
    CallLog(budget).add(other.forward, (torch.ones(25),), {})
    with pytest.raises(NotFoundError, match=r"the inputs of this call of .* were let go"):
        session.diff()


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_comparison_that_was_asked_for_has_its_inputs_until_it_is_over() -> None:
    budget = InputBudget(100)
    (earlier := CallLog(budget)).add((net := nn.ReLU()).forward, (torch.ones(10),), {})
    settings = resolve({"lower": "dynamo", "diff": "eager"})
    session = DebugSession(settings, eager=True, keep_inputs=True, inputs_limit=budget)
    session.open()
    for size in (15, 15, 30):
        nn.Tanh()(torch.ones(size))
    session.close(save=False)
    assert not earlier.there(), "made room"
    report = session.diff(candidate="aot_eager")
    assert report.passed, "the models are kept, and 60 + 60 + 120 bytes"
    assert budget.nbytes == 240
    budget.make_room()
    assert budget.nbytes == 60, "first what is over the limit by itself, then what was used first"
    why = " ".join(session.diff(candidate="aot_eager").record.notes)
    assert "120 B, and no more than 100 B in all are kept" in why
    del net


@pytest.mark.usefixtures("fresh_dynamo")
def test_what_ifs_are_within_the_budget_too() -> None:
    budget, net = InputBudget(1000), nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    settings = resolve({"lower": "dynamo"})
    session = DebugSession(settings, eager=True, keep_inputs=True, inputs_limit=budget)
    session.open()
    net(torch.ones(2, 4))
    session.close(save=False)
    trials = [session.try_out(batch=batch) for batch in (8, 16, 24, 32)]
    assert budget.nbytes <= 1000
    assert [trial.session.has_inputs for trial in trials] == [False, False, True, True]
    assert session.has_inputs, "used by each what-if"
    with pytest.raises(NotFoundError, match="were let go"):
        trials[0].session.diff()
    assert session.try_out(batch=64).session.has_inputs is False, "1024 bytes"
    before = budget.nbytes
    session.try_out(target="stick128")
    assert budget.nbytes == before, "judged again: nothing is copied"
    model = weakref.ref(net)
    del net
    gc.collect()
    assert model() is None


def called(model: nn.Module, size: int, limit: int | None) -> DebugSession:
    session = DebugSession(eager=True, keep_inputs=True, inputs_limit=limit)
    session.open()
    try:
        model(torch.ones(size))
    finally:
        session.close()
    return session


@pytest.mark.usefixtures("fresh_dynamo")
def test_what_was_not_kept_is_said() -> None:
    net = nn.Tanh()
    with pytest.raises(NotFoundError, match=r"inputs of Tanh were not kept .* 400 B, and no more than 100 B in all"):
        called(net, 100, 100).diff(candidate="aot_eager")
    assert called(net, 100, 1000).diff(candidate="aot_eager").passed
    session = called(nn.Tanh(), 100, 1000)
    gc.collect()
    with pytest.raises(NotFoundError, match="Tanh, which was called, is gone: keep it in a variable"):
        session.diff(candidate="aot_eager")


@contextmanager
def watched(**options: Any) -> Iterator[DebugSession]:
    session = DebugSession(keep_inputs=True, **options)
    session.open()
    try:
        yield session
    finally:
        session.close(save=False)


def test_a_module_that_torch_wraps_to_compile_it_is_kept_as_itself() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with watched(inputs_limit=1000) as session:
        torch.compile(net, backend="eager")(torch.ones(3, 2))
    (call,) = session._calls.needed()
    assert call.model is net
    assert call.name == "Sequential"
    assert call.backend == "eager"


def test_a_call_is_known_by_where_it_stands() -> None:
    log, net = CallLog(), nn.Linear(2, 2)
    with watched(eager=True) as session:
        _ = ["ä", net(torch.ones(3, 2))]  # columns are counted in bytes
    site = session._calls.needed()[0].site
    assert site is not None
    assert (site.file, site.label) == (__file__, "test_calls.py")
    line = Path(__file__).read_bytes().splitlines()[site.start[0] - 1]
    assert line[site.start[1] : site.end[1]] == b"net(torch.ones(3, 2))"
    log.add(net, (), {})
    assert log.calls[0].site is not None
    assert log.calls[0].site.label == "test_calls.py"
