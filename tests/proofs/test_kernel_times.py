"""``proofs kernel_times`` on tiny models, and its gates."""

from __future__ import annotations

import pytest

from inductor_debug_jupyter.pipeline.records import KernelTime, TimingRecord
from tests.proofs import kernel_times
from tests.proofs.__main__ import main


@pytest.mark.long
def test_a_tiny_models_kernels_are_those_of_the_profiler() -> None:
    found = kernel_times.measured("bert-2l", kernel_times.benchmark_model("bert-2l").build(True))
    assert len(found.pairs) >= 0.8 * len(found.ours.kernels)
    assert found.overhead > 0


def test_a_goal_that_is_missed_ends_in_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KernelTime("cpp_0", "forward", "", (), (), 0.0, 1e-3, 1e-3, 1e-3)
    timing = TimingRecord("m", False, 9, 2e-3, 1.0, 0.0, (kernel,))
    wrong = kernel_times._Result("bert-2l", timing, (("k", 1e-3, 2e-3),), 1.2)
    monkeypatch.setattr(kernel_times, "measured", lambda *_: wrong)
    assert main(["kernel_times", "--model", "bert-2l", "--small"]) == 1
    said = capsys.readouterr().out
    assert "0% of the kernels are within 10% of torch.profiler" in said
    assert "the kernels are 50% of the call" in said
    assert "takes 1.200× of one without" in said
