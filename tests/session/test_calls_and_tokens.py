"""Comparing as a language model's user does: next tokens, and in which call of a loop an error begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.pipeline.errors import InductorDebugError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.head = nn.Embedding(17, 32), nn.Linear(32, 17)

    def forward(self, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = torch.tanh(self.table(input_ids)).cumsum(1)
        return {"logits": self.head(hidden)}


def chip(fault: Callable[[torch.fx.Node, Any], Any]) -> Callable[..., Any]:
    class Chip(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            return fault(n, super().run_node(n))

    return lambda graph_module, _: Chip(graph_module).run


TOKENS = torch.arange(12).reshape(2, 6)


def session_of(lengths: range, model: nn.Module | None = None, **more: Any) -> DebugSession:
    model = model or Language()
    with capture(eager=True, lower="aot", keep_inputs=True, **more) as session:
        for length in lengths:
            model(input_ids=TOKENS[:, :length])
    return session


def test_logits_are_compared_as_next_tokens(tmp_path: Path) -> None:
    model = Language()
    session = session_of(range(6, 7), model)

    def other(node: torch.fx.Node, made: Any) -> Any:
        return made.flip(-1) if "linear" in str(node.target) else made

    report = session.diff(candidate=chip(other), tokens=True)
    (tokens,) = report.record.tokens
    logits = model(TOKENS)["logits"]
    flipped = (logits.argmax(-1) != logits.flip(-1).argmax(-1)).flatten()
    assert (tokens.path, tokens.positions, tokens.flipped) == ("logits", 12, int(flipped.sum()))
    assert tokens.first_flip is not None
    assert tokens.first_flip.position == divmod(int(flipped.nonzero()[0]), 6)
    assert tokens.first_flip.by_rounding is None
    assert len(tokens.divergence_at) == len(tokens.margin_at) == len(tokens.top5_at) == 12
    expected = torch.nn.functional.cross_entropy(logits.detach()[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten()).exp()
    assert tokens.reference_perplexity == pytest.approx(float(expected), rel=1e-5)
    assert tokens.candidate_perplexity != tokens.reference_perplexity
    assert "logits as next tokens" in str(report)
    assert "first flip: sequence" in str(report)
    assert DebugSession.load(session.save(tmp_path / "s.json")).record.diff == report.record


def test_a_flip_by_rounding_alone_is_called_that() -> None:
    model = Language()
    with torch.no_grad():
        model.head.weight[3], model.head.bias[3] = model.head.weight[4], model.head.bias[4] - 2e-7
        model.head.bias[3:5] += 100
    session = session_of(range(6, 7), model)

    def last_digit(node: torch.fx.Node, made: Any) -> Any:
        return made + torch.eye(17)[3] * 8e-6 if "linear" in str(node.target) else made

    report = session.diff(candidate=chip(last_digit), tokens=True)
    assert report.verdict == "rounding"
    assert report.record.tokens[0].flipped > 0
    assert all(flip.by_rounding for flip in report.record.tokens[0].flips)
    assert "by rounding alone" in str(report)


def test_equal_logits_agree_and_no_logits_are_said() -> None:
    session = session_of(range(6, 7))
    (tokens,) = session.diff(candidate="aot_eager", tokens=True).record.tokens
    assert (tokens.positions, tokens.flipped, tokens.top1) == (12, 0, 1.0)
    with capture(eager=True, lower="aot", keep_inputs=True) as other:
        nn.Linear(4, 4)(torch.randn(2, 4))
    assert any(
        "no tokens were compared" in note for note in other.diff(candidate="aot_eager", tokens=True).record.notes
    )
    assert session.diff(candidate="aot_eager").record.tokens == ()


def wrong_when_long(node: torch.fx.Node, made: Any) -> Any:
    return made * 1.5 if "tanh" in str(node.target) and made.shape[1] >= 4 else made


def test_it_is_said_in_which_call_the_error_begins_and_that_call_is_searched() -> None:
    session = session_of(range(2, 6), calls="all")
    report = session.diff(candidate=chip(wrong_when_long))
    assert report.record.begins_in == (3, 4)
    assert len(report.outputs) == 4
    assert str(report).startswith("From call 3 of 4 on. Wrong:")
    (culprit, *_) = session.localize().culprits
    assert "tanh" in culprit.op
    assert culprit.source is not None
    assert "torch.tanh" in culprit.source.text


@pytest.mark.parametrize(
    ("calls", "compared", "begins"),
    [("first", 1, None), (3, 3, (2, 3)), ("1", 1, None), ("last", 1, None)],
)
def test_as_many_calls_are_kept_as_were_asked_for(calls: Any, compared: int, begins: tuple[int, int] | None) -> None:
    session = session_of(range(3, 6), calls=calls)
    report = session.diff(candidate=chip(wrong_when_long))
    assert len(report.outputs) == compared
    assert report.record.begins_in == begins
    assert report.passed == (calls in {"first", "1"})


def test_what_calls_cannot_be() -> None:
    with pytest.raises(InductorDebugError, match=r"calls.*allowed: first, last, all or a whole number above 0"):
        session_of(range(2), calls="some")


def test_before_any_comparison_the_candidate_of_the_settings_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a cell whose own comparison raised."""
    tmp_path.joinpath("doubling_chip.py").write_text(
        "def backend(gm, inputs):\n    return lambda *values: [each * 2 for each in gm.forward(*values)]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("INDUCTOR_DEBUG_CANDIDATE", "doubling_chip:backend")
    session = session_of(range(2, 3))
    found = session.localize()
    assert (found.candidate, found.verdict) == ("backend", "mismatch")
    assert "doubling_chip:backend" in str(session.bisect())
