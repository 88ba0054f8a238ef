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
import torch
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


@pytest.mark.parametrize(
    ("name", "is_strict"),
    [
        *(pytest.param(name, True, id=f"{name}-strict") for name in WAYS),
        *(
            pytest.param(name, False, id=f"{name}-lenient", marks=pytest.mark.long if at % 3 else ())
            for at, name in enumerate(WAYS)
        ),
    ],
)
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


BESIDE = "torch.nn.Linear(64, 64)(torch.randn(8, 64))\n"
PRODUCT = """class Product(torch.nn.Module):
    def __init__(self, size=30):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(size, 64))
"""
EARLIER = """import queue, threading
work, results = queue.Queue(), queue.Queue()
earlier = torch.compile(lambda x: x * 2, dynamic=False, backend="eager")
earlier(torch.randn(8, 64))
switched_off = torch.compiler.disable(torch.nn.Linear(30, 64))
def serve():
    while (item := work.get()) is not None:
        results.put(block(item))
    while (item := work.get()) is not None:
        results.put(earlier(item))
threading.Thread(target=serve, daemon=True).start()
"""
AHEAD = """import torch._inductor
from torch.fx.experimental.proxy_tensor import make_fx
graph = make_fx(lambda x: (x @ x.t(),))(torch.randn(8, 30))
compiled_ahead = torch._inductor.standalone_compile(graph, [torch.randn(8, 30)])
"""
UNCHECKED = {
    "TorchScript": ("torch.jit.script(torch.nn.Linear(30, 64))(torch.randn(8, 30))", "it is TorchScript"),
    "a sparse input": ("torch.nn.Linear(30, 64)(torch.randn(8, 30).to_sparse())", "sparse"),
    "a nested input": (
        "torch.nn.Linear(30, 64)(torch.nested.nested_tensor([torch.randn(3, 30), torch.randn(4, 30)]))",
        "NestedTensor",
    ),
    "an LSTM": ("torch.nn.LSTM(30, 64)(torch.randn(8, 2, 30))", "LSTM"),
    "Inductor without Dynamo": (
        ("import torch._inductor\nx = torch.randn(8, 30)\n"
        "torch._inductor.compile(torch.fx.symbolic_trace(torch.nn.Linear(30, 64)), [x])(x)"),
        "did not come from Dynamo",
    ),
    "fake tensors": (
        ("from torch._subclasses import FakeTensorMode\n"
        "with FakeTensorMode():\n    torch.nn.Linear(30, 64)(torch.randn(8, 30))"),
        "its tensors are fake",
    ),
    "a compiled model on the meta device": (
        "torch.compile(torch.nn.Linear(30, 64, device='meta'))(torch.randn(8, 30, device='meta'))",
        "meta device",
    ),
    "more recompiles than torch allows": (
        ("double = torch.compile(lambda x: x * 2, dynamic=False, backend='eager')\n"
        "for size in range(64, 64 * 12, 64):\n    double(torch.randn(64, size))"),
        "recompile limit",
    ),
    "a break in a loop": (
        (PRODUCT + "    def forward(self, x):\n        for _ in range(2):\n            print(end='')\n"
        "            y = x @ self.weight\n        return y\nProduct()(torch.randn(8, 30))"),
        "it ran as it is, and not compiled",
    ),
    "an op between two graphs": (
        PRODUCT + "    def forward(self, x):\n        return x.nonzero().float() * 2\nProduct()(torch.randn(64, 64))",
        "aten.nonzero",
    ),
    "a model that was switched off earlier": ("switched_off(torch.randn(8, 30))", "torch.compiler.disable"),
    "a model that is switched off inside another": (
        PRODUCT + "    def forward(self, x):\n        return switched_off(x[:, :30]) + x\n"
        "Product()(torch.randn(64, 64))",
        "torch.compiler.disable",
    ),
    "a function that is switched off": (
        "@torch.compiler.disable\ndef off(x):\n    return x @ torch.randn(30, 64)\n"
        + PRODUCT + "    def forward(self, x):\n        return off(x[:, :30]) + x\nProduct()(torch.randn(64, 64))",
        "torch.compiler.disable",
    ),
    "a __call__ that may end in torch's": (
        (PRODUCT + "    def __call__(self, x):\n        return super().__call__(x) if x is None else x @ self.weight\n"
        "Product()(torch.randn(8, 30))"),
        "its own __call__ does without nn.Module's",
    ),
    "a __call__ from a class that is no module": (
        ("class Mixed:\n    def __call__(self, x):\n        return x @ self.weight\n"
        "class Both(Mixed, torch.nn.Linear):\n    pass\nBoth(64, 30)(torch.randn(8, 30))"),
        "30 is not a multiple of 64",
    ),
    "a __call__ that is no function": (
        ("import functools\n" + PRODUCT + "    def run(self, _, x):\n        return x @ self.weight\n"
        "    __call__ = functools.partialmethod(run, 1)\nProduct()(torch.randn(8, 30))"),
        "its own __call__ does without nn.Module's",
    ),
    "a __call__ that is given later": (
        PRODUCT + "Product.__call__ = lambda self, x: x @ self.weight\nProduct()(torch.randn(8, 30))",
        "it was given a __call__ of its own later",
    ),
    "a hook that is added later": (
        ("model, other = torch.nn.Linear(64, 64), torch.nn.Linear(30, 64)\nmodel(torch.randn(8, 64))\n"
        "model.register_forward_hook(lambda _, __, made: made + other(torch.randn(8, 30)))\nmodel(torch.randn(8, 64))"),
        "30 is not a multiple of 64",
    ),
    "a stance that compiles nothing new": (
        ("earlier(torch.randn(8, 64))\nwith torch.compiler.set_stance('eager_on_recompile'):\n"
        "    earlier(torch.randn(8, 30))"),
        "ran without the compiler: a stance or a setting",
    ),
    "compiled, with Dynamo switched off": (
        ("with torch._dynamo.config.patch(disable=True):\n"
        "    torch.compile(torch.nn.Linear(30, 64), backend='eager')(torch.randn(8, 30))"),
        "ran without the compiler: a stance or a setting",
    ),
    "a branch that the graph takes": (
        (PRODUCT + "    def forward(self, x):\n        return torch.cond(x.sum() > 0, lambda x: x[:, :30] @"
        " self.weight, lambda x: x[:, :30] @ self.weight + 1, (x,))\nProduct()(torch.randn(8, 64))"),
        "rule for cond: what it calls is a graph of its own",
    ),
    "what was compiled ahead of time": (
        "compiled_ahead(torch.randn(8, 30))", "CacheCompiledArtifact: it was compiled ahead of time"
    ),
    "a compiled function on a thread of an earlier cell": (
        "work.put(None)\nwork.put(torch.randn(8, 30))\nresults.get()",
        "and not captured: that thread was started before",
    ),
    "a thread of an earlier cell": ("work.put(x)\nresults.get()", "and not captured: that thread was started before"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        *(pytest.param(name, BESIDE, id=f"{name}-beside one") for name in UNCHECKED),
        *(
            pytest.param(name, "", id=f"{name}-alone", marks=pytest.mark.long if at % 4 else ())
            for at, name in enumerate(UNCHECKED)
        ),
    ],
)
def test_what_no_rule_has_seen_does_not_pass(shell: InteractiveShell, name: str, beside: str) -> None:
    code, why = UNCHECKED[name]
    assert shell.run_cell(EARLIER + (AHEAD if "compiled_ahead" in code else "")).success
    options = "--target stick128 --strict --no-panel --lower dynamo"
    result = shell.run_cell(f"%%inductor_debug {options}\n{beside}{code}")
    shell.run_cell("work.put(None); work.put(None)")
    assert isinstance(result.error_in_exec, ConstraintViolationError)
    assert why in str(result.error_in_exec)
    assert "could not be checked" in str(result.error_in_exec) or why.startswith("30 is not")


