"""``numerics``: is an arithmetic recognised, a healthy device left alone; which ops make the error, which must stay.

Each part has its gate; the exit code is 1 when one fails:

- ``recognise``: each of the arithmetics, on a backend of this suite's own that does not say how it computes, is named
  right or not known, never wrong;
- ``foreign``: devices of other arithmetics, and devices with a fault, are not known, or the faulty op is named;
- ``budget``: the predicted deviation of an output is within 1.3 times the one that a run shows, and of the ten largest
  ops the predicted effects have the order of the confirmed ones (rank correlation 0.9 or more);
- ``prescription``: a tenth of the ops in float32 brings a model within the floor, also in a run with real tensors;
- ``healthy``, ``faulty``: on the simulator, fault-free models are as float16 gives it; each fault is red and named;
- ``loop``: a fault that only the seventh step of a generation has is named with step, op and line; a token that only
  rounding flips is called that;
- ``openvino``: what it does here, in our words and in those of a script that does not use us.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from inductor_debug_jupyter import fixed
from inductor_debug_jupyter.benchmarks.command_line import named
from inductor_debug_jupyter.benchmarks.printing import print_line, print_table
from inductor_debug_jupyter.pipeline.diff.candidate_arithmetic import arithmetic_of
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Call, resolve_backend
from inductor_debug_jupyter.pipeline.formats.arithmetic import KNOWN, Arithmetic, named_arithmetic
from inductor_debug_jupyter.pipeline.formats.recognition import Recognition
from inductor_debug_jupyter.pipeline.numerics.error_budget import error_budget
from inductor_debug_jupyter.pipeline.numerics.prescription import prescribe
from inductor_debug_jupyter.pipeline.torch_compat.op_interception import Compute
from inductor_debug_jupyter.pipeline.words import size
from tests.proofs.inside_torch.simulated_device import simulated_device
from tests.proofs.numerics_devices import devices_models, faulty, healthy, loop, openvino
from tests.support.foreign_devices import FAULTS, KNOWN_OTHERWISE, UNKNOWN, Fault, name_of, with_fault

FACTOR = 1.3
RANK = 0.9
PARTS = ("recognise", "foreign", "budget", "prescription", "healthy", "faulty", "loop", "openvino")
Models = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]
_BUDGETS = ("float16", "bfloat16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--small", action="store_true", help="one model and two seeds, to try this out")
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="for healthy models; default 20")
    parser.add_argument("--model", action="append", metavar="NAME", help="for arithmetics and budgets; default all")
    parser.add_argument("--part", action="append", metavar="PART", help=f"of {', '.join(PARTS)}; default all")


def run(args: argparse.Namespace) -> int:
    """Print every part's table; 1 when a gate fails."""
    chosen = named(args.part, "--part", PARTS, PARTS)
    models = dict(list(_models().items())[:1]) if args.small else _models()
    models = {name: models[name] for name in named(args.model, "--model", tuple(models), tuple(models))}
    seeds = 2 if args.small else args.seeds
    on_devices = devices_models(("bert-2l",)) if args.small else devices_models()
    parts: dict[str, Callable[[], bool]] = {
        "recognise": lambda: _recognise(models),
        "foreign": lambda: _foreign(models),
        "budget": lambda: _budgets(models),
        "prescription": _prescriptions,
        "healthy": lambda: healthy(seeds, on_devices),
        "faulty": lambda: faulty(on_devices),
        "loop": loop,
        "openvino": openvino,
    }
    failed = []
    for name in chosen:
        print_line(f"\n{name}")
        if not parts[name]():
            failed.append(name)
    print_line(f"\n✗ {', '.join(failed)}" if failed else f"\n✓ {', '.join(chosen)}")
    return 1 if failed else 0


def _recognise(models: Models) -> bool:
    recognised = [_recognised(name, *model, arithmetic) for name, model in models.items() for arithmetic in KNOWN]
    print_table(("model", "the device computes in", "recognised as", "seconds"), [row for row, _ in recognised])
    answers = [answer for _, answer in recognised]
    print_line(
        f"{answers.count('right')} of {len(answers)} named right, {answers.count('wrong')} named wrong, "
        "the others are not known"
    )
    return "wrong" not in answers


def _foreign(models: Models) -> bool:
    rows, wrong = [], 0
    devices: dict[str, Compute] = {
        **UNKNOWN,
        **{f"{what} ({op})": _WithFault(op, fault) for what, (op, fault) in FAULTS.items()},
    }
    for name, (model, inputs) in models.items():
        for device, compute in devices.items():
            found = _found(model, inputs, compute)
            if isinstance(compute, _WithFault) and not compute.fired:
                continue
            is_named = found.arithmetic is not None and not found.wrong
            wrong += is_named
            rows.append((name, device, _words_of(found)[:110], "WRONG" if is_named else "right"))
    print_table(("model", "the device", "recognised as", ""), rows)
    print_line(f"{wrong} of {len(rows)} named wrong")
    return not wrong


