"""``first-answer``: how long a plain model's findings take, beside a plain compile and beside everything at once.

One training step of each model is captured three ways, alternating in one run: until its findings are there (Inductor's
part waits), with Inductor's part made right after that, and with ``lower="inductor"``, which makes it inside the block.
A plain ``aot_eager`` compile of the same step is the yardstick. Figures are medians of CPU seconds of the process.

Gates, with the exit code 1 when one fails: findings are equal; they take at most 0.45 of ``lower="inductor"`` (0.30 on
the ViT) and at most 1.15 of the plain compile; with Inductor's part they take at most 1.05 of ``lower="inductor"``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from inductor_debug_jupyter.benchmarks.command_line import named
from inductor_debug_jupyter.benchmarks.models import SEED, Built, benchmark_model, transformers
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.options import whole_number
from inductor_debug_jupyter.pipeline.session import DebugSession, capture

_MODELS = ("vit", "bert", "mamba", "gpt2")
_OF_INDUCTOR = {"vit": 0.30}
_OF_INDUCTOR_ELSE, _OF_PLAIN, _WHOLE = 0.45, 1.15, 1.05
_COLUMNS = ("Model", "Plain s", "Findings s", "× plain", "At once s", "Findings / at once", "With the rest / at once")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--model", action="append", metavar="NAME", help=f"may be repeated: {', '.join(_MODELS)}")
    parser.add_argument("--repeats", default="3", metavar="N", help="rounds, of which medians are taken; default 3")
    parser.add_argument("--small", action="store_true", help="tiny versions of the models, to try this out")


def _vit(small: bool) -> Built:
    library = transformers()
    import torch

    torch.manual_seed(SEED)
    pixels = 32 if small else 224
    config = library.ViTConfig(
        hidden_size=192,
        num_attention_heads=3,
        num_hidden_layers=1 if small else 12,
        intermediate_size=768,
        image_size=pixels,
        patch_size=16,
        num_labels=10,
    )
    return Built(library.ViTForImageClassification(config), (torch.randn(2, 3, pixels, pixels),))


def _gpt2(small: bool) -> Built:
    library = transformers()
    import torch

    torch.manual_seed(SEED)
    layers = 1 if small else 12
    config = library.GPT2Config(vocab_size=1000, n_embd=192, n_layer=layers, n_head=3, use_cache=False)
    return Built(library.GPT2LMHeadModel(config), (torch.randint(0, 1000, (1, 64)),))


def _built(name: str, small: bool) -> Built:
    made = {"vit": _vit, "gpt2": _gpt2}.get(name)
    return made(small) if made else benchmark_model(name).build(small)


@dataclass
class _Times:
    """CPU seconds of one model, one of each kind for each round."""

    model: str
    plain: list[float] = field(default_factory=list)
    findings: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    at_once: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def medians(self) -> tuple[float, float, float, float]:
        """Of the four kinds, in their order."""
        kinds = (self.plain, self.findings, self.whole, self.at_once)
        plain, findings, whole, at_once = map(statistics.median, kinds)
        return plain, findings, whole, at_once

    def row(self) -> tuple[str, ...]:
        """Its line of the table."""
        plain, findings, whole, at_once = self.medians()
        figures = (plain, findings, findings / plain, at_once, findings / at_once, whole / at_once)
        return (self.model, *(f"{each:.2f}" for each in figures))

    def missed(self) -> list[str]:
        """The gates that it misses."""
        plain, findings, whole, at_once = self.medians()
        gates = (
            ("findings / at once", findings / at_once, _OF_INDUCTOR.get(self.model, _OF_INDUCTOR_ELSE)),
            ("findings / plain", findings / plain, _OF_PLAIN),
            ("with the rest / at once", whole / at_once, _WHOLE),
        )
        wrong = [f"{self.model}: {name} is {value:.2f}, goal {goal}" for name, value, goal in gates if value > goal]
        return [*self.failures, *wrong]


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 when a gate is missed."""
    names = named(args.model, "--model", _MODELS, _MODELS)
    rounds = whole_number(args.repeats, "--repeats", 1)
    with Progress(len(names)) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = []
        for name in names:
            progress.step(f"{name}: {rounds} rounds after one to warm up")
            times.append(_timed(name, args.small, rounds))
    print_table(_COLUMNS, [each.row() for each in times], right=_COLUMNS[1:])
    missed = [line for each in times for line in each.missed()]
    for line in missed:
        print_line(f"FAILED: {line}")
    if not missed:
        print_line("Every goal holds.")
    return int(bool(missed))


def _timed(name: str, small: bool, rounds: int) -> _Times:
    times = _Times(name)
    built = _built(name, small)
    for number in range(rounds + 1):  # the first one is not counted: imports and caches
        plain = _seconds(lambda: _plain(built))
        lazy, findings = _captured(built, None)
        rest = _seconds(lambda session=lazy: session.complete())  # type: ignore[misc]
        eager, at_once = _captured(built, "inductor")
        if number:
            times.plain.append(plain)
            times.findings.append(findings)
            times.whole.append(findings + rest)
            times.at_once.append(at_once)
        found = [[(each.rule_id, each.title, len(each.places)) for each in side.findings] for side in (lazy, eager)]
        if found[0] != found[1]:
            times.failures.append(f"{name}: other findings than at once")
        if lazy.record.captures[0].stages != eager.record.captures[0].stages:
            times.failures.append(f"{name}: other stages than at once")
    return times


def _captured(built: Built, lower: str | None) -> tuple[DebugSession, float]:
    sessions: list[DebugSession] = []

    def once() -> None:
        with (
            tempfile.TemporaryDirectory(prefix="inductor-debug-first-") as folder,
            capture(target="stick128", eager=True, lower=lower, artifacts=folder) as session,
        ):
            _step(built.module, built.inputs)
        sessions.append(session)

    seconds = _seconds(once)
    return sessions[0], seconds


def _plain(built: Built) -> None:
    import torch
    import torch._functorch.config as functorch_config

    torch.compiler.reset()
    with functorch_config.patch(enable_autograd_cache=False):
        _step(torch.compile(built.module, backend="aot_eager"), built.inputs)
    torch.compiler.reset()


def _step(model: Any, inputs: Any) -> None:
    result = model(*inputs)
    first = result if hasattr(result, "backward") else result[0]
    first.float().sum().backward()
    model.zero_grad()


def _seconds(action: Callable[[], Any]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start
