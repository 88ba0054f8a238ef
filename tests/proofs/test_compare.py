"""The suite ``compare``: what it measures is what it says."""

from __future__ import annotations

import pytest
import torch

from inductor_debug_jupyter.pipeline.diff.native import LIBRARY
from tests.proofs import compare
from tests.proofs.__main__ import main


@pytest.mark.parametrize(("missed", "code"), [([], 0), (["1e+04: too slow"], 1)])
def test_every_contender_is_measured_in_one_run(
    missed: list[str], code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "_goals", lambda result: missed)  # times are no matter of a test
    assert main(["compare", "--sizes", "10000,20000", "--rounds", "1"]) == code
    out = capsys.readouterr().out
    assert ("✗ 1e+04: too slow" in out) == ("✓ every goal is met" not in out) == bool(missed)
    for name in (compare.READ, compare.OURS, compare.PORTABLE, compare.CLOSE, "torch.allclose", "numpy"):
        assert out.count(name) >= 2
    assert "First call in this process" in out
    assert LIBRARY.why_not == ""


def test_what_does_not_fit_is_skipped_for_a_reason() -> None:
    result = compare.measure(10**15, 1)
    assert "GiB are free" in result.skipped


def test_extra_memory_is_seen() -> None:
    def hungry() -> None:
        torch.ones(30_000_000).sum()

    extra = compare._extra_memory(hungry)
    assert extra is not None
    assert extra > 50 << 20
