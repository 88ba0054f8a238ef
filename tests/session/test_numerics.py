"""A session says which ops make its outputs inexact on a target, and which of them to keep in float32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.pipeline.errors import InductorDebugError


class Offset(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.nn.functional.layer_norm(self.first(x) + 300, (64,)))


@pytest.fixture
def session() -> DebugSession:
    torch.manual_seed(0)
    with capture(target="stick128", eager=True, lower="aot", keep_inputs=True) as session:
        Offset()(torch.randn(16, 64))
    return session


def test_the_targets_own_arithmetic_is_taken_and_the_answer_is_kept(session: DebugSession, tmp_path: Path) -> None:
    heard: list[str] = []
    session.on_change(lambda: heard.append("changed"))
    budget = session.error_budget()
    assert budget.arithmetic.startswith("float16 throughout")
    assert budget.shares[0].op == "aten.add.Tensor"
    assert budget.shares[0].source is not None
    assert "+ 300" in budget.shares[0].source.text
    assert heard
    loaded = DebugSession.load(session.save(tmp_path / "session.json"))
    assert loaded.record.error_budget == budget


def test_one_op_in_float32_is_enough(session: DebugSession) -> None:
    found = session.prescribe(numerics="bfloat16")
    assert [share.op for share in found.kept] == ["aten.add.Tensor"]
    assert found.before > 10 > 1.1 >= found.after


def test_a_target_that_does_not_say_how_it_computes() -> None:
    with capture(target="default", eager=True, lower="aot", keep_inputs=True) as session:
        Offset()(torch.randn(16, 64))
    with pytest.raises(InductorDebugError, match="default does not say how it computes: give numerics="):
        session.error_budget()
    with pytest.raises(InductorDebugError, match="numerics='float12'; allowed: float32, float16"):
        session.error_budget(numerics="float12")
