"""Strict mode stays strict, whatever fails around it: every thing that can fail, with and without ``--strict``.

Each way runs one cell in a real IPython shell. The cell's own answer is there, the error of strict mode is its end,
what failed is said in one line, and whatever did not fail (binding, showing, saving) was done.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from inductor_debug_jupyter.jupyter import cells, extension
from inductor_debug_jupyter.pipeline.backends import strict
from inductor_debug_jupyter.pipeline.devices.alignment import AlignmentConstraint
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError
from inductor_debug_jupyter.pipeline.rerun import capture_run
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.store import ArtifactStore

from .conftest import BLOCK

SETUP = f"""{BLOCK}
block, x = Block(), torch.randn(3, 784)
"""
CHIPS = {
    "raises_at_import": "raise RuntimeError('no driver')",
    "gives_none": "def backend(gm, inputs):\n    return lambda *args: (None,)",
    "exits": "import sys\ndef backend(gm, inputs):\n    sys.exit(0)",
    "exits_at_import": "import sys\nsys.exit(0)",
    "ends_a_generator": "def backend(gm, inputs):\n    raise GeneratorExit",
    "interrupts_itself": "def backend(gm, inputs):\n    raise SystemError('lost\\nsecond line')",
}
MONKEY = pytest.MonkeyPatch


def fails(owner: Any, name: str) -> Callable[[MONKEY], None]:
    """Make something of ours raise."""

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken on purpose\nsecond line")

    return lambda monkeypatch: monkeypatch.setattr(owner, name, broken)


@dataclass(frozen=True)
class Way:
    """One thing that fails: options of the cell, or something of ours that raises. ``lost`` is what cannot be then."""

    options: str = ""
    broken: Callable[[MONKEY], None] = lambda _: None
    lost: tuple[str, ...] = ()
    lines: int = 1
    """What is said."""
    is_known: bool = True
    """Whether it is still known what the target refuses."""


def way(options: str = "", broken: Callable[[MONKEY], None] = lambda _: None, lost: str = "", **more: Any) -> Way:
    return Way(options, broken, tuple(lost.split()), **more)


WAYS = {
    "nothing": way(lines=0),
    "comparing is fine": way("--diff --candidate eager", lines=0),
    "too little time": way("--diff --candidate aot_eager --timeout 0.01", lines=0),
    "a backend that gives None": way("--diff --candidate gives_none:backend", lines=0),
    "a backend that raises": way("--diff --candidate interrupts_itself:backend", lines=0),
    "a backend that exits": way("--diff --candidate exits:backend", lines=0),
    "a backend that raises GeneratorExit": way("--diff --candidate ends_a_generator:backend", lines=0),
    "comparing": way("--diff", fails(cells.CellWatcher, "_compare")),
    "localizing": way("--diff --candidate gives_none:backend --localize", fails(DebugSession, "localize")),
    "binding": way("", fails(cells.CellWatcher, "_bind"), "bound"),
    "showing": way("", fails(cells, "show_session"), "shown"),
    "looking whether it can be saved": way("", fails(DebugSession, "can_wait"), "saved"),
    "saving": way("", fails(DebugSession, "saving"), "saved"),
    "the store": way("", fails(ArtifactStore, "save_session"), "saved"),
    "putting back the progress line": way("", fails(cells.CellProgress, "done")),
    "judging": way("", fails(capture_run, "judge"), "shown saved repro", is_known=False),
    "opening": way("", fails(DebugSession, "open"), "bound shown saved repro", is_known=False),
    "making a session": way("", fails(DebugSession, "__init__"), "bound shown saved repro", is_known=False),
    "a rule": way("", fails(AlignmentConstraint, "check"), "repro", lines=0, is_known=False),
    "the repro": way("", fails(strict, "violation_script"), "repro"),
    "the message": way("", fails(strict, "strict_message"), lines=0, is_known=False),
}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: MONKEY) -> Iterator[InteractiveShell]:
    for name, text in CHIPS.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    running = InteractiveShell()
    extension.load(running)
    running.run_cell(SETUP)
    yield running
    extension.unload(running)


@pytest.mark.parametrize("is_strict", [True, False], ids=["strict", "lenient"])
@pytest.mark.parametrize("name", WAYS)
def test_whatever_fails(
    shell: InteractiveShell,
    name: str,
    is_strict: bool,
    monkeypatch: MONKEY,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    chosen = WAYS[name]
    chosen.broken(monkeypatch)
    flag = "--strict" if is_strict else ""
    caplog.set_level(logging.WARNING, logger="inductor_debug_jupyter")
    result = shell.run_cell(
        f"%%inductor_debug --target stick128 --lower dynamo --as session {flag} {chosen.options}\nblock(x).shape"
    )
    shown = capsys.readouterr().out
    assert str(result.result) == "torch.Size([3, 512])", "the cell's own answer"
    assert isinstance(result.error_in_exec, ConstraintViolationError) == is_strict
    assert result.success is not is_strict
    if is_strict:
        expected_text = "784 is not a multiple of 64" if chosen.is_known else "could not be checked"
        assert expected_text in str(result.error_in_exec)
    done = {
        "bound": "session" in shell.user_ns,
        "shown": "Block" in shown.split("ConstraintViolationError")[0].split("Repro scripts")[0],
        "saved": bool(list(Path.cwd().glob("**/sessions/*.json"))),
        "repro": bool(list(Path.cwd().glob("**/repros/*.py"))),
    }
    expected = {"bound", "shown", "saved", "repro"} - set(chosen.lost) - (set() if is_strict else {"repro"})
    assert {what for what, is_there in done.items() if is_there} == expected
    if {"repro", "shown"} <= expected and chosen.is_known:
        assert "Repro scripts (1)" in shown, "it is written before the panel is drawn"
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == (chosen.lines if is_strict or name != "the repro" else 0), said
    assert all("\n" not in line for line in said)


@pytest.mark.parametrize("flag", ["--strict", ""], ids=["strict", "lenient"])
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--diff --candidate nowhere:backend", "there is no module 'nowhere'"),
        ("--diff --candidate gives_none:bakend", "gives_none has no 'bakend'; did you mean backend?"),
        ("--diff --candidate raises_at_import:backend", "raises_at_import cannot be imported: RuntimeError: no driver"),
        ("--diff --candidate exits_at_import:backend", "exits_at_import cannot be imported: SystemExit: 0"),
        ("--model blokc", "there is no variable 'blokc'; did you mean block?"),
    ],
)
def test_what_cannot_work_is_said_before_the_cell_runs(
    shell: InteractiveShell, options: str, why: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = shell.run_cell(f"%%inductor_debug --target stick128 --lower dynamo {flag} {options}\nran = block(x)")
    shown = capsys.readouterr()
    assert result.error_before_exec is not None, "Run All stops"
    assert why in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err
    assert "ran" not in shell.user_ns
    assert shell.run_cell("ran = 1").success, "the next cell runs"
    assert shell.user_ns["ran"] == 1


def test_whatever_cannot_be_put_back_the_rest_is(shell: InteractiveShell, monkeypatch: MONKEY) -> None:
    """The line of progress once stayed for ever, since a hook of torch's could not be taken out before it."""
    stop = DebugSession.stop

    def stops_and_fails(session: DebugSession) -> None:
        stop(session)
        raise RuntimeError("half-built guards")

    monkeypatch.setattr(DebugSession, "stop", stops_and_fails)
    before = set(threading.enumerate())
    shell.run_cell("%%inductor_debug --target stick128 --lower dynamo\nblock(x)")
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()
    assert shell.custom_exceptions == ()


