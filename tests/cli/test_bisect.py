"""``bisect`` imports a model, climbs the ladder, and tells good from bad by its exit code."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

MODEL = """
import torch
from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter

class WrongAdapter(AcceleratorAdapter):
    name = "off-by-one"

    def get_supported_dtypes(self):
        return None

    def get_supported_ops(self):
        return None

    def get_memory_limit(self):
        return None

    def compile(self, gm, inputs):
        return lambda *args: tuple(out + 1 for out in gm.forward(*args))

class WrongBackward(WrongAdapter):
    name = "wrong-backward"

    def compile(self, gm, inputs):
        return lambda *args: tuple(out * 2 - out.detach() for out in gm.forward(*args))

class Crashes(WrongAdapter):
    def compile(self, gm, inputs):
        import os
        os.abort()

def make():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval(), (torch.randn(2, 8),)

def broken():
    raise KeyError("no weights")

def only_model():
    return torch.nn.Linear(2, 2)

number = 3
"""


@pytest.fixture(autouse=True)
def _own_modules() -> Iterator[None]:
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in ("bisect_me", "bad_syntax", "needs_more"):
        sys.modules.pop(name, None)


@pytest.fixture
def model(folder: Path) -> None:
    (folder / "bisect_me.py").write_text(MODEL)


@pytest.mark.usefixtures("model", "fresh_dynamo")
def test_a_good_model(cli: Cli) -> None:
    result = cli("bisect", "bisect_me:make")
    assert result.code == 0, result
    assert "inductor" in result.out.lower()


@pytest.mark.usefixtures("model", "fresh_dynamo")
def test_an_adapter_with_wrong_numbers(cli: Cli) -> None:
    result = cli("bisect", "bisect_me:make", "--adapter", "bisect_me:WrongAdapter")
    assert (result.code, result.err) == (1, "")
    rungs = [line.split() for line in result.out.splitlines() if "✓" in line or "✗" in line]
    (bad,) = [rung for rung in rungs if "✗" in rung]
    assert bad[:2] == ["→", "off-by-one"]
    assert len(rungs) > 3


@pytest.mark.usefixtures("model", "fresh_dynamo")
def test_gradients_are_compared_when_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from inductor_debug_jupyter.pipeline import bisect

    short = functools.partial(bisect.bisect_stages, steps=bisect.STEPS[:3])  # Inductor is not the point
    monkeypatch.setattr(bisect, "bisect_stages", short)
    arguments = ("bisect", "bisect_me:make", "--adapter", "bisect_me:WrongBackward")
    assert cli(*arguments).code == 0
    result = cli(*arguments, "--backward")
    assert (result.code, result.err) == (1, "")
    assert "grad:" in result.out


@pytest.mark.usefixtures("model", "fresh_dynamo")
def test_an_adapter_that_crashes_is_a_failed_rung(cli: Cli) -> None:
    result = cli("bisect", "bisect_me:make", "--adapter", "bisect_me:Crashes", "--isolate", "--timeout", "100")
    assert (result.code, result.err) == (1, ""), result
    assert "bisect_me:Crashes" in result.out
    assert "died of SIGABRT" in result.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["bisect_me"], "'bisect_me' is not allowed; allowed: MODULE:ATTRIBUTE"),
        (["bisect_me:"], "is not allowed"),
        (["../x:make"], "is not allowed"),
        (["no_such_module:make"], "there is no module 'no_such_module'"),
        (["bisect_me:mak"], "bisect_me has no 'mak'; did you mean make?"),
        (["bisect_me:broken"], "bisect_me:broken() failed: KeyError: 'no weights'"),
        (["bisect_me:only_model"], "must return (model, inputs); it returned a Linear"),
        (["bisect_me:number"], "must be a function that returns (model, inputs), not a int"),
        (["bisect_me:make", "--adapter", "bisect_me:number"], "must be an AcceleratorAdapter, not a int"),
        (
            ["bisect_me:make", "--timeout", "soon"],
            "--timeout: 'soon' is not allowed; allowed: a number of seconds above 0",
        ),
        (["bisect_me:make", "--adapter", "aot_eagr", "--isolate"], "--adapter='aot_eagr'; did you mean aot_eager?"),
        (
            ["bisect_me:make", "--memory-limit", "4GiB"],
            "--memory-limit limits a process of its own: give --isolate as well",
        ),
        (["bad_syntax:make"], "bad_syntax cannot be imported: SyntaxError"),
        (["needs_more:make"], "needs_more cannot be imported: No module named 'not_here'"),
    ],
)
@pytest.mark.usefixtures("model")
def test_what_cannot_be_imported_is_one_line(cli: Cli, folder: Path, arguments: list[str], sentence: str) -> None:
    (folder / "bad_syntax.py").write_text("def make(:")
    (folder / "needs_more.py").write_text("import not_here")
    result = cli("bisect", *arguments)
    assert (result.code, result.out) == (2, "")
    (line,) = result.err.splitlines()
    assert sentence in line
