"""``devices`` on tiny models: every op accounted for, peaks measured, partitions bit-equal; and what a failure says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.devices import load_profile
from tests.proofs import devices
from tests.proofs.__main__ import main
from tests.proofs.devices import DeviceTrial, ReplayResult, check_target
from tests.proofs.synthetic import synthetic_capture

Capsys = pytest.CaptureFixture[str]


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.filterwarnings("ignore")  # transformers and torch warn of their own doing
@pytest.mark.long
def test_tiny_models_on_every_target(capsys: Capsys, tmp_path: Path) -> None:
    assert main(["devices", "--small", "--json", "figures.json"]) == 0
    out, err = capsys.readouterr()
    assert "All gates hold" in out
    assert "[4/4]" in err
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [model["model"] for model in figures["models"]] == ["bert", "resnet", "mamba"]
    for model in figures["models"]:
        assert {target["target"] for target in model["targets"]} == {"default", "edge-int8", "stick128", "systolic128"}
        assert all(target["accounted"] for target in model["targets"])
        assert [graph["stage"] for graph in model["graphs"]] == ["forward", "backward"]
        for graph in model["graphs"]:
            assert graph["estimated"] == pytest.approx(graph["measured"], rel=0.05)
            assert all(partition["bit_equal"] for partition in graph["partitions"].values())
            assert graph["partitions"]["harsh"]["segments"] > 3  # the comparison is no comparison of one with itself


def test_a_gate_that_fails_is_told() -> None:
    result = check_target([synthetic_capture(100)], load_profile("default"))
    replay = ReplayResult("forward", 100, 200, {"default": (3, 10, False)})
    trial = DeviceTrial("net", 1.0, 0.0, [replace(result, seconds=0.5)], [replay])
    failures = devices._failures([trial], [(10, 1e-6), (100, 1e-6), (1000, 9e-6)], judge_cost=True)
    assert [failure.partition(": ")[2] or failure for failure in failures] == [
        "checking takes 50.00%, over 2%",
        "the peak is off by 50.0%",
        "partitioned for default it differs",
        "a node of 1,000 costs 9.0× one of 100",
    ]


def test_checking_is_linear_in_the_graph() -> None:
    """Counted, not timed: what is done for each node must not depend on how many there are."""
    counts = {}
    for nodes in (2_000, 4_000):
        capture = synthetic_capture(nodes)
        counts[nodes] = _lines_run(lambda capture=capture: check_target([capture], load_profile("stick128")))
    assert counts[4_000] < 2.2 * counts[2_000]


def _lines_run(function: object) -> int:
    import sys

    total = 0

    def count(frame: object, event: str, argument: object) -> object:
        nonlocal total
        total += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)  # type: ignore[arg-type]
    try:
        function()  # type: ignore[operator]
    finally:
        sys.settrace(before)
    return total


def test_what_is_not_known_is_told_before_anything_is_built(capsys: Capsys) -> None:
    assert main(["devices", "--model", "gpt"]) == 2
    assert "--model: 'gpt' is not allowed; allowed: bert, resnet, mamba" in capsys.readouterr().err
    assert main(["devices", "--target", "stik128"]) == 2
    assert "did you mean stick128?" in capsys.readouterr().err
