"""What the benchmarks' command line understands, and what it says."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from inductor_debug_jupyter.benchmarks import __main__ as program
from inductor_debug_jupyter.benchmarks.__main__ import main
from inductor_debug_jupyter.benchmarks.model_trial import measure
from inductor_debug_jupyter.benchmarks.models import MODEL_NAMES, Built
from inductor_debug_jupyter.benchmarks.printing import error_line
from inductor_debug_jupyter.benchmarks.suites.models import COLUMNS, failure_lines, model_row, noise_lines
from inductor_debug_jupyter.pipeline.records import BackendTiming, BenchmarkRecord
from tests.proofs import __main__ as proofs

Capsys = pytest.CaptureFixture[str]

RECORD = BenchmarkRecord(
    model="\x1b[31mnet",
    description="",
    parameters=178_000_000,
    created="",
    torch_version="",
    device="cpu",
    timings=(
        BackendTiming("eager", 0.0, 0.020, 0.001, 5),
        BackendTiming("inductor", 31.4, 0.010, 0.006, 5),
        BackendTiming("mock_backend", 0.0, 0.0, 0.0, 0, error="ValueError: no"),
    ),
    graphs=1,
    graph_breaks=2,
    findings={"a.b": 3, "c": 4},
    diff_verdict="not_compared",
)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["models"], "which model? Say --all, or --model NAME with one of bert, resnet, mamba"),
        (["models", "--model", "gpt"], "--model: 'gpt' is not allowed; allowed: bert, resnet, mamba"),
        (["models", "--all", "--runs", "0"], "--runs: '0' is not allowed; allowed: a whole number from 1 up"),
        (["models", "--all", "--warmup", "x"], "--warmup: 'x' is not allowed"),
        (["models", "--all", "--device", "warp"], "--device: 'warp' is not allowed"),
        (["models", "--all", "--device", "meta"], "--device: 'meta' is not allowed; this machine has cpu"),
        (["models", "--al"], "unknown option '--al'; did you mean --all?"),
        (["capture", "--only", "plain,me"], "--only: 'me' is not allowed; allowed: plain, capture, compile_debug"),
        (["capture", "--layers", "1,0"], "--layers: '0' is not allowed; allowed: a whole number from 1 up"),
        (["capture", "--repeats", "two"], "--repeats: 'two' is not allowed"),
        (["modles"], "unknown suite 'modles'; allowed: models, capture"),
    ],
)
def test_what_is_not_understood_gets_one_line(capsys: Capsys, arguments: list[str], sentence: str) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert sentence in line


def test_list_and_help(capsys: Capsys) -> None:
    assert main(["models", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in MODEL_NAMES)
    assert main([]) == 0
    assert "models" in capsys.readouterr().out
    assert main(["models", "--help"]) == 0
    assert "--keep-cache" in capsys.readouterr().out


def test_a_checkout_runs_the_proofs_by_their_names(capsys: Capsys) -> None:
    assert set(program.PROOFS) == set(proofs.SUITES)
    assert main(["truth", "--case", "no"]) == 2
    assert capsys.readouterr().err.startswith("tests.proofs: --case: 'no' is not allowed")


def test_an_installed_package_says_where_the_proofs_are(
    capsys: Capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(program, "__file__", str(tmp_path / "inductor_debug_jupyter" / "benchmarks" / "__main__.py"))
    assert main(["truth", "--jobs", "2"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "truth proves this package and is not installed with it" in line
    assert line.endswith("in a checkout of the project: python -m tests.proofs truth")


def test_listing_needs_neither_torch_nor_transformers(cold_python: None) -> None:
    code = (
        "import sys; from inductor_debug_jupyter.benchmarks.__main__ import main; main(['models', '--list'])\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_a_row_says_what_was_measured() -> None:
    told = dict(zip(COLUMNS, model_row(RECORD), strict=True))
    assert told["Eager ms"] == "20.0 ± 1.0"
    assert told["Mock ms"] == "failed"
    assert (told["Params"], told["Speedup"], told["Compile s"]) == ("178.0M", "2.00×", "31.4")
    assert (told["Graphs"], told["Breaks"], told["Findings"], told["KernelDiff"]) == ("1", "2", "7", "not compared")
    assert failure_lines(RECORD) == ["�[31mnet on mock_backend failed: ValueError: no"]
    (noisy,) = noise_lines(RECORD)
    assert "on inductor is noisy (± 60%)" in noisy


def test_no_speedup_without_inductor() -> None:
    failed = replace(RECORD, timings=(RECORD.timings[0], BackendTiming("inductor", 0.0, 0.0, 0.0, 0, error="x")))
    told = dict(zip(COLUMNS, model_row(failed), strict=True))
    assert (told["Inductor ms"], told["Speedup"], told["Compile s"], told["Mock ms"]) == ("failed", "–", "–", "–")


def test_measuring_counts_the_calls() -> None:
    import torch

    calls: list[int] = []
    built = Built(lambda x: calls.append(1), (torch.ones(1),))
    timing = measure("eager", built, None, warmup=2, runs=3)
    assert len(calls) == 1 + 2 + 3
    assert (timing.runs, timing.compile_seconds, timing.error) == (3, 0.0, "")
    assert measure("x", built, lambda module: module, warmup=0, runs=1).compile_seconds > 0


def test_an_error_in_one_line() -> None:
    assert error_line(ValueError("a\nb")) == "ValueError: a"
    assert error_line(RuntimeError("backend='x' raised:\nKeyError: 1\n\nmore")) == (
        "RuntimeError: backend='x' raised: KeyError: 1"
    )
    assert error_line(KeyboardInterrupt()) == "KeyboardInterrupt"
