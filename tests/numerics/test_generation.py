"""A loop of calls, compared step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import compare_generation
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def chip(fault: Callable[[torch.fx.Node, Any], Any]) -> Callable[..., Any]:
    """A backend that computes as torch does, but for a fault in some op."""

    class Chip(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            return fault(n, super().run_node(n))

    def compile_graph(graph_module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        return Chip(graph_module).run

    return compile_graph


def gpt2() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=1, n_head=2, n_embd=32, vocab_size=61, n_positions=32, attn_implementation="eager"
    )
    model: nn.Module = transformers.GPT2LMHeadModel(config).eval()
    return model


PROMPT = torch.tensor([[5, 11, 2, 40]])


def test_a_fault_that_only_the_seventh_step_has_is_named_with_its_op_and_line() -> None:
    def short_softmax(node: torch.fx.Node, made: Any) -> Any:
        """The kernel for ten keys leaves the last one out."""
        if "softmax" not in str(node.target) or made.shape[-1] != len(PROMPT[0]) + 6:
            return made
        return torch.cat([made[..., :-1], torch.zeros_like(made[..., -1:])], -1)

    model = gpt2()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = compare_generation(model, PROMPT, candidate=chip(short_softmax), steps=12)
    assert [step.verdict for step in found.steps] == ["match"] * 6 + ["mismatch"]
    assert found.first_wrong is not None
    assert found.first_wrong.number == 7
    assert found.localization is not None
    (culprit, *_) = found.localization.culprits
    assert "softmax" in culprit.op
    assert culprit.source is not None
    assert "softmax" in culprit.source.text
    assert "step 7 of 12 is wrong" in str(found)
    assert "softmax" in str(found)
    assert culprit.source.file.rpartition("/")[2] in str(found)
    assert found.diff is not None
    assert any("past_key_values" in output.path for output in found.diff.outputs), "the cache is compared too"
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_wrong_cache_is_wrong_in_the_step_that_makes_it() -> None:
    def grows(node: torch.fx.Node, made: Any) -> Any:
        is_cache = "cat" in str(node.target) and isinstance(made, torch.Tensor) and made.ndim == 4
        return made * 1.5 if is_cache and made.shape[2] == 6 else made

    found = compare_generation(gpt2(), {"input_ids": PROMPT}, candidate=chip(grows), steps=5)
    assert found.first_wrong is not None
    assert found.first_wrong.number == 3
    assert found.diff is not None
    assert any("past_key_values" in each.path for each in found.diff.outputs if each.verdict == "mismatch")


class Tied(nn.Module):
    """Two tokens are as good as each other, up to the last digit."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table, self.head = nn.Embedding(8, 64), nn.Linear(64, 8, bias=False)
        with torch.no_grad():
            self.head.weight[3] = self.head.weight[4]

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.table(tokens).cumsum(1)
        logits = self.head(hidden)
        one, other = logits[..., 3:4] + 100.00001, logits[..., 4:5] + 100
        return torch.cat([logits[..., :3] * 0, one, other, logits[..., 5:] * 0], -1)


def test_a_flip_by_rounding_alone_is_called_that() -> None:
    def last_digit(node: torch.fx.Node, made: Any) -> Any:
        if "linear" not in str(node.target):
            return made
        return torch.cat([made[..., :4], made[..., 4:] + 1.6e-5], -1)

    found = compare_generation(Tied(), PROMPT % 8, candidate=chip(last_digit), steps=3)
    assert found.passed
    assert [step.verdict for step in found.steps] == ["rounding"] * 3
    assert [(flip.reference, flip.candidate, flip.by_rounding) for flip in found.steps[0].flips] == [(3, 4, True)]
    assert "the next token flips by rounding alone: 3 → 4" in str(found)
    assert "3 steps, each as it should be" in str(found)


def test_any_loop_with_a_function_that_goes_on() -> None:
    cell = nn.GRUCell(4, 4)

    def wrong_when_small(node: torch.fx.Node, made: Any) -> Any:
        return made * 1.25 if node.op == "call_function" and made.abs().max() < 0.05 else made

    class Decay(nn.Module):
        def forward(self, state: torch.Tensor) -> torch.Tensor:
            return state * 0.5

    found = compare_generation(
        Decay(), torch.full((2, 4), 1.0), candidate=chip(wrong_when_small), steps=8, advance=lambda out, _: (out,)
    )
    assert found.first_wrong is not None
    assert found.first_wrong.number == 5, "1/32 is the first state below 0.05"
    assert compare_generation(
        cell, torch.randn(2, 4), candidate="aot_eager", steps=3, advance=lambda out, _: out
    ).passed


def test_what_cannot_be_a_loop_is_one_clear_line() -> None:
    with pytest.raises(OptionError, match="steps=0; allowed: a whole number from 1 up"):
        compare_generation(Tied(), PROMPT % 8, steps=0)
    with pytest.raises(UsageError, match=r"the next step is not known.*give advance="):
        compare_generation(nn.Linear(4, 4), torch.randn(2, 4), candidate="aot_eager", steps=2)
