"""What if the chip computed in another arithmetic: the outputs then, before the chip is there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.pipeline.errors import InductorDebugError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@pytest.fixture
def session() -> DebugSession:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32))
    with capture(eager=True, lower="aot", keep_inputs=True) as session:
        model(torch.randn(16, 64))
    return session


def noise(session: DebugSession, numerics: str) -> float:
    trial = session.try_out(numerics=numerics)
    assert trial.changes.what == ("numbers",)
    (output,) = trial.changes.numbers.outputs
    assert output.signal_to_noise is not None
    assert f"SQNR {output.signal_to_noise:.1f} dB" in str(trial)
    return output.signal_to_noise


def test_a_narrower_arithmetic_loses_more(session: DebugSession) -> None:
    float16, bfloat16, sums = (noise(session, name) for name in ("float16", "bfloat16", "bfloat16-sums"))
    assert float16 - 12 > bfloat16 > sums
    assert bfloat16 == pytest.approx(50, abs=6)


def test_a_format_of_ones_own(session: DebugSession, tmp_path: Path) -> None:
    chip = tmp_path / "chip.toml"
    chip.write_text('[numerics]\nproducts = "tf32"\n')
    assert noise(session, str(chip)) > noise(session, "float16")
    assert noise(session, "stick128") == noise(session, "float16")
    chip.write_text("[memory]\nlimit = 5\n")
    with pytest.raises(InductorDebugError, match="the profile does not say how it computes"):
        session.try_out(numerics=str(chip))
    with pytest.raises(InductorDebugError, match=r"numerics='float17'; allowed: float32, .*eager, default, edge-int8"):
        session.try_out(numerics="float17")
    with pytest.raises(InductorDebugError, match="numerics=3; allowed"):
        session.try_out(numerics=3)  # type: ignore[arg-type]


def test_it_goes_with_another_batch(session: DebugSession) -> None:
    trial = session.try_out(numerics="bfloat16", batch=8)
    assert "numerics bfloat16" in trial.title
    assert trial.changes.numbers.outputs[0].signal_to_noise == pytest.approx(50, abs=6)


def test_inductor_made_to_round_as_eager_mode_does() -> None:
    class Chain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu((x * x + x) * x - x) * x

    with capture(eager=True, lower="aot", keep_inputs=True) as session:
        Chain()(torch.randn(64, 64).bfloat16())
    trial = session.try_out(numerics="eager")
    assert trial.changes.numbers.largest == 0
    (note,) = [note for note in trial.notes if "without its switches" in note]
    assert "up to 0 apart" not in note
    assert session.diff().outputs[0].max_absolute_error
    with pytest.raises(InductorDebugError, match="give it alone"):
        session.try_out(numerics="eager", batch=2)
