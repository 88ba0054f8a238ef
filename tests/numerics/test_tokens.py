"""Logits compared as distributions over the next token."""

from __future__ import annotations

import math

import pytest
import torch

from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.numerics.tokens import compare_tokens


def test_equal_logits_agree_in_everything() -> None:
    logits = torch.randn(2, 7, 50)
    found = compare_tokens(logits, logits.clone())
    assert (found.positions, found.flipped, found.top1, found.top5) == (14, 0, 1.0, 1.0)
    assert found.max_divergence == pytest.approx(0, abs=1e-12)


def test_a_flip_has_its_place_tokens_margin_and_cause() -> None:
    logits = torch.zeros(2, 3, 10)
    logits[..., 4] = 1.0
    logits[1, 2, 7] = 0.9
    other = logits.clone()
    other[1, 2, 7] = 1.1
    (flip,) = compare_tokens(logits, other, floor=0.1).flips
    assert (flip.position, flip.reference, flip.candidate) == ((1, 2), 4, 7)
    assert flip.margin == pytest.approx(0.1)
    assert flip.by_rounding is True
    assert compare_tokens(logits, other, floor=0.01).flips[0].by_rounding is False
    assert compare_tokens(logits, other).flips[0].by_rounding is None
    assert "sequence 1, position 2: 4 → 7" in str(compare_tokens(logits, other))


def test_divergence_and_perplexity_are_those_of_the_textbook() -> None:
    p, q = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[0.25, 0.5, 0.25]])
    labels = torch.tensor([0])
    found = compare_tokens(p.log(), q.log(), labels)
    assert found.mean_divergence == pytest.approx(0.25 * math.log(2))
    assert found.reference_perplexity == pytest.approx(2)
    assert found.candidate_perplexity == pytest.approx(4)
    assert compare_tokens(p.log(), q.log(), torch.tensor([-100])).reference_perplexity is None


def test_shapes_that_do_not_fit_are_one_line() -> None:
    with pytest.raises(UsageError, match="two of the same shape"):
        compare_tokens(torch.zeros(2, 3), torch.zeros(2, 4))
    with pytest.raises(UsageError, match="1 labels for 2 positions"):
        compare_tokens(torch.zeros(2, 3), torch.zeros(2, 3), torch.tensor([1]))