def _words_of(found: Recognition) -> str:
    words = str(found.arithmetic) if found.arithmetic else f"not known: {found.reason}"
    return f"{words}, but not {', '.join(found.wrong)}" if found.wrong else words


class _WithFault:
    """A bfloat16 device with a fault in one op; ``fired`` once it computed that op."""

    def __init__(self, op: str, fault: Fault) -> None:
        self.fired = False
        self._op = op
        self._run = with_fault(KNOWN_OTHERWISE["bfloat16 products"][0], op, fault)

    def __call__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.fired |= name_of(func) == self._op
        return self._run(func, args, kwargs)


def _budgets(models: Models) -> bool:
    budgets = [_predicted(name, *model, numerics) for name, model in models.items() for numerics in _BUDGETS]
    columns = ("model", "arithmetic", "ops", "half", "90%", "predicted", "seen", "ratio", "ranks")
    print_table(columns, [row for row, _, _, _ in budgets], right=columns[2:])
    lines: list[tuple[str, ...]] = [(row[0], row[1], *line) for row, _, _, each in budgets for line in each]
    print_line("\nThe ten largest ops of each: predicted, and seen in a run")
    named_columns = ("model", "arithmetic", "op", "share", "alone, predicted", "seen", "without it, predicted", "seen")
    print_table(named_columns, lines, right=named_columns[3:])
    within = sum(1 / FACTOR <= ratio <= FACTOR for _, ratio, _, _ in budgets)
    ranked = sum(rank >= RANK for _, _, rank, _ in budgets)
    print_line(f"{within} of {len(budgets)} predictions are within {FACTOR} times what a run shows")
    print_line(f"{ranked} of {len(budgets)} have the order of the confirmed effects (rank correlation {RANK} or more)")
    return within == ranked == len(budgets)


def _prescriptions() -> bool:
    prescribed = [_prescribed(name, model, numerics) for name, model in _sensitive().items() for numerics in _BUDGETS]
    columns = ("model", "arithmetic", "ops", "in float32", "roundings before", "after", "real tensors", "cost")
    print_table(columns, [row for row, _ in prescribed], right=columns[2:])
    return all(is_reached for _, is_reached in prescribed)


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


