"""Ctrl-C reaches the user, wherever it strikes."""

from __future__ import annotations

import signal
import sys
import time
import types
import weakref
from typing import Any

import pytest
import torch
from torch._functorch._aot_autograd import utils

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.interrupts import never_lost
from inductor_debug_jupyter.pipeline.torch_compat import hooks, patches


class Watched:
    """Something that a weak reference can point to."""


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
