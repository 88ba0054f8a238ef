"""``simulator``: whole models on the stick simulator, healthy and with each fault.

Healthy, in both formats: how far outputs and gradients are from float64, beside what the format explains. With a
fault: which kernels are wrong, bit for bit, and whether any of them is one that the fault is not on.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inductor_debug_jupyter.benchmarks.models import benchmark_model
from inductor_debug_jupyter.benchmarks.progress import Progress
from inductor_debug_jupyter.benchmarks.table import print_line, print_table
from inductor_debug_jupyter.pipeline.errors import OptionError

if TYPE_CHECKING:
    from inductor_debug_jupyter.benchmarks.models import Built
    from inductor_debug_jupyter.benchmarks.simulation import Accuracy, FaultTrial
    from inductor_debug_jupyter.pipeline.adapters.stick import Fault

SUMMARY = "BERT-2L, ResNet-18 and Mamba on the stick simulator: noise of its format, and what each fault makes wrong"

_NAMES = ("bert-2l", "resnet", "mamba")
_FAULTS = ("copy-first-stick", "negative-zero", "wrong-accumulation", "read-padding")
_ENDINGS = {"bert-2l": "aten.addmm", "resnet": "aten.relu", "mamba": "aten.mm"}
"""The op that a model crashes on, and hangs on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--model", action="append", metavar="NAME", help=f"may be repeated: {', '.join(_NAMES)}; default all"
    )
    parser.add_argument(
        "--fault", action="append", metavar="FAULT", help="only this fault, such as copy-first-stick; may be repeated"
    )
    parser.add_argument("--no-endings", action="store_true", help="leave out the faults that end or stop a process")
    parser.add_argument("--small", action="store_true", help="tiny versions of the models, to try this out")


def run(args: argparse.Namespace) -> int:
    """Print the tables; 1 when something is wrong that neither format nor fault explains."""
    names = list(dict.fromkeys(args.model or _NAMES))
    for name in names:
        if name not in _NAMES:
            raise OptionError(f"--model: {name!r} is not allowed; allowed: {', '.join(_NAMES)}")
    from inductor_debug_jupyter.pipeline.adapters.stick import parse_fault

    faults = [parse_fault(text) for text in args.fault or _FAULTS]
    endings = () if args.no_endings or args.fault else ("crash", "hang")
    found = _Findings()
    with Progress(len(names) * (1 + len(faults) + len(endings))) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            found.try_model(name, args.small, faults, progress)
            for kind in endings:
                found.try_ending(name, args.small, parse_fault(f"{kind}:{_ENDINGS[name]}"), progress)
    found.print()
    return int(bool(found.problems))


def built_model(name: str, small: bool) -> Built:
    """The model of that name."""
    if name == "bert-2l":
        from inductor_debug_jupyter.benchmarks.models.bert import TWO_LAYERS

        return TWO_LAYERS.build(small)
    return benchmark_model(name).build(small)


@dataclass
class _Findings:
    """What was found, table by table."""

    accuracies: dict[str, Accuracy] = field(default_factory=dict)
    trials: list[tuple[str, FaultTrial]] = field(default_factory=list)
    ended: list[tuple[str, ...]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def try_model(self, name: str, small: bool, faults: Sequence[Fault], progress: Progress) -> None:
        """One model, healthy and with each fault."""
        from inductor_debug_jupyter.benchmarks.simulation import measure_accuracy, try_fault

        progress.step(f"{name}, healthy")
        built = built_model(name, small)
        self.accuracies[name], healthy = measure_accuracy(built)
        self.problems += [f"{name}: {each}" for each in self.accuracies[name].problems]
        for fault in faults:
            progress.step(f"{name}, {fault}")
            trial = try_fault(built, fault, healthy)
            self.trials.append((name, trial))
            self.problems += [f"{name}, {fault}: {each}" for each in trial.problems]

    def try_ending(self, name: str, small: bool, fault: Fault, progress: Progress) -> None:
        """One model with a fault that ends or stops its process."""
        from inductor_debug_jupyter.benchmarks.faulty_child import run_child

        progress.step(f"{name}, {fault}")
        ending = run_child(name, fault, small=small)
        told = ending.signal or ("hung, and was ended" if ending.hung else f"exit code {ending.code}")
        last = f"{ending.launched[-1]}, launch {len(ending.launched)}" if ending.launched else "none"
        self.ended.append((name, str(fault), told, last))
        self.problems += [f"{name}, {fault}: {each}" for each in ending.problems(fault)]

    def print(self) -> None:
        """The tables, and what is not explained."""
        columns = ("From float64", "Kernels", "Transfers", "Eager", "Float32", "Rounded eager", "Float16")
        rows = [row for name, accuracy in self.accuracies.items() for row in _accuracy_rows(name, accuracy)]
        print_table(columns, rows, right=columns[1:])
        print_line("(Float32 and Float16: the simulator in each format. Rounded eager: what float16 explains.)")
        columns = ("Fault", "Model", "Is on", "Wrong kernels", "Elsewhere", "Of kernels", "Numbers changed")
        print_line("")
        print_table(columns, [_fault_row(name, trial) for name, trial in self.trials])
        if self.ended:
            print_line("")
            print_table(("Model", "Fault", "How it ended", "In which kernel"), self.ended)
        for problem in self.problems:
            print_line(f"✗ {problem}")
        print_line("✗ not explained" if self.problems else "✓ every number is explained by its format or its fault")


def _accuracy_rows(name: str, found: Accuracy) -> Iterator[tuple[str, ...]]:
    figures = (found.eager, found.exact_format, found.rounded_eager, found.own_format)
    for index, what in enumerate(("outputs", "gradients")):
        told = [f"{figure[index]:.1e}" for figure in figures]
        yield (f"{name}, {what}", str(found.kernels), str(found.transfers), *told)


def _fault_row(name: str, trial: FaultTrial) -> tuple[str, ...]:
    return (
        str(trial.fault),
        name,
        str(trial.on) if trial.on else "no kernel",
        _counted(trial),
        str(len(trial.elsewhere)),
        str(trial.launches),
        f"{len(trial.wrong_outputs)} of {trial.outputs}",
    )


def _counted(trial: FaultTrial) -> str:
    """``3 (2 clone, 1 copy)``."""
    ops: dict[str, int] = {}
    for kernel in trial.wrong:
        short = kernel.op.split(".")[1] if kernel.op.startswith("aten.") else kernel.op
        ops[short] = ops.get(short, 0) + 1
    told = ", ".join(f"{number} {op}" for op, number in ops.items())
    return f"{len(trial.wrong)} ({told})" if told else "0"
