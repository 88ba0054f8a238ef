"""A session says which ops make its outputs inexact on a target, and which of them to keep in float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_the_largest_ops_are_confirmed_alone_and_by_replacing_them(session: DebugSession) -> None:
    budget = session.error_budget(numerics="bfloat16")
    first = budget.shares[0]
    assert first.seen_alone == pytest.approx(first.predicted_alone, rel=0.3)
    assert first.seen_without == pytest.approx(budget.predicted_without(first), rel=0.5)
    assert first.seen_without < budget.seen / 10
    assert abs(budget.unexplained) < 0.3
    assert "without it" in str(budget)


def test_the_margin_of_the_two_best_values_is_a_result(session: DebugSession) -> None:
    budget = session.error_budget("margin", numerics="bfloat16")
    assert budget.of == "margin(output)"
    assert budget.seen / 1.5 < budget.predicted < budget.seen * 1.5
    assert session.error_budget("margin(output)", numerics="bfloat16") == budget
    with pytest.raises(InductorDebugError, match=r"of='margin\(x\)'; allowed: output, margin or margin\(one of these"):
        session.error_budget("margin(x)")


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_call_without_gradients_has_a_margin_too(mode: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    with capture(eager=True, lower="aot", keep_inputs=True) as session, mode():
        Offset()(torch.randn(16, 64))
    budget = session.error_budget("margin", numerics="bfloat16")
    assert budget.shares[0].op == "aten.add.Tensor"
    assert budget.seen / 1.5 < budget.predicted < budget.seen * 1.5


def test_one_op_in_float32_is_enough_and_is_a_fixit(session: DebugSession, tmp_path: Path) -> None:
    found = session.prescribe(numerics="bfloat16")
    assert [share.op for share in found.kept] == ["aten.add.Tensor"]
    assert found.before > 10 > 1.1 >= found.after
    assert found.code == 'fixed(model, cast={"float32": "bfloat16"}, keep_precise=[":add"])'
    assert (found.casts, found.more_bytes, found.moved_bytes) == (1, 2 * 16 * 64, 4 * 16 * 64)
    assert found.profile_line in str(found)
    assert DebugSession.load(session.save(tmp_path / "session.json")).record.prescription == found
    trial = session.apply(found)
    assert trial.diff.verdict == "rounding"
    assert session.record.prescription == found
    assert 'keep_precise=[":add"]' in session.patch().diff + "".join(session.patch().unwritten)


def test_a_profile_line_keeps_them_in_float32(tmp_path: Path) -> None:
    chip = tmp_path / "chip.toml"
    torch.manual_seed(0)
    model, x = Offset(), torch.randn(16, 64)
    for lines, op in (("", "aten.add.Tensor"), ('precise = [":add"]', "other")):
        chip.write_text(f'[numerics]\nnarrow = {{ float32 = "bfloat16" }}\n{lines}\n')
        with capture(target=str(chip), eager=True, lower="aot", keep_inputs=True) as session:
            model(x)
        first = session.error_budget().shares[0]
        assert (first.op == "aten.add.Tensor") == (op == "aten.add.Tensor")
    assert session.prescribe().kept == ()


def test_what_may_go_to_a_narrower_format() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(6)))
    with capture(target="stick128", eager=True, lower="aot", keep_inputs=True) as session:
        model(torch.randn(16, 64))
    found = session.narrow("bfloat16", goal=3.5)
    assert found.before < 3.5 < found.all_narrow
    assert 0 < len(found.narrowed) < found.ops
    assert found.after <= 3.5
    assert f"with {len(found.narrowed)} of 6 ops" in str(found)
    assert len(session.narrow("bfloat16", goal=100).narrowed) == 6
    assert "no op may go" in str(session.narrow("bfloat16", goal=0.01))


def test_a_target_that_does_not_say_how_it_computes() -> None:
    with capture(target="default", eager=True, lower="aot", keep_inputs=True) as session:
        Offset()(torch.randn(16, 64))
    with pytest.raises(InductorDebugError, match="default does not say how it computes: give numerics="):
        session.error_budget()
    with pytest.raises(InductorDebugError, match="numerics='float12'; allowed: float32, float16"):
        session.error_budget(numerics="float12")
