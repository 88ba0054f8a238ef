"""``fixits``: whole models, forward and backward, from the first findings to accepted by a target, by ``fix_all``.

A figure is what the session says: findings judged by the target's own rules on the rewritten graphs, numbers compared
with the original model's (outputs and all gradients).
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inductor_debug_jupyter.benchmarks.models import benchmark_model
from inductor_debug_jupyter.benchmarks.progress import Progress
from inductor_debug_jupyter.benchmarks.table import print_line, print_table
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.views.words import size

if TYPE_CHECKING:
    from inductor_debug_jupyter.pipeline.fixits import FixResult
    from inductor_debug_jupyter.pipeline.records import SessionRecord

SUMMARY = (
    "BERT and ResNet-18 onto stick128, Mamba onto systolic128: findings, memory and numbers before and after fix_all"
)

_TARGETS = {"bert": "stick128", "resnet": "stick128", "mamba": "systolic128"}
_COLUMNS = ("Model", "Target", "Errors", "Warnings", "Peak memory", "Padding", "Numbers", "At most off", "Runs", "s")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--model", action="append", metavar="NAME", help=f"may be repeated: {', '.join(_TARGETS)}; default all"
    )
    parser.add_argument("--small", action="store_true", help="tiny versions of the models, to try this out")


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 when a target still refuses something."""
    names = list(dict.fromkeys(args.model or _TARGETS))
    for name in names:
        if name not in _TARGETS:
            raise OptionError(f"--model: {name!r} is not allowed; allowed: {', '.join(_TARGETS)}")
    fixed = []
    with Progress(len(names)) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            progress.step(f"{name} onto {_TARGETS[name]}")
            fixed.append(_fixed(name, args.small))
    print_table(_COLUMNS, [each.row() for each in fixed], right=_COLUMNS[2:])
    for each in fixed:
        print_line(f"{each.name}: {'; '.join(fixit.title for fixit in each.result.fixits) or 'nothing to do'}")
        for left in each.result.remaining:
            print_line(f"✗ {each.name}: {left}")
    return int(not all(each.result.accepted for each in fixed))


@dataclass(frozen=True)
class _Fixed:
    """One model and what became of it."""

    name: str
    before: SessionRecord
    result: FixResult
    seconds: float

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
        )


def _count(record: SessionRecord, severity: str) -> int:
    return sum(each.severity == severity for each in record.findings)


def _fixed(name: str, small: bool) -> _Fixed:
    from inductor_debug_jupyter.pipeline.session import capture

    built = benchmark_model(name).build(small)
    with tempfile.TemporaryDirectory(prefix="inductor-debug-fixits-") as folder:
        with capture(target=_TARGETS[name], eager=True, lower="aot", keep_inputs=True, artifacts=folder) as session:
            built.module(*built.inputs)
        start = time.perf_counter()
        result = session.fix_all()
        return _Fixed(name, session.record, result, time.perf_counter() - start)
