"""Ctrl-C in each of our own steps around a cell, in a real IPython shell: the cell ends in it, and nothing is left.

What random moments do in a real kernel is in ``test_interrupts.py``.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from inductor_debug_jupyter.jupyter import cells, extension
from inductor_debug_jupyter.pipeline.capture.watch import CaptureWatch
from inductor_debug_jupyter.pipeline.interrupts import held_back, noticed
from inductor_debug_jupyter.pipeline.rerun import capture_run
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.store import ArtifactStore

from .conftest import BLOCK

SETUP = f"""{BLOCK}
block, x, ran = Block(), torch.randn(3, 784), []
"""
CELL = "%%inductor_debug --target stick128 --strict --lower dynamo --diff --candidate aot_eager --as session\n"
BEFORE = {
    "opening": (DebugSession, "open"),
    "hooking": (CaptureWatch, "open"),
    "saving the last": (cells.BackgroundSaving, "finish"),
}
AFTER = {
    "putting back": (CaptureWatch, "close"),
    "judging": (capture_run, "judge"),
    "looking whether it can be saved": (DebugSession, "can_wait"),
    "the refusal": (DebugSession, "refusal"),
    "comparing": (DebugSession, "diff"),
    "binding": (cells.CellWatcher, "_bind"),
    "showing": (cells, "show_session"),
    "saving": (cells.BackgroundSaving, "add"),
}


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    running = InteractiveShell()
    extension.load(running)
    running.run_cell(SETUP)
    yield running
    extension.unload(running)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def struck(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ctrl-C as soon as that is called, once; what was called."""
    original: Callable[..., Any] = getattr(owner, name)
    calls: list[str] = []

    def striking(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, striking)
    return calls


@pytest.mark.parametrize("step", BEFORE)
def test_before_a_cell_it_does_not_run(shell: InteractiveShell, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = struck(*BEFORE[step], monkeypatch)
    result = shell.run_cell(f"{CELL}ran.append(block(x))")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert calls
    assert shell.user_ns["ran"] == []
    assert shell.ast_transformers == []
    assert shell.run_cell("ran.append(1)\nlen(ran)").result == 1, "the next one does"


@pytest.mark.every(2)
@pytest.mark.parametrize("step", AFTER)
def test_after_a_cell_it_ends_in_it(shell: InteractiveShell, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = struck(*AFTER[step], monkeypatch)
    result = shell.run_cell(f"{CELL}block(x).shape")
    assert str(result.result) == "torch.Size([3, 512])"
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert calls
    assert "session" in shell.user_ns, "what was captured is there"
    again = shell.run_cell(f"{CELL}block(x).shape")
    assert type(again.error_in_exec).__name__ == "ConstraintViolationError"
    assert shell.user_ns["session"].record.diff is not None


@pytest.mark.every(2)
@pytest.mark.parametrize("end", ["raise ValueError", "raise KeyboardInterrupt", "1 +", "await nothing", "exit_now()"])
def test_nothing_of_a_cell_that_failed_is_run_again(
    shell: InteractiveShell, end: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = struck(DebugSession, "diff", monkeypatch)
    result = shell.run_cell(f"{CELL}answer = block(x)\n{end}")
    assert not result.success
    assert calls == []
    ran = "answer" in shell.user_ns
    assert len(shell.user_ns["session"].captures) == ran
    assert ("Block on stick128" in capsys.readouterr().out) == ran, "it is captured and shown"


def test_an_expression(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = struck(DebugSession, "diff", monkeypatch)
    line = "%inductor_debug --lower dynamo --diff --candidate aot_eager "
    assert not shell.run_cell(f"{line} block(x, 1)").success
    assert calls == [], "it failed: nothing is compared"
    assert isinstance(shell.run_cell(f"{line} block(x)").error_in_exec, KeyboardInterrupt)
    assert calls == ["diff"]


def test_a_session_whose_saving_is_stopped_is_saved_with_the_next_cell(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = struck(ArtifactStore, "save_session", monkeypatch)
    shell.run_cell("%%inductor_debug --lower dynamo --no-panel\nblock(x)")
    assert calls == ["save_session"]
    assert not list(Path.cwd().glob("**/sessions/*.json"))
    shell.run_cell("1")
    assert len(list(Path.cwd().glob("**/sessions/*.json"))) == 1


def test_an_interrupt_that_is_held_back_comes_at_the_end(shell: InteractiveShell) -> None:
    done = []

    def work(number: int, error: type[Exception] | None = None) -> None:
        with held_back(), held_back():
            signal.raise_signal(signal.SIGINT)
            done.append(number)
            if error is not None:
                raise error

    with pytest.raises(KeyboardInterrupt):
        work(1)
    with pytest.raises(KeyboardInterrupt):
        work(2, ValueError)
    with noticed() as interrupts:
        with held_back():
            signal.raise_signal(signal.SIGINT)
        done.append(3)
    assert interrupts.came
    assert done == [1, 2, 3]


def test_a_cell_whose_end_was_never_told_is_put_back_by_the_next_one(shell: InteractiveShell) -> None:
    """Ctrl-C in the kernel's own code around a cell: IPython's ``post_run_cell`` never comes."""
    before = torch.nn.Module.__call__
    cell = "%%inductor_debug --lower aot --no-panel\ntorch.nn.Linear(4, 4)(torch.randn(2, 4))"
    asyncio.run(shell.run_cell_async(cell, transformed_cell=shell.transform_cell(cell)))  # without its end
    assert torch.nn.Module.__call__ is not before
    shell.run_cell("1", silent=True)
    assert torch.nn.Module.__call__ is before
    inner = "%%inductor_debug --lower aot --no-panel --as inner\\ntorch.nn.Linear(4, 4)(torch.randn(2, 4))"
    shell.run_cell(f"%%inductor_debug --lower aot --no-panel --as outer\nget_ipython().run_cell('{inner}')")
    assert (len(shell.user_ns["inner"].captures), len(shell.user_ns["outer"].captures)) == (1, 1)
    assert torch.nn.Module.__call__ is before
