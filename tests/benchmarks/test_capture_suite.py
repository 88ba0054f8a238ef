"""The capture suite: what it asks its children, in which order, and what it makes of their answers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inductor_debug_jupyter.benchmarks.__main__ import main
from inductor_debug_jupyter.benchmarks.children import Answer, Children, Job, Lap, Meter
from inductor_debug_jupyter.benchmarks.suites import capture
from inductor_debug_jupyter.pipeline.records.graph import STAGES

Capsys = pytest.CaptureFixture[str]

SECONDS = {"plain": 10.0, "capture": 10.4, "compile_debug": 12.9, "tlparse": 10.1, "depyf": 10.3, "cached": 2.0}


class Told:
    """Stands in for :class:`Children`: answers at once, and remembers what it was asked."""

    asked: list[tuple[str, int, bool]]
    broken: dict[str, str]

    def __init__(self, folder: Path) -> None: ...

    def run(self, job: Job, *, warming: bool = False) -> Answer:
        if job.kind == "calls":
            times = {"plain": 2e-3, "control": 2.01e-3, "captured": 2e-3, "around": 2e-3, "first": 2e-3}
            return Answer("", "2.13.0", calls=times | {"under": 2.2e-3})
        contender = job.contender
        Told.asked.append((contender, job.layers, warming))
        if contender in Told.broken:
            return Answer(error=Told.broken[contender])
        scale = job.layers / 4
        compiling, after = Lap(SECONDS[contender] * scale, 20.0), Lap()
        found: dict[str, str] = {}
        if contender == "capture":
            after = Lap(0.2 * scale, 0.3)
            found = dict.fromkeys(STAGES, "session.json")
        if contender == "compile_debug":
            found = dict.fromkeys(STAGES, "a.py") | {"joint": "trace.log"}
        if contender == "tlparse":
            found = {stage: "a.txt" for stage in STAGES if not stage.startswith("ir")}
        hits = int(contender == "cached")
        own = 0.4 * scale if job.timed and contender == "capture" else 0.0
        return Answer("", "2.13.0", compiling, after, found, nodes=500 * job.layers, cache_hits=hits, own=own)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> type[Told]:
    Told.asked, Told.broken = [], {}
    monkeypatch.setattr(capture, "Children", Told)
    return Told


def test_the_order_turns_round_after_a_run_that_is_not_counted(told: type[Told], capsys: Capsys) -> None:
    assert main(["capture", "--only", "depyf,plain,capture", "--repeats", "2"]) == 0
    names = ["plain", "capture", "depyf"]
    counted = [name for name, _, warming in told.asked if not warming]
    assert [name for name, _, warming in told.asked if warming] == names
    assert counted == [*names, *reversed(names)]


def test_the_table_and_its_sentences(told: type[Told], capsys: Capsys) -> None:
    told.broken = {"depyf": "AttributeError: no such hook"}
    assert main(["capture", "--repeats", "1"]) == 0
    out = capsys.readouterr().out
    rows = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "all 9 stages" in rows["our capture"]
    assert "1.04×" in rows["our capture"]
    assert "1.06×" in rows["our capture"]
    assert "7 of 9 stages; no ir_pre_fusion, ir_post_fusion" in rows["TORCH_TRACE + tlparse"]
    assert "joint only inside a raw log" in rows["TORCH_COMPILE_DEBUG=1"]
    assert "failed: AttributeError: no such hook" in rows["depyf"]
    assert "Our capture in the block: 1.04× a plain compile (goal ≤ 1.10×: met)" in out
    assert "TORCH_COMPILE_DEBUG=1 costs 1.29×: ours is cheaper (met)" in out
    assert "costs 5.0× a hit in them (10.00 s over 2.00 s)" in out
    assert "The compiled function afterwards: 1.000×" in out
    assert "two plain ones 1.005×" in out
    assert "while the capture is still open 1.100×" in out


def test_what_is_missed_is_said(told: type[Told], capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SECONDS, "capture", 13.0)
    assert main(["capture", "--only", "plain,capture,compile_debug", "--repeats", "1"]) == 0
    out = capsys.readouterr().out
    assert "1.30× a plain compile (goal ≤ 1.10×: not met)" in out
    assert "ours is not cheaper (not met)" in out


def test_without_our_capture_it_ends_in_1(told: type[Told], capsys: Capsys) -> None:
    told.broken = {"capture": "KeyError: 'x'"}
    assert main(["capture", "--repeats", "3"]) == 1
    assert sum(name == "capture" for name, _, _ in told.asked) == 1  # it is not tried again and again
    assert "failed: KeyError: 'x'" in capsys.readouterr().out


def test_a_cache_that_was_not_hit_is_no_figure(told: type[Told], capsys: Capsys, monkeypatch: Any) -> None:
    original = Told.run
    monkeypatch.setattr(Told, "run", lambda *args, **kwargs: replace(original(*args, **kwargs), cache_hits=0))
    main(["capture", "--only", "plain,cached", "--repeats", "1"])
    out = capsys.readouterr().out
    assert "failed: torch did not answer from its caches" in out
    assert "a hit in them" not in out


def test_several_layers_ask_how_it_grows(told: type[Told], capsys: Capsys) -> None:
    assert main(["capture", "--layers", "4,1,2", "--repeats", "1"]) == 0
    out = capsys.readouterr().out
    assert {name for name, _, _ in told.asked} == {"plain", "capture"}
    rows = [line.split() for line in out.splitlines() if line.strip()[:1].isdigit() and "layers" not in line]
    assert [row[:2] + row[4:5] for row in rows] == [
        ["1", "500", "0.150"],
        ["2", "1000", "0.300"],
        ["4", "2000", "0.600"],
    ]
    assert out.splitlines()[-1].startswith("Linear: we add +0.000 s +0.150 s a layer (R² 1.000")
    assert out.rstrip().endswith("grows as nodes^1.00)")


def test_what_is_quadratic_is_not_called_linear() -> None:
    points = [(n, 100 * n, n * n / 100) for n in (1, 2, 4, 8, 16)]
    line = capture.growth_line(points)
    assert line.startswith("Not shown to be linear")
    assert "grows as nodes^2.00" in line
    assert "at least three" in capture.growth_line(points[:2])
    drowned = capture.growth_line([(n, nodes, seconds - 0.02) for n, nodes, seconds in points])
    assert drowned.startswith("Not shown to be linear")
    assert "nodes^" not in drowned


def test_other_programs_are_counted() -> None:
    meter = Meter()
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    lap = meter.lap()
    assert 0 < lap.children <= lap.cpu
    assert meter.lap().children == 0


@pytest.fixture
def strange_python(tmp_path: Path) -> str:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nenv > environment\necho 'no module here' >&2\nexit 3\n")
    script.chmod(0o755)
    return str(script)


def test_a_child_that_ends_without_an_answer(tmp_path: Path, strange_python: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "executable", strange_python)
    monkeypatch.setenv("TORCH_LOGS", "+dynamo")
    monkeypatch.setenv("INDUCTOR_DEBUG_TARGET", "stick128")
    answer = Children(tmp_path).run(Job("compile", "compile_debug", 1))
    assert answer.error == "the process ended with 3: no module here"
    seen = (tmp_path / "child-001/environment").read_text()
    assert "TORCH_COMPILE_DEBUG=1" in seen
    assert "TORCHINDUCTOR_CACHE_DIR=" in seen
    assert "TORCH_LOGS" not in seen
    assert "INDUCTOR_DEBUG_TARGET" not in seen


@pytest.mark.long
def test_small_runs_for_real(capsys: Capsys) -> None:
    assert main(["capture", "--small", "--only", "plain,capture,calls", "--calls", "3"]) == 0, capsys.readouterr()
    out, err = capsys.readouterr()
    assert "[3/3]" in err
    rows = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "nothing" in rows["plain compile"]
    assert "all 9 stages" in rows["our capture"]
    assert out.splitlines()[-1] == "Small: these figures say that it runs, nothing else"
