"""Everything that runs a kept call again runs it as the cell did, and leaves the user's things as they were.

One model, and a table of all entry points. The model's forward notes under which modes and from which random numbers
it runs, in a list of ``sys``: that is not put back after a run as everything is that a model reaches.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import logging
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.quick_run import QuickRun
from inductor_debug_jupyter.pipeline.session import DebugSession

HOOKED: list[str] = []
LOG = logging.getLogger("users_own_model")


def circumstances() -> dict[str, Any]:
    """What a forward can see of how it is run."""
    on = torch.is_autocast_enabled("cpu")
    return {
        "autocast": torch.get_autocast_dtype("cpu") if on else None,
        "grad": torch.is_grad_enabled(),
        "numbers": generators(),
    }


def generators() -> dict[str, str]:
    states = {"python": random.getstate(), "numpy": numpy.random.get_state(), "torch": torch.get_rng_state().tolist()}
    return {name: hashlib.sha256(pickle.dumps(state)).hexdigest()[:8] for name, state in states.items()}


class Watched(nn.Module):
    """Draws from three generators, writes to a buffer, prints, logs, and has hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(24, 24)
        self.register_buffer("calls", torch.zeros(()))
        self.seen: list[int] = []
        in_a_closure: list[str] = []
        self.counts = lambda: (len(HOOKED), len(in_a_closure), len(self.seen))
        self.inner.register_forward_hook(lambda *_: HOOKED.append("forward"))
        self.inner.register_forward_pre_hook(lambda *_: in_a_closure.append("before"))
        self.register_forward_hook(self.count)
        self.inner.register_forward_hook(lambda module, given, made: made * 1.5)

    def count(self, *_: Any) -> None:
        self.seen.append(len(self.seen))

    def forward(self, x: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            sys.noted.append(circumstances())  # type: ignore[attr-defined]
            print("the model prints")
            LOG.warning("the model logs")
            random.random(), numpy.random.rand()
        self.calls += 1
        made = nn.functional.dropout(self.inner(x), 0.5)
        return made * (2.0 if torch.is_grad_enabled() else 3.0)


class Seeing(TorchDispatchMode):
    """An instrument of the user's."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops.append(str(func))
        return func(*args, **(kwargs or {}))


def node(session: DebugSession, **options: Any) -> None:
    for _ in range(2):  # the second time it is not traced
        session.node("mm" if "mm" in names(session) else "addmm", **options).run()


def names(session: DebugSession) -> set[str]:
    return {each.name for each in session.captures[0].graph("forward").nodes}


def reproduce(session: DebugSession) -> None:
    with pytest.raises(UsageError, match="nothing to reproduce"):
        session.reproduce("aot_eager")


ENTRIES: dict[str, Callable[[DebugSession], Any]] = {
    "diff": lambda session: session.diff(candidate="aot_eager"),
    "diff with gradients": lambda session: session.diff(candidate="aot_eager", backward=True),
    "localize": lambda session: session.localize("aot_eager"),
    "bisect": lambda session: session.bisect(),
    "reproduce": reproduce,
    "batch": lambda session: session.try_out(batch=8),
    "dtype": lambda session: session.try_out(dtype="float64"),
    "node": node,
    "node of a candidate": lambda session: node(session, candidate="aot_eager"),
    "fix": lambda session: session.fix_all(trials=2),
}


RUN_BY_PYTHON = {"diff", "diff with gradients", "localize", "bisect", "batch", "dtype", "fix"}
"""Those that call the model itself too. The others only have Dynamo trace it."""


def state_of(model: Watched) -> dict[str, Any]:
    return {
        "tensors": copy.deepcopy(model.state_dict()),
        "identities": {name: id(each) for name, each in model.named_parameters()},
        "gradients": [each.grad for each in model.parameters()],
        "versions": [each._version for each in (*model.parameters(), *model.buffers())],
        "hooks": model.counts(),
        "numbers": generators(),
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")),
    }


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(sys, "noted", found, raising=False)
    return found


@contextlib.contextmanager
def user_modes(grad: bool) -> Iterator[None]:
    with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16, enabled=not grad):
        yield


def captured(model: Watched, grad: bool, folder: Path) -> tuple[DebugSession, dict[str, Any]]:
    """A session of one call, and the circumstances of that call."""
    x = torch.randn(4, 24)
    with (
        capture(target="stick128", eager=True, lower="aot", keep_inputs=True, artifacts=str(folder)) as session,
        user_modes(grad),
    ):
        first = circumstances()
        model(x)
    return session, first


@pytest.mark.every(2)
@pytest.mark.parametrize("grad", [pytest.param(True, marks=pytest.mark.long), False], ids=["grad", "no grad, autocast"])
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.usefixtures("fresh_dynamo")
def test_a_kept_call_is_run_again_as_it_was_and_leaves_nothing(
    entry: str,
    grad: bool,
    noted: list[dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Watched()
    torch.manual_seed(0), random.seed(0), numpy.random.seed(0)
    session, first = captured(model, grad, tmp_path)
    first["grad"] = grad or "gradients" in entry
    torch.rand(3), random.random(), numpy.random.rand()
    before = state_of(model)
    capsys.readouterr()
    caplog.clear()
    noted.clear()
    with Seeing() as seeing, torch.autocast("cpu", torch.float16):
        ENTRIES[entry](session)
    assert bool(noted) == (entry in RUN_BY_PYTHON)
    assert all(seen == first for seen in noted[: len(noted) - (entry == "batch")]), "the last one has another seed"
    assert capsys.readouterr().out == ""
    assert not [record for record in caplog.records if record.name == LOG.name]
    after = state_of(model)
    for name, value in before.pop("tensors").items():
        assert torch.equal(value, after["tensors"][name]), name
    assert before == {name: after[name] for name in before}
    assert not seeing.ops


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_quick_run_leaves_nothing(
    noted: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, x = Watched(), torch.randn(4, 24)
    before = state_of(model)
    with Seeing() as seeing, torch.inference_mode():
        QuickRun(model, x, backend="aot_eager", backward=True, artifacts=str(tmp_path)).run()
    assert capsys.readouterr().out == ""
    after = state_of(model)
    for name, value in before.pop("tensors").items():
        assert torch.equal(value, after["tensors"][name]), name
    assert before == {name: after[name] for name in before}
    assert not seeing.ops
