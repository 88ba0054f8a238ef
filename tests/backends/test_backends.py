"""``mock_backend`` validates and runs eagerly; ``aot_mock_backend`` goes through AOTAutograd into Inductor."""

import functools
import logging
import subprocess
import sys

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import (
    ConstraintViolationError,
    DtypeConstraint,
    ShapeConstraint,
    aot_mock_backend,
    mock_backend,
)
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.store import ArtifactStore

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Doubles(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(64, 64)

    def forward(self, x):
        return self.proj(x).double() + 1


def test_strict_is_the_default_and_the_error_is_ours_with_the_line_and_a_repro():
    compiled = torch.compile(Doubles(), backend=mock_backend)
    with pytest.raises(ConstraintViolationError) as error:
        compiled(torch.randn(32, 64))
    assert "return self.proj(x).double() + 1" in str(error.value)
    done = subprocess.run([sys.executable, "-I", error.value.repro], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "float64 is not supported" in done.stdout


@torch._dynamo.config.patch(suppress_errors=True)
def test_suppress_errors_does_not_swallow_a_refusal():
    with pytest.raises(ConstraintViolationError):
        torch.compile(Doubles(), backend=mock_backend)(torch.randn(32, 64))


def test_warning_mode_logs_and_runs_with_the_same_bits(monkeypatch, caplog):
    monkeypatch.setenv("MOCK_STRICT", "0")
    model, x = Doubles(), torch.randn(32, 64)
    with caplog.at_level(logging.WARNING, "inductor_debug_jupyter"):
        out = torch.compile(model, backend=mock_backend)(x)
    assert torch.equal(out, model(x))
    assert "float64 is not supported" in caplog.text


def test_turning_strict_off_later_takes_effect_at_once(monkeypatch):
    model, x = Doubles(), torch.randn(32, 64)
    compiled = torch.compile(model, backend=mock_backend)
    with pytest.raises(ConstraintViolationError):
        compiled(x)
    monkeypatch.setenv("MOCK_STRICT", "0")
    assert torch.equal(compiled(x), model(x))


def test_mock_alignment_and_mock_max_memory(monkeypatch):
    monkeypatch.setenv("MOCK_ALIGNMENT", "16")
    with pytest.raises(ConstraintViolationError, match="12 is not a multiple of 16"):
        torch.compile(nn.Linear(12, 16), backend=mock_backend)(torch.randn(5, 12))
    monkeypatch.setenv("MOCK_ALIGNMENT", "4")
    monkeypatch.setenv("MOCK_MAX_MEMORY", "600")
    with pytest.raises(ConstraintViolationError, match="a tensor of 768 bytes is over the limit of 600 bytes"):
        torch.compile(nn.Linear(12, 16), backend=mock_backend)(torch.randn(5, 12))


def test_a_bad_variable_is_a_clear_error(monkeypatch):
    monkeypatch.setenv("MOCK_ALIGNMENT", "eight")
    with pytest.raises(Exception, match="MOCK_ALIGNMENT: 'eight' is not allowed"):
        torch.compile(nn.Linear(4, 4), backend=mock_backend)(torch.randn(2, 4))


def test_training_through_inductor_matches_eager_and_fills_the_folders():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(16, 16), nn.ReLU()), torch.randn(4, 16)
    backend = aot_mock_backend(
        strict=True, constraints=[ShapeConstraint(alignment=8), DtypeConstraint(allowed_dtypes={"float32", "bool"})]
    )
    out = torch.compile(model, backend=backend)(x)
    out.sum().backward()
    ours = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    plain = model(x)
    plain.sum().backward()
    torch.testing.assert_close(out, plain)
    for mine, theirs in zip(ours, model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs.grad)
    store = ArtifactStore("debug_artifacts")
    rooms = {artifact.room for artifact in store.artifacts()}
    assert {"fx_graphs", "aot_graphs", "inductor_ir", "inductor_kernels", "statistics", "sessions"} <= rooms
    stages = set(store.load("last").captures[-1].stages)
    assert {"dynamo", "forward", "backward", "ir_pre_fusion", "ir_post_fusion", "code", "kernel"} <= stages


def test_strict_refuses_what_only_the_backward_does():
    from inductor_debug_jupyter import UnsupportedOpsConstraint

    class Squash(nn.Module):
        def forward(self, x):
            return torch.tanh(x)

    backend = aot_mock_backend(strict=True, constraints=[UnsupportedOpsConstraint(["aten.mul"])])
    with pytest.raises(ConstraintViolationError, match=r"the target has no aten\.mul"):
        torch.compile(Squash(), backend=backend)(torch.randn(3, requires_grad=True))


def test_a_bad_option_is_told_when_the_backend_is_made(monkeypatch):
    monkeypatch.setenv("MOCK_STRICT", "maybe")
    with pytest.raises(OptionError, match="MOCK_STRICT: 'maybe' is not allowed"):
        aot_mock_backend()


def test_torch_finds_the_backend_by_name_after_install():
    assert "inductor_debug" in torch.compiler.list_backends(exclude_tags=None)
    out = torch.compile(nn.Linear(4, 4), backend="inductor_debug")(torch.randn(2, 4))
    assert out.shape == (2, 4)


def test_warning_mode_falls_back_softly_when_inductor_cannot_compile(monkeypatch, caplog):
    from inductor_debug_jupyter.pipeline.backends import mock

    def broken(graph_module, example_inputs):
        raise NotImplementedError("no kernel for this")

    monkeypatch.setattr(mock, "compile_with_inductor", broken)
    model, x = Doubles(), torch.randn(32, 64)
    with caplog.at_level(logging.WARNING, "inductor_debug_jupyter"):
        out = torch.compile(model, backend=aot_mock_backend(strict=False))(x)
    assert torch.equal(out, model(x))
    assert (
        "fallback: Inductor cannot compile this (NotImplementedError: no kernel for this); it runs eagerly"
        in caplog.text
    )
    torch._dynamo.reset()
    with pytest.raises(Exception, match="no kernel for this"):
        torch.compile(model, backend=aot_mock_backend(strict=True))(x)


def test_warning_mode_tells_what_leaves_the_target(caplog):
    def ordered(x):
        return torch.sort(torch.relu(x))[0]

    with caplog.at_level(logging.WARNING, "inductor_debug_jupyter"):
        backend = functools.partial(mock_backend, strict=False)
        out = torch.compile(ordered, backend=backend)(torch.randn(3, 4))
    assert torch.equal(out, out.sort()[0])
    assert "op.unsupported: the target has no aten.sort" in caplog.text
    assert "fallback: sort ×1 runs on the CPU" in caplog.text
