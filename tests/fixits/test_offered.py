"""Every kind of fix-it on more than one model, and cases of each kind in which it must not be offered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.fixits import suggestions
from inductor_debug_jupyter.pipeline.session import DebugSession

NO_GELU_NO_SILU = '[ops]\ndeny = ["gelu", "silu", "gelu_backward", "silu_backward"]\n'


class Called(nn.Module):
    """A module around a function."""

    def __init__(self, function: Callable[..., torch.Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, *self.parts)


def captured(model: nn.Module, x: torch.Tensor, folder: Path, profile: str = "", target: str = "") -> DebugSession:
    if profile:
        (folder / "chip.toml").write_text(f'name = "chip"\n{profile}', encoding="utf-8")
        target = str(folder / "chip.toml")
    kept = {"target": target or "stick128", "artifacts": str(folder / "artifacts")}
    with capture(eager=True, lower="aot", keep_inputs=True, **kept) as session:
        model(x)
    return session


def offered(session: DebugSession) -> list[str]:
    return [trial.fixits[-1].kind for trial in session.fixits()]


def suggested(session: DebugSession) -> list[str]:
    return [each.kind for each in suggestions(session.record, session.rules)]


@pytest.mark.parametrize(
    "model",
    [
        Called(lambda x, first, last: last(torch.relu(first(x))), nn.Linear(64, 64), nn.Linear(64, 64)),
        Called(lambda x, attend: attend(x, x, x)[0], nn.MultiheadAttention(64, 1, batch_first=True)),
    ],
)
def test_cast(model: nn.Module, tmp_path: Path) -> None:
    session = captured(model.double().eval(), torch.randn(2, 64, 64, dtype=torch.float64), tmp_path)
    assert "cast" in offered(session)


@pytest.mark.parametrize("activation", [nn.GELU(), nn.SiLU()])
def test_decompose(activation: nn.Module, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 64), activation)
    assert offered(captured(model, torch.randn(4, 64), tmp_path, NO_GELU_NO_SILU)) == ["decompose"]


@pytest.mark.parametrize("function", [torch.relu, torch.tanh])
def test_contiguous(function: Callable[..., torch.Tensor], tmp_path: Path) -> None:
    session = captured(Called(lambda x: function(x.transpose(1, 2))), torch.randn(2, 64, 64), tmp_path)
    assert offered(session) == ["contiguous"]


# Must not be offered ------------------------------------------------------------------------------------------------


def test_no_padding_for_an_op_that_needs_the_very_size(tmp_path: Path) -> None:
    """A Fourier transform of 100 numbers is another one than that of 128."""
    session = captured(Called(lambda x: torch.fft.rfft(x).abs()), torch.randn(4, 100), tmp_path)
    assert "pad" in suggested(session)
    assert "pad" not in offered(session)


def test_no_cast_where_the_wider_format_is_needed(tmp_path: Path) -> None:
    session = captured(Called(lambda x: (x + 1e9) - 1e9), torch.randn(4, 64, dtype=torch.float64), tmp_path)
    assert suggested(session) == ["cast"]
    assert offered(session) == []


def test_no_other_layout_where_its_channels_do_not_fit_either(tmp_path: Path) -> None:
    """Ten channels innermost are refused like 24 columns are: nothing is gained by the one without the other."""
    session = captured(Called(lambda x: torch.relu(x) * 2), torch.randn(2, 10, 24, 24), tmp_path)
    assert "reorder" in suggested(session)
    assert "reorder" not in offered(session)
    assert session.fix_all().accepted, "both together are enough"


def test_no_copy_that_brings_an_error(tmp_path: Path) -> None:
    """Channels are innermost so that sticks are whole; row by row they would not be."""
    x = torch.randn(2, 64, 24, 24).contiguous(memory_format=torch.channels_last)
    session = captured(Called(torch.relu), x, tmp_path)
    assert suggested(session) == ["contiguous"]
    assert offered(session) == []


def test_no_parts_for_an_op_that_has_none(tmp_path: Path) -> None:
    session = captured(Called(torch.linalg.inv), torch.eye(64), tmp_path)
    assert any(each.rule_id == "op.unsupported" for each in session.findings)
    assert suggested(session) == []


@pytest.fixture
def denying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., DebugSession]:
    def captured(*ops: str, lower: str = "inductor") -> DebugSession:
        monkeypatch.setenv("INDUCTOR_DEBUG_DENY", ",".join(ops))
        model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Softmax(-1))
        with capture(eager=True, lower=lower, keep_inputs=True, artifacts=str(tmp_path)) as session:
            model(torch.randn(2, 8))
        return session

    return captured


def test_an_op_that_inductor_takes_apart_is_the_one_to_take_apart(denying: Callable[..., DebugSession]) -> None:
    """Inductor's graph has its parts, and the finding stands on one of them."""
    session = denying("aten.gelu")
    (offer,) = session.fixits(0)
    assert [each.title for each in offer.fixits] == ["take gelu apart"]
    assert session.fix_all().accepted


def test_an_op_that_has_another_name_in_a_rewritten_graph_is_still_there(denying: Callable[..., DebugSession]) -> None:
    """The target refuses ``softmax``, which the rewritten graph calls ``_softmax``."""
    session = denying("aten.gelu", "softmax", lower="aot")
    result = session.fix_all()
    assert [each.title for each in result.fixits] == ["take gelu apart"]
    assert not result.accepted
    assert [each.finding.title for each in result.remaining] == ["the target has no softmax"]
