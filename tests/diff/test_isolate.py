"""``isolate=True``: a side that dies or hangs leaves a comparison with a reason, and this process alive."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from inductor_debug_jupyter.pipeline.bisect import bisect_stages
from inductor_debug_jupyter.pipeline.bisect.ladder import STEPS
from inductor_debug_jupyter.pipeline.diff import KernelDiffHarness
from inductor_debug_jupyter.pipeline.errors import CannotSendError, OptionError, UsageError
from inductor_debug_jupyter.pipeline.options import parse_magic_line
from inductor_debug_jupyter.pipeline.records import SessionRecord, dump_session, load_session
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import resolve

pytestmark = pytest.mark.usefixtures("fresh_dynamo", "chip")

CHIP = """
import ctypes, os, signal, torch

class Dies(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        os.abort()

def crashes(gm, inputs):
    return lambda *args: ctypes.string_at(0)

def killed(gm, inputs):
    os.kill(os.getpid(), signal.SIGKILL)

def eats_memory(gm, inputs):
    return lambda *args: torch.ones(2 * 1024**3)

def hangs(gm, inputs):
    ctypes.PyDLL(None).pause()

class OnRelu(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        if "relu" in str(target):
            print("relu: the unit is on fire", flush=True)
            ctypes.string_at(0)
        result = super().call_function(target, args, kwargs)
        return result * 1.5 if "mean" in str(target) else result

def dies_on_relu(gm, inputs):
    return OnRelu(gm).run

def dies_backward(gm, inputs):
    return lambda *args: tuple(Dies.apply(out) for out in gm.forward(*args))

def refuses(gm, inputs):
    import torch._inductor.config as config
    raise RuntimeError("the setting is " + str(config.cpp.inject_relu_bug_TESTING_ONLY))
"""


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("chip")
    (folder / "chip.py").write_text(CHIP)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


class Small(nn.Module):
    """Defined here, as in a notebook: no other process could import it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.relu(self.layer(x))
        return {"y": y, "mean": y.mean()}


def test_a_good_backend_matches_gradients_and_all() -> None:
    harness = KernelDiffHarness(
        Small(), torch.randn(4, 8), test_backend="aot_eager", isolate=True, timeout=120, backward=True
    )
    report = harness.compare()
    assert report.verdict == "match", str(report)
    assert "grad:layer.weight" in {output.path for output in report.outputs}
    assert report.record.crashes == ()


@pytest.mark.parametrize(
    ("backend", "kind", "said"),
    [
        ("chip:crashes", "signal", "died of SIGSEGV"),
        ("chip:killed", "killed", "was killed from outside"),
        ("chip:hangs", "timeout", "did not answer within 3 s and was ended while it compiled"),
    ],
)
def test_a_side_that_dies_is_not_compared_and_says_why(backend: str, kind: str, said: str) -> None:
    report = KernelDiffHarness(Small(), torch.randn(4, 8), test_backend=backend, isolate=True, timeout=3).compare()
    assert report.verdict == "not_compared"
    assert not report.passed
    (crash,) = report.record.crashes
    assert (crash.kind, crash.backend) == (kind, backend)
    assert said in " ".join(report.record.notes)
    assert {output.path for output in report.outputs} == {"y", "mean"}
    assert all(output.verdict == "not_compared" and said in output.reason for output in report.outputs)
    assert report.outputs[0].shape in {(4, 8), ()}
    assert said in str(report)


def test_a_backend_over_its_memory_limit_is_reported_as_such() -> None:
    report = KernelDiffHarness(
        Small(), torch.randn(4, 8), test_backend="chip:eats_memory", isolate=True, timeout=60, memory_limit=2 * 1024**3
    ).compare()
    (crash,) = report.record.crashes
    assert (report.verdict, crash.kind, crash.limit) == ("not_compared", "out_of_memory", "2048 MiB")
    assert "chip:eats_memory found no memory within its limit of 2048 MiB while it ran a graph of" in str(report)


def test_what_came_before_the_crash_is_compared() -> None:
    report = KernelDiffHarness(
        Small(), torch.randn(4, 8), test_backend="chip:dies_backward", isolate=True, timeout=60, backward=True
    ).compare()
    verdicts = {output.path: output.verdict for output in report.outputs}
    assert verdicts["y"] == verdicts["mean"] == "match"
    assert verdicts["grad:layer.weight"] == "not_compared"
    assert report.verdict == "not_compared"
    assert report.record.crashes[0].phase == "backward"


def test_settings_of_inductor_go_over() -> None:
    with torch._inductor.config.patch({"cpp.inject_relu_bug_TESTING_ONLY": "compile_error"}):
        report = KernelDiffHarness(Small(), torch.randn(4, 8), test_backend="chip:refuses", isolate=True).compare()
    assert report.verdict == "not_compared"
    (note,) = report.record.notes
    assert note.startswith("the candidate (chip:refuses) raised AdapterError: refuses did not compile this graph:")
    assert note.endswith("RuntimeError: the setting is compile_error")


def test_a_rung_that_crashes_has_failed() -> None:
    record = bisect_stages(
        Small(), torch.randn(4, 8), adapter="chip:crashes", steps=STEPS[:1], isolate=True, timeout=60
    )
    assert [rung.outcome for rung in record.rungs] == ["good", "failed"]
    assert record.first_bad == "chip:crashes"
    assert "died of SIGSEGV" in record.explanation


def test_the_magics_options_reach_the_session_which_keeps_the_crash() -> None:
    said = parse_magic_line("--diff --isolate --timeout 60 --memory-limit 4GiB --lower dynamo")
    assert (said["isolate"], said["timeout"], said["memory_limit"]) == (True, 60.0, 4 * 1024**3)
    session = DebugSession(resolve(said), eager=True)
    session.open()
    Small()(torch.randn(4, 8))
    session.close()
    session.diff(candidate="chip:crashes")
    again: SessionRecord = load_session(dump_session(session.record))
    assert again.diff is not None
    assert again.diff.crashes[0].signal == "SIGSEGV"
    assert "died of SIGSEGV" in str(session)


def test_what_cannot_be_isolated_is_one_line() -> None:
    with pytest.raises(CannotSendError, match="backend: a lambda cannot go to another process"):
        KernelDiffHarness(Small(), torch.randn(4, 8), test_backend=lambda gm, inputs: gm.forward, isolate=True)
    with pytest.raises(UsageError, match="memory_limit limits a process of its own: give isolate=True as well"):
        KernelDiffHarness(Small(), torch.randn(4, 8), memory_limit=2 * 1024**3)
    with pytest.raises(OptionError, match="memory=5; allowed: bytes from"):
        KernelDiffHarness(Small(), torch.randn(4, 8), isolate=True, memory_limit=5)
    with pytest.raises(OptionError, match="isolate='yes'; allowed: True or False"):
        KernelDiffHarness(Small(), torch.randn(4, 8), isolate="yes")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="test_backend='inductr'; did you mean inductor"):
        KernelDiffHarness(Small(), torch.randn(4, 8), test_backend="inductr", isolate=True)


def test_an_op_that_dies_under_localize_is_a_culprit_and_the_search_goes_on() -> None:
    session = DebugSession(resolve({"lower": "dynamo"}), eager=True, keep_inputs=True)
    session.open()
    Small()(torch.randn(4, 8))
    session.close()
    found = session.localize("chip:dies_on_relu", isolate=True, timeout=60)
    assert [culprit.op for culprit in found.culprits] == ["aten.relu.default", "aten.mean.default"]
    died, wrong = found.culprits
    assert "died of SIGSEGV" in died.reason
    assert died.source is not None
    assert "torch.relu" in died.source.text
    assert wrong.error == pytest.approx(0.5, rel=1e-3)
    (crash,) = found.crashes
    assert (crash.signal, crash.op.partition(" ")[0]) == ("SIGSEGV", "aten.relu.default")
    assert "the unit is on fire" in crash.stderr
    text = str(session)
    assert "| relu: the unit is on fire" in text
    assert "rounding explains" in text.split("aten.mean.default")[1]
    assert "rounding explains" not in text.split("aten.mean.default")[0].split("aten.relu.default")[1]
    again: SessionRecord = load_session(dump_session(session.record))
    assert again.localization == found


def test_localize_with_isolation_knows_the_devices_format() -> None:
    harness = KernelDiffHarness(lambda x: torch.tanh(x * 3), torch.randn(4, 64), test_backend="stick128", isolate=True)
    assert harness.candidate.held_as is torch.float16
    found = harness.localize()
    assert found.culprits == found.crashes == ()
    assert found.compared == 2
