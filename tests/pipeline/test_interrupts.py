"""Ctrl-C reaches the user, wherever it strikes."""

from __future__ import annotations

import signal
import sys
import time
import types
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch._functorch._aot_autograd import utils

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.interrupts import never_lost, never_swallowed, uncut
from inductor_debug_jupyter.pipeline.torch_compat import hooks, patches


class Watched:
    """Something that a weak reference can point to."""


class Leaves:
    """A context manager in whose exit Ctrl-C strikes."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        signal.raise_signal(signal.SIGINT)


def _struck_in_its_last_step(error: Exception | None) -> None:
    with never_swallowed(), Leaves():
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [None, ValueError("of the code")])
def test_a_strike_that_waits_when_the_block_ends_is_not_sent_to_what_comes_next(error: Exception | None):
    """The block ends at once, before the signal is sent again."""
    with pytest.raises(KeyboardInterrupt):
        _struck_in_its_last_step(error)
    time.sleep(0.05)  # whatever is still on its way would strike here


def test_a_strike_that_python_drops_is_sent_again():
    watched = Watched()
    reference = weakref.ref(watched, lambda _: signal.raise_signal(signal.SIGINT))
    hook = sys.unraisablehook
    held = [watched]
    del watched
    with pytest.raises(KeyboardInterrupt), never_lost():
        _let_go_and_wait(held)
    assert reference() is None
    assert sys.unraisablehook is hook


def _let_go_and_wait(held: list[Watched]) -> None:
    held.clear()  # Python ignores what the callback of the reference raises
    for _ in range(500):
        time.sleep(0.01)


def test_what_was_opened_when_ctrl_c_struck_is_closed(monkeypatch: pytest.MonkeyPatch):
    """It strikes when all is open; the ``with`` that would close it again has not begun."""
    listen = hooks.listen

    def strikes(listener: Any) -> None:
        listen(listener)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(hooks, "listen", strikes)
    with pytest.raises(KeyboardInterrupt), capture(eager=True, lower="dynamo"):
        pytest.fail("it went on")
    assert (patches.installed(), hooks._listeners) == ((), [])


def test_a_patch_is_taken_back_when_ctrl_c_struck_while_it_was_made():
    def strikes(original: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return lambda: 2

    owner = types.SimpleNamespace(answer=lambda: 1)
    with pytest.raises(KeyboardInterrupt), patches.patched(owner, "answer", strikes, "test"):
        pytest.fail("it went on")
    assert (owner.answer(), patches.installed()) == (1, ())


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_strike_while_torch_tries_its_new_guards_stops_the_run(monkeypatch: pytest.MonkeyPatch):
    """C++ calls some guards in Python, and takes what these raise for "the guard fails"."""
    asked, original = [], utils.top_saved_tensors_hooks

    def strikes() -> object:
        asked.append(1)
        if len(asked) == 3:  # once to build the guard, once to check it, once to time it
            signal.raise_signal(signal.SIGINT)
        return original()

    monkeypatch.setattr(utils, "top_saved_tensors_hooks", strikes)
    with pytest.raises(KeyboardInterrupt), capture(eager=True, lower="dynamo"):
        torch.nn.Linear(4, 4)(torch.ones(2, 4))
    assert len(asked) >= 3


def test_a_strike_that_became_another_error_is_still_a_strike():
    """As in ``torch.fx``, whose ``finally`` asserts what the interrupted line was to set."""

    def strikes() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            raise AssertionError("not set")

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), never_swallowed():
        strikes()
    with pytest.raises(KeyboardInterrupt), never_swallowed(), suppress(AssertionError):  # taken for a failure
        strikes()
    with pytest.raises(ValueError, match="of the code"), never_swallowed():
        raise ValueError("an error of the code itself")
    assert signal.getsignal(signal.SIGINT) is handler


class Door:
    """A context manager that Ctrl-C strikes while it is left."""

    steps: list[str]

    def __enter__(self) -> None:
        self.steps = []

    def __exit__(self, *_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        self.steps.append("closed")


def _leave_and_wait(door: Door) -> None:
    with door:
        pass
    for _ in range(500):
        time.sleep(0.01)


def test_a_strike_waits_until_a_context_is_left():
    door = Door()
    with pytest.raises(KeyboardInterrupt), never_swallowed():
        _leave_and_wait(door)
    assert door.steps == ["closed"]


def test_a_context_is_set_up_and_put_back_in_one_piece():
    steps = []

    @uncut
    def changed() -> Iterator[None]:
        signal.raise_signal(signal.SIGINT)
        steps.append("set up")
        try:
            yield
        finally:
            steps.append("put back")

    with pytest.raises(KeyboardInterrupt), changed():
        pytest.fail("it went on")
    assert steps == ["set up", "put back"]
