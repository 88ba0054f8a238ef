"""``numerics``: is an arithmetic recognised, does the error budget predict what it does, which ops must stay precise.

Three gates; the exit code is 1 when one fails:

- each of the arithmetics, on a backend of this suite's own that does not say how it computes, is named right or not
  known, never wrong;
- the predicted deviation of an output is within 1.3 times the one that a run shows;
- a prescription for a model with one sum around 300 in front of a layer norm reaches its goal with a tenth of the ops.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from inductor_debug_jupyter.benchmarks.printing import print_line, print_table
from inductor_debug_jupyter.pipeline.diff.candidate_arithmetic import arithmetic_of
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Call, resolve_backend
from inductor_debug_jupyter.pipeline.formats.arithmetic import KNOWN, Arithmetic, named_arithmetic
from inductor_debug_jupyter.pipeline.numerics.error_budget import error_budget
from inductor_debug_jupyter.pipeline.numerics.prescription import prescribe
from tests.proofs.inside_torch.simulated_device import simulated_device

FACTOR = 1.3
_BUDGETS = ("float16", "bfloat16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--small", action="store_true", help="one model, to try this out")


def run(args: argparse.Namespace) -> int:
    """Recognise, predict, print both tables; 1 when a gate fails."""
    models = dict(list(_models().items())[:1]) if args.small else _models()
    recognised = [_recognised(name, *model, arithmetic) for name, model in models.items() for arithmetic in KNOWN]
    print_table(("model", "the device computes in", "recognised as", "seconds"), [row for row, _ in recognised])
    wrong = [row for row, is_wrong in recognised if is_wrong]
    right = sum(row[1] == row[2] for row, _ in recognised)
    print_line(f"{right} of {len(recognised)} named right, {len(wrong)} named wrong, the others are not known")
    budgets = [_predicted(name, *model, numerics) for name, model in models.items() for numerics in _BUDGETS]
    print_table(
        ("model", "arithmetic", "ops", "half", "90%", "predicted", "seen", "ratio"), [row for row, _ in budgets]
    )
    outside = sum(not 1 / FACTOR <= ratio <= FACTOR for _, ratio in budgets)
    print_line(f"{len(budgets) - outside} of {len(budgets)} predictions are within {FACTOR} times what a run shows")
    prescribed = [_prescribed(numerics) for numerics in _BUDGETS]
    print_table(("arithmetic", "ops", "in float32", "roundings before", "after"), [row for row, _ in prescribed])
    return 1 if wrong or outside or not all(is_reached for _, is_reached in prescribed) else 0


class _Offset(nn.Module):
    """A sum around 300 goes into a layer norm: in 16 bits nearly nothing is left of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.rest = nn.ModuleList(nn.Linear(64, 64) for _ in range(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize, then twelve small steps."""
        h = nn.functional.layer_norm(self.first(x) + 300, (64,))
        for layer in self.rest:
            h = h + nn.functional.gelu(layer(h)) * 0.1
        return h


def _prescribed(numerics: str) -> tuple[tuple[str, ...], bool]:
    """A row of the table, and whether the goal is reached with few ops."""
    torch.manual_seed(0)
    model, x = _Offset(), torch.randn(16, 64)
    with torch.no_grad():
        found = prescribe(Call(model, (x,), {}), named_arithmetic(numerics))
    row = (numerics, str(found.ops), str(len(found.kept)), f"{found.before:.3g}", f"{found.after:.3g}")
    return row, found.is_reached and len(found.kept) <= found.ops / 10


def _recognised(
    name: str, model: Callable[..., Any], inputs: tuple[Any, ...], arithmetic: Arithmetic
) -> tuple[tuple[str, ...], bool]:
    """A row of the table, and whether the answer is wrong."""
    started = time.perf_counter()
    with torch.no_grad():
        backend = resolve_backend(simulated_device(arithmetic), "device")
        found = arithmetic_of(Call(model, inputs, {}), backend, ComparisonConfig())
    words = str(found.arithmetic) if found.arithmetic is not None else f"not known: {found.reason}"
    is_wrong = found.arithmetic is not None and found.arithmetic != arithmetic
    return (name, str(arithmetic), words, f"{time.perf_counter() - started:.1f}"), is_wrong


def _predicted(
    name: str, model: Callable[..., Any], inputs: tuple[Any, ...], numerics: str
) -> tuple[tuple[str, ...], float]:
    """A row of the table, and predicted over seen."""
    with torch.no_grad():
        budget = error_budget(Call(model, inputs, {}), named_arithmetic(numerics), confirmed=0)
    ratio = budget.predicted / budget.seen
    counts = (str(len(budget.shares)), str(budget.ops_for(0.5)), str(budget.ops_for(0.9)))
    return (name, numerics, *counts, f"{budget.predicted:.3g}", f"{budget.seen:.3g}", f"{ratio:.2f}"), ratio


def _models() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, ViTConfig, ViTModel

    torch.manual_seed(0)
    size = {"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 192}
    bert = BertModel(BertConfig(vocab_size=200, **size)).eval()
    vit = ViTModel(ViTConfig(image_size=32, patch_size=8, **size)).eval()
    special = {"bos_token_id": 0, "eos_token_id": 0}
    gpt2 = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=96, n_head=4, vocab_size=200, n_positions=64, **special)).eval()
    tokens = torch.randint(0, 200, (2, 32))
    convolutions = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 10))
    return {
        "MLP": (nn.Sequential(nn.Linear(96, 64), nn.GELU(), nn.Linear(64, 48)), (torch.randn(32, 96),)),
        "convolutions": (convolutions.eval(), (torch.randn(8, 3, 16, 16),)),
        "GPT-2, 4 layers": (lambda ids: gpt2(ids, use_cache=False).logits, (tokens,)),
        "BERT, 2 layers": (lambda ids: bert(ids).last_hidden_state, (tokens,)),
        "ViT, 2 layers": (lambda pixels: vit(pixels).last_hidden_state, (torch.randn(2, 3, 32, 32),)),
    }