SEEN = {
    "a __call__ of its own": PRODUCT + "    def __call__(self, x):\n        return x @ self.weight\nProduct({})({})",
    "a graph of torch.fx": "torch.fx.symbolic_trace(torch.nn.Linear({}, 64))({})",
    "the meta device": "torch.nn.Linear({}, 64, device='meta')({}.to('meta'))",
    "a hook that calls another": (
        "other, model = torch.nn.Linear({}, 64), torch.nn.Linear(64, 64)\n"
        "model.register_forward_hook(lambda _, __, made: made + other({}))\nmodel(torch.randn(8, 64))"
    ),
    "a backend that returns a module": (
        "torch.compile(torch.nn.Linear({}, 64), backend=lambda graph, _: graph)({}).sum().backward()"
    ),
    "a checkpoint, recomputed in the backward": (
        "from torch.utils.checkpoint import checkpoint\ninner = torch.nn.Linear({}, 64)\n"
        "class Outer(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.inner = inner\n"
        "    def forward(self, x):\n        return checkpoint(self.inner, x, use_reentrant=False)\n"
        "Outer()({}).sum().backward()"
    ),
    "open sizes that a guard fixes": (
        "torch.compile(torch.nn.Linear({}, 64), dynamic=True, backend='eager')({}).shape"
    ),
    "an export": "torch.export.export(torch.nn.Linear({0}, 64), ({1},)).module()({1})",
}


@pytest.mark.parametrize("size", [30, 64], ids=["refused", "taken"])
@pytest.mark.parametrize("name", SEEN)
def test_what_is_called_in_an_unusual_way_is_checked(shell: InteractiveShell, name: str, size: int) -> None:
    code = SEEN[name].replace("{}", str(size), 1).replace("{}", f"torch.randn(8, {size})")
    code = code.replace("{0}", str(size)).replace("{1}", f"torch.randn(8, {size})")
    result = shell.run_cell(f"%%inductor_debug --target stick128 --strict --no-panel\n{BESIDE}{code}")
    if size == 64:
        assert result.success
    else:
        assert isinstance(result.error_in_exec, ConstraintViolationError)
        assert "30 is not a multiple of 64" in str(result.error_in_exec)
    assert "__init_subclass__" not in vars(torch.nn.Module)


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
