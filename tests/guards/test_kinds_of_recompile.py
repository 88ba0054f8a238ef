"""For each kind of recompile: guard, line and values are named, and the hint keeps what it promises."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.views.guards import guard_rows
from inductor_debug_jupyter.pipeline.views.recompile_advice import advice, as_written, varying
from inductor_debug_jupyter.pipeline.views.recompiles import recompile_text

from .kinds import KINDS, Kind

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def recompiles_of(calls):
    with capture(lower="dynamo") as session:
        for call in calls:
            call()
    return session.recompiles


@functools.cache
def recompile_of(kind: Kind):
    (recompile,) = recompiles_of(kind.program())
    return recompile


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.program.__name__)
def test_the_guard_its_values_and_its_line_are_named(kind: Kind):
    recompile = recompile_of(kind)
    assert varying(recompile) == kind.varies
    assert (recompile.old, recompile.new) == (kind.old, kind.new)
    assert recompile.check
    assert recompile.call == 2
    gave_up = ("layout", "range")  # torch compiles no sparse tensors and no loops of unknown length: it tried
    assert recompile.made is (kind.name not in gave_up)
    assert recompile.seconds > 0
    assert recompile.source is not None
    if kind.line:
        assert recompile.source.text.strip() == kind.line
    else:  # nothing that a line asked for: the function itself
        assert recompile.source.function in inspect.getsource(inspect.getmodule(kind.program))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.program.__name__)
def test_the_hint_removes_it_or_says_that_it_cannot(kind: Kind):
    recompile = recompile_of(kind)
    hint = advice(recompile)
    assert hint.kind == kind.name
    assert hint.removable is (kind.follow is not None)
    if kind.follow is None:
        assert "can't be removed" in hint.text
    else:
        torch._dynamo.reset()
        assert recompiles_of(kind.follow()) == ()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.program.__name__)
def test_the_sentence_names_what_varies_and_its_values(kind: Kind):
    """Old and new stand in it as they were; where they are not known, it is torch's own reason and says no value."""
    recompile = recompile_of(kind)
    told = recompile_text(recompile)
    if recompile.aspect == "relation":
        be = "are" if " and " in kind.varies else "is"
        assert told == f"{kind.varies} {be} now {kind.new}, but {as_written(kind.old)} must hold"
    elif kind.old or kind.new:
        assert told == f"{kind.varies} was {kind.old or 'something else'}, now {kind.new}"
    else:
        assert "was" not in told.split()
    assert "L['" not in advice(recompile).text
    if "register_buffer" in advice(recompile).text:
        assert recompile.aspect == "attribute of a module"


def test_what_is_said_of_ranges_and_slices_is_what_torch_does():
    def counted(x, steps):
        for i in steps:
            x = x + i
        return x

    def cut(x, part):
        return x[part] * 2

    x = torch.ones(9)
    for dynamic, made in ((None, [False]), (False, [True, True])):
        f = torch.compile(counted, backend="eager", dynamic=dynamic)
        calls = [lambda n=n, f=f: f(x, range(n)) for n in (3, 4, 5)]
        assert [each.made for each in recompiles_of(calls)] == made
        torch._dynamo.reset()
    f = torch.compile(cut, backend="eager")
    assert len(recompiles_of([lambda n=n: f(x, slice(0, n)) for n in (3, 4, 5, 6)])) == 1


def test_what_is_said_of_a_guard_that_has_not_failed_never_guesses_whose_attribute_it_is():
    def counted(x, steps):
        for i in steps:
            x = x + i
        return x

    with capture(lower="dynamo") as session:
        torch.compile(counted, backend="eager")(torch.ones(3), range(3))
    hints = [row["hint"] for row in guard_rows(session.guards) if row["expression"] == "steps.stop"]
    assert hints == ["Each value of steps.stop that occurs compiles once."]
    assert not any("register_buffer" in row["hint"] for row in guard_rows(session.guards))
