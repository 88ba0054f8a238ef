"""What was not run again is neither fixed nor taken: several models in one cell, later calls, models that are gone."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import resolve


def wide(size: int) -> nn.Module:
    return nn.Sequential(nn.Linear(64, size), nn.ReLU(), nn.Linear(size, 64))


def session_in(folder: Path) -> AbstractContextManager[DebugSession]:
    return capture(target="stick128", eager=True, lower="aot", keep_inputs=True, artifacts=str(folder))


def refused(session: DebugSession) -> list[str]:
    return [each.title for each in session.findings if each.severity == "error"]


def test_a_finding_of_the_second_model_is_tried_on_the_second_model(tmp_path: Path) -> None:
    first, second = wide(100), wide(30)
    with session_in(tmp_path) as session:
        first(torch.randn(64, 64))
        second(torch.randn(64, 64))
    assert refused(session) == ["100 is not a multiple of 64", "30 is not a multiple of 64"]
    (offer,) = session.fixits(1)
    assert [each.title for each in offer.gone] == ["30 is not a multiple of 64"]
    assert len(offer.after.captures) == 2
    assert any(each.path.startswith("Sequential 2") for each in offer.diff.outputs), "its numbers were compared too"


def test_all_the_way_is_all_models(tmp_path: Path) -> None:
    first, second = wide(100), wide(30)
    with session_in(tmp_path) as session:
        first(torch.randn(64, 64))
        second(torch.randn(64, 64))
    result = session.fix_all()
    assert result.accepted
    assert sorted(each.title for each in result.fixits) == ["pad 100 to 128 (+28%)", "pad 30 to 64 (+113%)"]
    x = torch.randn(64, 64)
    for model, made in zip((first, second), result.modules, strict=True):
        torch.testing.assert_close(made(x), model(x))
    assert all(f"+    {name} = fixed({name}, pad=" in result.patch for name in ("first", "second"))
    session.apply(*result.fixits)
    assert len(session.captures) == 2
    assert not refused(session)


def test_a_graph_of_a_later_call_is_not_taken_for_fixed(tmp_path: Path) -> None:
    model = wide(100)
    with session_in(tmp_path) as session:
        model(torch.randn(64, 64))
        model(torch.randn(4, 3, 64))
    result = session.fix_all()
    assert not result.remaining
    assert not result.accepted, "the second call was refused too, and nobody tried it"
    assert "accepted, but for what was not tried" in str(result)
    assert "1 graph of later calls left out" in str(result)
    session.apply(*result.fixits)
    assert len(session.captures) == 2, "what was not tried is shown as it is"
    (left,) = session.findings
    assert {place.compile_id for place in left.places} == {session.captures[1].compile_id}
    assert "1 error" in str(session)
    offers = session.fixits(0)
    assert not offers
    assert "later calls left out" in repr(offers)
    session.undo()
    assert len(session.captures) == 2, "undo brings everything back"
    assert len({place.compile_id for place in session.findings[0].places}) == 2


def test_a_model_that_is_gone_is_not_taken_for_fixed(tmp_path: Path) -> None:
    kept = wide(100)
    settings = resolve({"target": "stick128", "lower": "aot", "artifacts": str(tmp_path)})
    session = DebugSession(settings, eager=True, keep_inputs=True, inputs_limit=1 << 30)  # as the magic makes it
    session.open()
    kept(torch.randn(64, 64))
    wide(30)(torch.randn(64, 64))
    session.close()
    gc.collect()
    number = refused(session).index("30 is not a multiple of 64")
    offers = session.fixits(number)
    assert not offers
    assert "no call was kept" in repr(offers)
    assert not session.fix_all().accepted
    trial = session.try_out(batch=128)
    assert "no call was kept" in str(trial)
    assert not trial.changes.gone, "what did not run again is not gone"


def test_what_is_not_offered_says_why(tmp_path: Path) -> None:
    model = nn.Linear(64, 64)
    with session_in(tmp_path) as session:
        (model(torch.randn(3, 64).T.contiguous().T) @ torch.ones(64, 30)).sum()
    for number in range(len(session.findings)):
        offers = session.fixits(number)
        assert offers or offers.declined


def test_offers_and_trials_are_a_few_lines(tmp_path: Path) -> None:
    model = wide(100)
    with session_in(tmp_path) as session:
        model(torch.randn(64, 64))
    offers = session.fixits(0)
    assert repr(offers).splitlines()[0] == "1 fix-it, checked"
    assert "pad 100 to 128 (+28%)" in repr(offers)
    assert len(repr(offers)) < 400
    assert len(repr(offers[0])) < 800
    assert len(repr(session.fix_all())) < 1500
