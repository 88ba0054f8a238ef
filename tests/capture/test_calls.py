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
from inductor_debug_jupyter.pipeline.capture.calls import CallLog
from inductor_debug_jupyter.pipeline.errors import NotFoundError


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
    log = CallLog(limit=100)
    small, large, gone = nn.Linear(2, 2), nn.ReLU(), nn.Tanh()
    log.add(small.forward, (torch.ones(10),), {})
    log.add(large.forward, (torch.ones(16),), {})
    log.add(gone.forward, (torch.ones(5),), {})
    assert log.too_large == {"ReLU": 64}
    assert [call.name for call in log.calls] == ["Linear", "Tanh"]
    seen = weakref.ref(gone)
    del gone
    gc.collect()
    assert seen() is None
    assert [call.name for call in log.there()] == ["Linear"]
    assert log.gone == "Tanh"
    log.add((other := nn.Sigmoid()).forward, (torch.ones(14),), {})
    assert [call.model for call in log.there()] == [small, other], "there is room again"
    asked = CallLog()
    asked.add(nn.Tanh().forward, (), {})
    assert asked.calls[0].is_there


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
    (call,) = session._kept_calls()
    assert call.model is net
    assert call.name == "Sequential"
    assert call.backend == "eager"


def test_a_call_is_known_by_where_it_stands() -> None:
    log, net = CallLog(), nn.Linear(2, 2)
    with watched(eager=True) as session:
        _ = ["ä", net(torch.ones(3, 2))]  # columns are counted in bytes
    site = session._kept_calls()[0].site
    assert site is not None
    assert (site.file, site.label) == (__file__, "test_calls.py")
    line = Path(__file__).read_bytes().splitlines()[site.start[0] - 1]
    assert line[site.start[1] : site.end[1]] == b"net(torch.ones(3, 2))"
    log.add(net, (), {})
    assert log.calls[0].site is not None
    assert log.calls[0].site.label == "test_calls.py"
