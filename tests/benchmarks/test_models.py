"""Each model is built as described, and its tiny version goes all the way through."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from inductor_debug_jupyter.benchmarks import model_trial
from inductor_debug_jupyter.benchmarks.__main__ import main
from inductor_debug_jupyter.benchmarks.models import benchmark_model, transformers
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.reports import json_report
from inductor_debug_jupyter.pipeline.store import ArtifactStore, load_benchmarks

Capsys = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("name", "millions"), [("bert", 178), ("resnet", 12), ("mamba", 27)])
def test_the_real_sizes(name: str, millions: int) -> None:
    with torch.device("meta"):
        built = benchmark_model(name).build(False)
    assert round(built.parameters / 1e6) == millions
    assert not built.module.training


def test_two_builds_are_the_same_model() -> None:
    first, second = (benchmark_model("bert").build(True) for _ in range(2))
    assert all(map(torch.equal, first.inputs, second.inputs))
    assert all(map(torch.equal, first.module.parameters(), second.module.parameters()))


@pytest.mark.long  # resnet is in the suite: tests/test_documented_surface.py
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("name", ["bert", "mamba"])
def test_a_tiny_model_goes_all_the_way(name: str, tmp_path: Path, capsys: Capsys) -> None:
    arguments = ["models", "--model", name, "--small", "--warmup", "0", "--runs", "2", "--keep-cache"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split()[0] == "Model"
    assert f"{name} (small)" in out
    assert "Stored in debug_artifacts" in out
    assert "[6/6]" in err
    store = ArtifactStore("debug_artifacts")
    ((record,), problems) = load_benchmarks(store)
    assert problems == ()
    eager, inductor = record.timing("eager"), record.timing("inductor")
    assert eager is not None
    assert inductor is not None
    assert (eager.error, inductor.error) == ("", "")
    assert eager.compile_seconds == 0 < inductor.compile_seconds
    assert inductor.latency_mean > 0
    assert (eager.runs, inductor.runs) == (2, 2)
    assert record.timing("mock_backend") is not None
    assert record.graphs == 1
    assert record.diff_verdict in {"match", "rounding"}
    (session,) = store.sessions()
    assert session.id == record.session_id
    assert session.name == f"{name} (small)"
    report = json_report(store)
    assert report["summary"]["kernel_diff_passed"] is True
    assert sum(record.findings.values()) == sum(len(finding["places"]) for finding in report["constraints"])
    assert report["benchmarks"][0]["model"] == record.model


@pytest.mark.long
@pytest.mark.usefixtures("fresh_dynamo")
def test_a_backend_that_fails_is_a_row(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Callable[..., object]:
        raise ZeroDivisionError("no such\ndevice")

    monkeypatch.setattr(model_trial, "mock_backend", broken)
    assert main(["models", "--model", "bert", "--small", "--runs", "1", "--keep-cache"]) == 1
    out = capsys.readouterr().out
    assert "failed" in out
    assert "bert (small) on mock_backend failed: " in out
    assert "no such" in out
    ((record,), _) = load_benchmarks(ArtifactStore("debug_artifacts"))
    assert [bool(timing.error) for timing in record.timings] == [False, False, True]


def test_without_transformers_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match=r"inductor-debug-jupyter\[benchmarks\]"):
        transformers()
    assert main(["models", "--all", "--small"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "install it with: pip install 'inductor-debug-jupyter[benchmarks]'" in err.splitlines()[-1]
