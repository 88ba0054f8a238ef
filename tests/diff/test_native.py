"""The native library: made in the background, once, and never missed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from inductor_debug_jupyter.pipeline.diff import compare_tensors, native


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> native.NativeLibrary:
    """One that nobody has made yet, with a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fresh = native.NativeLibrary()
    monkeypatch.setattr(native, "LIBRARY", fresh)
    return fresh


def test_the_first_call_does_not_wait_and_a_later_one_has_the_library(
    library: native.NativeLibrary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    may_go_on = threading.Event()
    compile_ = native._compile

    def slowly(compiler: str, path: Path) -> None:
        may_go_on.wait(60)
        compile_(compiler, path)

    monkeypatch.setattr(native, "_compile", slowly)
    x = torch.randn(native.WORTH_IT)
    first = compare_tensors(x, x + 1e-7)
    assert not library._functions
    may_go_on.set()
    assert library.wait()
    assert library.why_not == ""
    second = compare_tensors(x, x + 1e-7)
    assert first.verdict == second.verdict
    assert first.rmse == pytest.approx(second.rmse, rel=1e-12)
    (made,) = (tmp_path / "inductor_debug_jupyter").iterdir()
    assert made.suffix == ".so"


def test_small_tensors_are_no_reason_to_compile(library: native.NativeLibrary, tmp_path: Path) -> None:
    compare_tensors(torch.ones(10), torch.ones(10))
    assert library._builder is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [("INDUCTOR_DEBUG_NATIVE", "0", "switched off"), ("PATH", "", "no C++ compiler")],
)
def test_without_it_the_answer_is_the_same(
    library: native.NativeLibrary, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: str
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv(variable, value)
    assert not library.wait()
    assert told in library.why_not
    x = torch.randn(native.WORTH_IT)
    assert compare_tensors(x, x + 1).max_absolute_error == pytest.approx(1, rel=1e-6)


def test_a_compiler_that_fails_is_no_trouble(
    library: native.NativeLibrary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken-c++"
    broken.write_text("#!/bin/sh\n[ $1 = --version ] && exit 0\necho no >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    assert not library.wait()
    assert "the compiler said: no" in library.why_not


def test_a_library_that_answers_wrongly_is_not_used(
    library: native.NativeLibrary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "compare.cpp"
    source.write_text(
        native._SOURCE.read_text().replace("sum += error;", "sum += 1;").replace("error * error", "error")
    )
    monkeypatch.setattr(native, "_SOURCE", source)
    assert not library.wait()
    assert "is right" in library.why_not


@pytest.mark.parametrize("dtype", native.DTYPES)
def test_large_tensors_are_shared_by_threads_with_the_same_answer(dtype: torch.dtype) -> None:
    assert native.LIBRARY.wait(), native.LIBRARY.why_not
    torch.manual_seed(0)
    x = (torch.randn(native.SHARED + 777) * 3).to(dtype)
    y = x.clone()
    y[native.SHARED // 2 + 5] = 0 if bool(x[native.SHARED // 2 + 5]) else 1
    y[-1] = 0 if bool(x[-1]) else 1
    result = compare_tensors(x, y)
    error = (x.double() - y.double()).abs()
    assert result.max_absolute_error == float(error.max())
    assert result.max_error_indices == (int(error.argmax()),)
    assert result.mismatch_percentage == pytest.approx(200 / len(x))