class _Variance(nn.Module):
    """A variance as the difference of two large means, as hand-written norms take it, in front of ten small layers."""

    def __init__(self) -> None:
        super().__init__()
        self.rest = nn.ModuleList(nn.Linear(64, 64) for _ in range(10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize by hand, then ten small steps."""
        shifted = x + 30
        h = x / ((shifted * shifted).mean(-1, keepdim=True) - shifted.mean(-1, keepdim=True).square()).sqrt()
        for layer in self.rest:
            h = h + torch.tanh(layer(h)) * 0.1
        return h


def _sensitive() -> dict[str, nn.Module]:
    return {"sum of 300, layer norm": _Offset(), "variance by hand": _Variance()}


def _prescribed(name: str, model: nn.Module, numerics: str) -> tuple[tuple[str, ...], bool]:
    """A row of the table, and whether the goal is reached with few ops, also with real tensors."""
    torch.manual_seed(0)
    torch.compiler.reset()
    x, dtype = torch.randn(16, 64), getattr(torch, numerics)
    with torch.no_grad():
        found = prescribe(Call(model, (x,), {}), named_arithmetic(numerics))
        exact = model(x)
        made = fixed(model, cast={"float32": numerics}, keep_precise=found.places)(x)
        real = float((made - exact).square().mean().sqrt() / exact.square().mean().sqrt() / torch.finfo(dtype).eps)
    cost = f"{found.casts} casts, {size(found.moved_bytes)} moved"
    row = (name, numerics, str(found.ops), str(len(found.kept)))
    figures = (f"{found.before:.3g}", f"{found.after:.3g}", f"{real:.3g}", cost)
    is_reached = found.is_reached and real <= 1.05 * found.goal and len(found.kept) < found.ops / 10
    return (*row, *figures), is_reached


def _found(model: Callable[..., Any], inputs: tuple[Any, ...], compute: Compute) -> Recognition:
    """What is said of a device that computes each op so."""
    with torch.no_grad():
        return arithmetic_of(
            Call(model, inputs, {}), resolve_backend(simulated_device(compute), "device"), ComparisonConfig()
        )


def _recognised(
    name: str, model: Callable[..., Any], inputs: tuple[Any, ...], arithmetic: Arithmetic
) -> tuple[tuple[str, ...], str]:
    """A row of the table, and whether the answer is ``right``, ``wrong`` or ``not known``."""
    started = time.perf_counter()
    found = _found(model, inputs, arithmetic.compute)
    named, words, answer = found.arithmetic, str(found.arithmetic), "right"
    if named is None:
        words, answer = f"not known: {found.reason}", "not known"
    elif named != arithmetic and _same_numbers(model, inputs, named, arithmetic):
        words = f"{words} (the same bits here)"
    elif named != arithmetic:
        answer = "wrong"
    return (name, str(arithmetic), words, f"{time.perf_counter() - started:.1f}"), answer


def _same_numbers(model: Callable[..., Any], inputs: tuple[Any, ...], one: Arithmetic, other: Arithmetic) -> bool:
    """Whether two arithmetics give a model the same bits: where all biases are 0, nothing is added after a rounding."""
    made = []
    for each in (one, other):
        torch.compiler.reset()
        with torch.no_grad():
            made.append(torch.compile(model, backend=simulated_device(each.compute))(*inputs))
    return torch.equal(*made)


def _predicted(
    name: str, model: Callable[..., Any], inputs: tuple[Any, ...], numerics: str
) -> tuple[tuple[str, ...], float, float, list[tuple[str, ...]]]:
    """A row of the table, predicted over seen, the rank correlation of the largest ops, and a row for each of them."""
    with torch.no_grad():
        budget = error_budget(Call(model, inputs, {}), named_arithmetic(numerics))
    ratio = budget.predicted / budget.seen
    largest = [each for each in budget.shares if each.seen_alone is not None and each.seen_without is not None]
    rank = _rank_correlation([each.predicted_alone for each in largest], [each.seen_alone or 0.0 for each in largest])
    counts = (str(len(budget.shares)), str(budget.ops_for(0.5)), str(budget.ops_for(0.9)))
    figures = (f"{budget.predicted:.3g}", f"{budget.seen:.3g}", f"{ratio:.2f}", f"{rank:.3f}")
    lines: list[tuple[str, ...]] = [
        (
            each.op.removeprefix("aten."),
            f"{each.share:.1%}",
            *(f"{each.predicted_alone:.3g}", f"{each.seen_alone:.3g}"),
            *(f"{budget.predicted_without(each):.4g}", f"{each.seen_without:.4g}"),
        )
        for each in largest
    ]
    return (name, numerics, *counts, *figures), ratio, rank, lines


def _rank_correlation(one: list[float], other: list[float]) -> float:
    """Spearman's: 1 when both have the same order. What differs by less than a thousandth shares a rank."""
    ranks = [[sum(value > 1.001 * each for each in values) * 1.0 for value in values] for values in (one, other)]
    if len(one) < 2:
        return 1.0
    return float(torch.corrcoef(torch.tensor(ranks))[0, 1])


def _models() -> Models:
    from transformers import (
        BertConfig,
        BertModel,
        GPT2Config,
        GPT2LMHeadModel,
        MambaConfig,
        MambaModel,
        ViTConfig,
        ViTModel,
    )

    torch.manual_seed(0)
    size = {"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 192}
    bert = BertModel(BertConfig(vocab_size=200, **size)).eval()
    vit = ViTModel(ViTConfig(image_size=32, patch_size=8, **size)).eval()
    special = {"bos_token_id": 0, "eos_token_id": 0}
    gpt2 = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=96, n_head=4, vocab_size=200, n_positions=64, **special)).eval()
    tokens = torch.randint(0, 200, (2, 32))
    config = MambaConfig(vocab_size=200, hidden_size=64, num_hidden_layers=2, state_size=8, use_cache=False)
    mamba = MambaModel(config).eval()
    convolutions = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 10))
    return {
        "MLP": (nn.Sequential(nn.Linear(96, 64), nn.GELU(), nn.Linear(64, 48)), (torch.randn(32, 96),)),
        "convolutions": (convolutions.eval(), (torch.randn(8, 3, 16, 16),)),
        "GPT-2, 4 layers": (lambda ids: gpt2(ids, use_cache=False).logits, (tokens,)),
        "BERT, 2 layers": (lambda ids: bert(ids).last_hidden_state, (tokens,)),
        "Mamba, 2 layers": (lambda ids: mamba(ids).last_hidden_state, (tokens[:1, :8],)),
        "ViT, 2 layers": (lambda pixels: vit(pixels).last_hidden_state, (torch.randn(2, 3, 32, 32),)),
    }
