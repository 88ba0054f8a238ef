"""``fixits``: whole models, forward and backward, from the first findings to accepted by a target, by ``fix_all``.

A figure is what the session says: findings judged by the target's own rules on the rewritten graphs, numbers compared
with the original model's (outputs and all gradients). The cell that makes and calls the model is then patched, run
again, and must have the findings that the rewrite had.
"""

from __future__ import annotations

import argparse
import linecache
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.command_line import named
from inductor_debug_jupyter.benchmarks.models import transformers
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.fixits import FixResult
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.session import DebugSession, capture
from inductor_debug_jupyter.pipeline.words import size

_TARGETS = {"bert": "stick128", "resnet": "stick128", "mamba": "systolic128"}
_COLUMNS = (
    *("Model", "Target", "Errors", "Warnings", "Peak memory", "Padding", "Numbers", "At most off", "Runs", "s"),
    "Patched cell",
)
_SAME = "same findings"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--model", action="append", metavar="NAME", help=f"may be repeated: {', '.join(_TARGETS)}; default all"
    )
    parser.add_argument("--small", action="store_true", help="tiny versions of the models, to try this out")


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 when a target still refuses something, or a patched cell is not what was verified."""
    names = named(args.model, "--model", _TARGETS, _TARGETS)
    fixed = []
    with Progress(len(names)) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            progress.step(f"{name} onto {_TARGETS[name]}")
            fixed.append(_fixed(name, args.small))
    print_table(_COLUMNS, [each.row() for each in fixed], right=_COLUMNS[2:10])
    for each in fixed:
        print_line(f"{each.name}: {'; '.join(fixit.title for fixit in each.result.fixits) or 'nothing to do'}")
        for left in each.result.remaining:
            print_line(f"✗ {each.name}: {left}")
        print_line(each.result.patch)
    return int(not all(each.result.accepted and each.patch_holds for each in fixed))


@dataclass(frozen=True)
class _Fixed:
    """One model and what became of it."""

    name: str
    before: SessionRecord
    result: FixResult
    seconds: float
    patched: str

    @property
    def patch_holds(self) -> bool:
        """Whether the patched cell is found to be what the rewrite was."""
        return self.patched.startswith(_SAME) or not self.result.fixits

    def row(self) -> tuple[str, ...]:
        """The model's line of the table."""
        trial = self.result.trial
        after = trial.after if trial is not None else self.before
        errors, held = (f"{_count(self.before, kind)} → {_count(after, kind)}" for kind in ("error", "warning"))
        return (
            self.name,
            _TARGETS[self.name],
            errors,
            held,
            f"{size(self.before.peak_memory or 0)} → {size(after.peak_memory or 0)}",
            f"{trial.waste:.1%}" if trial else "–",
            trial.diff.verdict if trial else "–",
            f"{trial.max_error:.2g}" if trial else "–",
            str(self.result.runs),
            f"{self.seconds:.0f}",
            self.patched,
        )


def _count(record: SessionRecord, severity: str) -> int:
    return sum(each.severity == severity for each in record.findings)


def _fixed(name: str, small: bool) -> _Fixed:
    with tempfile.TemporaryDirectory(prefix="inductor-debug-fixits-") as folder:
        session, out = _captured(name, cell(name, small), Path(folder))
        start = time.perf_counter()
        result = session.fix_all()
        seconds = time.perf_counter() - start
        after = result.trial.after if result.trial is not None else session.record
        texts = session.patch(*result.fixits).texts if result.fixits else {}
        if not texts:
            return _Fixed(name, session.record, result, seconds, "nothing to write")
        (text,) = texts.values()
        patched, out_patched = _captured(name, text, Path(folder))
        same = _found(patched.record) == _found(after)
        off = float((out - out_patched).abs().max())
        said = f"{_SAME if same else 'other findings'}, output {off:.2g} off"
        return _Fixed(name, session.record, result, seconds, said)


def _captured(name: str, source: str, folder: Path) -> tuple[DebugSession, torch.Tensor]:
    """Run a cell in a session, and what it computed."""
    transformers()  # says what to install
    file = folder / f"{name}.py"
    file.write_text(source, encoding="utf-8")
    linecache.checkcache(str(file))
    names: dict[str, Any] = {"__name__": name}
    with capture(target=_TARGETS[name], eager=True, lower="aot", keep_inputs=True, artifacts=str(folder)) as session:
        exec(compile(source, str(file), "exec"), names)
    return session, names["out"].detach()


def _found(record: SessionRecord) -> list[tuple[str, str, str, int]]:
    return sorted((each.severity, each.rule_id, each.title, len(each.places)) for each in record.findings)


# The benchmark models as a user has them: a patch is one of source, so what is patched is source ----------------------


_BERT = """import torch
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig({sizes})
model = BertModel(config).eval()
tokens = torch.randint(0, config.vocab_size, (1, {tokens}))
out = model(tokens, torch.ones_like(tokens)).last_hidden_state
"""
_RESNET = """import torch
from transformers import ResNetConfig, ResNetForImageClassification

torch.manual_seed(0)
config = ResNetConfig({sizes}, layer_type="basic")
model = ResNetForImageClassification(config).eval()
images = torch.randn(1, 3, {pixels}, {pixels})
out = model(images).logits
"""
_MAMBA = """import torch
from transformers import MambaConfig, MambaModel

torch.manual_seed(0)
config = MambaConfig({sizes}, use_cache=False)
model = MambaModel(config).eval()
tokens = torch.randint(0, config.vocab_size, (1, {tokens}))
out = model(tokens).last_hidden_state
"""
_TINY_BERT = "vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64"
_RESNET_18 = "embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], num_labels=1000"
_TINY_RESNET = "embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], num_labels=10"
_FOUR_LAYERS = "vocab_size=16_000, hidden_size=768, num_hidden_layers=4, state_size=16"
_TINY_MAMBA = "vocab_size=100, hidden_size=32, num_hidden_layers=1, state_size=4"


def cell(model: str, small: bool) -> str:
    """The source of ``bert``, ``resnet`` or ``mamba``, as in :mod:`~inductor_debug_jupyter.benchmarks.models`."""
    if model == "bert":
        return _BERT.format(sizes=_TINY_BERT if small else "vocab_size=119_547", tokens=16 if small else 128)
    if model == "resnet":
        return _RESNET.format(sizes=_TINY_RESNET if small else _RESNET_18, pixels=32 if small else 224)
    return _MAMBA.format(sizes=_TINY_MAMBA if small else _FOUR_LAYERS, tokens=4 if small else 16)
