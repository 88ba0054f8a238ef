"""What another machine recorded: written, read and compared without a model, and as one side of a comparison."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from inductor_debug_jupyter import ComparisonConfig, KernelDiffHarness, Recording, compare_recordings
from inductor_debug_jupyter.cli.main import main
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

VALUES = {
    "logits": torch.randn(4, 65, generator=torch.Generator().manual_seed(0)),
    "half": torch.tensor([1.0, math.nan, -0.0], dtype=torch.float16),
    "wave": torch.tensor([1 + 2j, -3j]),
    "turned": torch.arange(6).reshape(2, 3).T,
    "number": 3,
    "word": "same",
}


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    path = Recording(VALUES, {"model": "m"}).save(tmp_path / "deep" / "a.safetensors")
    loaded = Recording.load(path)
    assert (loaded.name, loaded.manifest["model"]) == ("a.safetensors", "m")
    assert set(loaded.values) == set(VALUES)
    for name, value in VALUES.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(loaded.values[name], value, equal_nan=True, rtol=0, atol=0)
        else:
            assert loaded.values[name] == value
    report = compare_recordings(path, loaded, ComparisonConfig(equal_nan=True))
    assert report.verdict == "match"
    assert len(report.outputs) == len(VALUES)
    assert [each.name for each in tmp_path.joinpath("deep").iterdir()] == ["a.safetensors"]


def test_files_of_other_programs_are_read_and_what_is_missing_is_told(tmp_path: Path) -> None:
    save_file({"x": torch.ones(3), "extra": torch.zeros(1)}, str(tmp_path / "a.safetensors"))
    save_file({"x": torch.tensor([1.0, 1.0, 2.0])}, str(tmp_path / "b.safetensors"))
    report = compare_recordings(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert report.verdict == "mismatch"
    by_path = {output.path: output for output in report.outputs}
    assert by_path["x"].max_error_indices == (2,)
    assert "no such output" in by_path["extra"].reason


def test_a_file_that_is_none_gets_one_line(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no recording"):
        Recording.load(tmp_path / "nobody.safetensors")
    (tmp_path / "bad.safetensors").write_text("hello")
    with pytest.raises(UsageError, match="not a recording"):
        Recording.load(tmp_path / "bad.safetensors")


def test_a_recording_is_one_side_of_a_comparison(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(4, 2), torch.randn(3, 4)
    path = tmp_path / "device.safetensors"
    KernelDiffHarness(model, (x,), test_backend="aot_eager", backward=True).record(path)
    recorded = Recording.load(path)
    assert set(recorded.values) == {"output", "grad:weight", "grad:bias"}
    assert recorded.manifest["backend"] == "aot_eager"
    report = KernelDiffHarness(model, (x,), test_backend=str(path), backward=True).compare()
    assert (report.passed, len(report.outputs)) == (True, 3)
    other = KernelDiffHarness(model, (x + 1,), test_backend=recorded, backward=True).compare()
    assert other.verdict == "mismatch"
    assert other.record.candidate == "device.safetensors"


def test_the_command_compares_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {**VALUES, "logits": VALUES["logits"].clone()}
    wrong["logits"][3, 64] += 1
    one = str(Recording(VALUES, {"model": "m"}).save(tmp_path / "eager.safetensors"))
    other = str(Recording(wrong, {"model": "m"}).save(tmp_path / "device.safetensors"))
    assert main(["diff", one, one, "--equal-nan"]) == 0
    assert "m: eager.safetensors against eager.safetensors" in capsys.readouterr().out
    assert main(["diff", one, other, "--equal-nan"]) == 1
    out = capsys.readouterr().out
    assert "✗ logits · mismatch" in out
    assert "[3, 64]" in out
    assert main(["diff", one, other, "--equal-nan", "--atol", "2", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] is True
    assert main(["diff", one, other, "--pictures", str(tmp_path / "pictures")]) == 1
    assert list((tmp_path / "pictures").glob("*.png"))
    capsys.readouterr()
    assert main(["diff", one, str(tmp_path / "no.safetensors")]) == 3
    assert main(["diff", one, other, "--atol", "much"]) == 2
    assert "--atol: 'much' is not allowed" in capsys.readouterr().err


def test_recordings_of_small_numbers_are_not_told_by_an_absolute_tolerance() -> None:
    small = Recording({"output": torch.full((8,), 2e-6)}, {}, "chip")
    lost = Recording({"output": torch.zeros(8)}, {}, "other")
    report = compare_recordings(small, lost)
    assert report.verdict == "not_compared"
    assert "an absolute tolerance of 1e-05 tells nothing" in report.outputs[0].reason
    assert compare_recordings(small, lost, ComparisonConfig(atol=1e-9)).verdict == "mismatch"
    assert compare_recordings(small, lost, ComparisonConfig(atol=1e-5)).verdict == "rounding"