TASK = """
import asyncio
async def later():
    await asyncio.sleep(60)
    block(x)
task = asyncio.get_running_loop().create_task(later())
await asyncio.sleep(0)
"""
UNSEEN = {
    "no model": ("1 + 1", ""),
    "a model that is not called": ("torch.nn.Linear(30, 64)", ""),
    "--model of another": ("other = Block()\nblock(x)", "--model other"),
    "jit.script": ("torch.jit.script(block)(x)", ""),
    "a task that outlives the cell": (TASK, ""),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_a_strict_cell_of_which_nothing_was_checked_does_not_pass(shell: InteractiveShell, name: str) -> None:
    code, options = UNSEEN[name]
    result = shell.run_cell(f"%%inductor_debug --target stick128 --lower dynamo --strict {options}\n{code}")
    assert isinstance(result.error_in_exec, ConstraintViolationError)
    assert "nothing was captured" in str(result.error_in_exec)


SWITCHED_OFF = {
    "a stance": "with torch.compiler.set_stance('force_eager'):\n    block(x)",
    "Dynamo switched off": "with torch._dynamo.config.patch(disable=True):\n    block(x)",
}


@pytest.mark.parametrize("beside", ["", "torch.nn.Linear(64, 64)(torch.randn(8, 64))\n"], ids=["alone", "beside one"])
@pytest.mark.parametrize("name", SWITCHED_OFF)
def test_a_model_that_dynamo_does_not_look_at_does_not_pass(shell: InteractiveShell, name: str, beside: str) -> None:
    code = f"{beside}{SWITCHED_OFF[name]}"
    result = shell.run_cell(f"%%inductor_debug --target stick128 --lower dynamo --strict\n{code}")
    assert isinstance(result.error_in_exec, ConstraintViolationError)
    assert "call of Block: it ran, and Dynamo did not look at it" in str(result.error_in_exec)


def test_a_cell_under_the_magic_cannot_unload_it(shell: InteractiveShell) -> None:
    options = "--target stick128 --lower dynamo --strict"
    for last in ("%unload_ext inductor_debug_jupyter", "%reload_ext inductor_debug_jupyter", ""):
        result = shell.run_cell(f"%%inductor_debug {options}\nblock(x)\n{last}")
        assert isinstance(result.error_in_exec, ConstraintViolationError), last


def test_an_error_that_cannot_be_shown_still_stops_run_all(shell: InteractiveShell, monkeypatch: MONKEY) -> None:
    fails(shell, "showtraceback")(monkeypatch)
    result = shell.run_cell("%%inductor_debug --target stick128 --lower dynamo --strict\nblock(x)")
    assert isinstance(result.error_in_exec, ConstraintViolationError)


def test_the_magic_called_from_code_runs_its_body_and_stays_strict(shell: InteractiveShell) -> None:
    shell.run_cell("get_ipython().run_cell_magic('inductor_debug', '--lower dynamo', 'ran = block(x).shape')")
    assert str(shell.user_ns["ran"]) == "torch.Size([3, 512])"
    options = "--target stick128 --lower dynamo --strict"
    result = shell.run_cell(f"get_ipython().run_cell_magic('inductor_debug', {options!r}, 'block(x)')")
    assert isinstance(result.error_in_exec, ConstraintViolationError)


def test_the_magic_twice_on_one_cell_is_an_error_and_nothing_runs(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    result = shell.run_cell("%%inductor_debug --strict\n%%inductor_debug --lower dynamo\nran_twice = 1")
    assert not result.success
    assert "it stands twice" in "".join(capsys.readouterr())
    assert "ran_twice" not in shell.user_ns
