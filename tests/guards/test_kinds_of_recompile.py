"""For each kind of recompile: guard, line and values are named, and the hint keeps what it promises."""

from __future__ import annotations

import inspect

import pytest
import torch

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.views.advice import advice, varying

from .kinds import KINDS, Kind

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def recompiles_of(calls):
    with capture(lower="dynamo") as session:
        for call in calls:
            call()
    return session.recompiles


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.program.__name__)
def test_the_guard_its_values_and_its_line_are_named(kind: Kind):
    (recompile,) = recompiles_of(kind.program())
    assert varying(recompile) == kind.varies
    assert (recompile.old, recompile.new) == (kind.old, kind.new)
    assert recompile.check
    assert recompile.call == 2
    assert recompile.made is (kind.name != "layout")  # torch does not compile sparse tensors: it tried, and gave up
    assert recompile.seconds > 0
    assert recompile.source is not None
    if kind.line:
        assert recompile.source.text.strip() == kind.line
    else:  # nothing that a line asked for: the function itself
        assert recompile.source.function in inspect.getsource(inspect.getmodule(kind.program))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.program.__name__)
def test_the_hint_removes_it_or_says_that_it_cannot(kind: Kind):
    (recompile,) = recompiles_of(kind.program())
    hint = advice(recompile)
    assert hint.kind == kind.name
    assert hint.removable is (kind.follow is not None)
    if kind.follow is None:
        assert "can't be removed" in hint.text
    else:
        torch._dynamo.reset()
        assert recompiles_of(kind.follow()) == ()
