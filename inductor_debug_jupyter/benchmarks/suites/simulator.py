"""``simulator``: whole models on the stick simulator, healthy and with each fault.

Healthy, in both formats: how far outputs and gradients are from float64, beside what the format explains. With a
fault: which kernels are wrong, bit for bit, and whether any of them is one that the fault is not on.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inductor_debug_jupyter.benchmarks.models import benchmark_model
from inductor_debug_jupyter.benchmarks.progress import Progress
from inductor_debug_jupyter.benchmarks.table import print_line, print_table
from inductor_debug_jupyter.pipeline.errors import OptionError

if TYPE_CHECKING:
    from inductor_debug_jupyter.benchmarks.models import Built
    from inductor_debug_jupyter.benchmarks.simulation import Accuracy, FaultTrial

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
    """Print both tables; 1 when something is wrong that neither format nor fault explains."""
    names = list(dict.fromkeys(args.model or _NAMES))
    for name in names:
        if name not in _NAMES:
            raise OptionError(f"--model: {name!r} is not allowed; allowed: {', '.join(_NAMES)}")
    from inductor_debug_jupyter.pipeline.adapters.stick import parse_fault

    faults = [parse_fault(text) for text in args.fault or _FAULTS]
    endings = [] if args.no_endings or args.fault else ["crash", "hang"]
    accuracies: dict[str, Accuracy] = {}
    trials: list[tuple[str, FaultTrial]] = []
    ended: list[tuple[str, ...]] = []
    problems: list[str] = []
    from inductor_debug_jupyter.benchmarks.faulty_child import run_child
    from inductor_debug_jupyter.benchmarks.simulation import measure_accuracy, try_fault

    with Progress(len(names) * (1 + len(faults) + len(endings))) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            progress.step(f"{name}, healthy")
            built = built_model(name, args.small)
            accuracies[name], healthy = measure_accuracy(built)
            problems += [f"{name}: {each}" for each in accuracies[name].problems]
            for fault in faults:
                progress.step(f"{name}, {fault}")
                trials.append((name, try_fault(built, fault, healthy)))
                problems += [f"{name}, {fault}: {each}" for each in trials[-1][1].problems]
            for kind in endings:
                fault = parse_fault(f"{kind}:{_ENDINGS[name]}")
                progress.step(f"{name}, {fault}")
                ending = run_child(name, fault, small=args.small)
                told = ending.signal or ("hung, and was ended" if ending.hung else f"exit code {ending.code}")
                ended.append((name, str(fault), told, f"{ending.launched[-1]}, launch {len(ending.launched)}"))
                problems += [f"{name}, {fault}: {each}" for each in ending.problems(fault)]
    _print(accuracies, trials, ended)
    for problem in problems:
        print_line(f"✗ {problem}")
    print_line("✗ not explained" if problems else "✓ every number is explained by its format or its fault")
    return int(bool(problems))


def built_model(name: str, small: bool) -> Built:
    """The model of that name."""
    if name == "bert-2l":
        from inductor_debug_jupyter.benchmarks.models.bert import TWO_LAYERS

        return TWO_LAYERS.build(small)
    return benchmark_model(name).build(small)


def _print(
    accuracies: dict[str, Accuracy], trials: Sequence[tuple[str, FaultTrial]], ended: Sequence[tuple[str, ...]]
) -> None:
    columns = (
        "From float64",
        "Kernels",
        "Transfers",
        "eager",
        "simulator float32",
        "rounded eager",
        "simulator float16",
    )
    rows = []
    for name, found in accuracies.items():
        for index, what in enumerate(("outputs", "gradients")):
            figures = (found.eager, found.exact_format, found.rounded_eager, found.own_format)
            told = [f"{figure[index]:.1e}" for figure in figures]
            rows.append((f"{name}, {what}", str(found.kernels), str(found.transfers), *told))
    print_table(columns, rows, right=columns[1:])
    print_line("")
    columns = (
        "Fault",
        "Model",
        "Is on",
        "Wrong kernels",
        "Wrong elsewhere",
        "Of kernels",
        "Outputs and gradients changed",
    )
    rows = [
        (
            str(trial.fault),
            name,
            str(trial.on) if trial.on else "no kernel",
            _counted(trial),
            str(len(trial.elsewhere)),
            str(trial.launches),
            f"{len(trial.wrong_outputs)} of {trial.outputs}",
        )
        for name, trial in trials
    ]
    print_table(columns, rows)
    if ended:
        print_line("")
        print_table(("Model", "Fault", "How it ended", "In which kernel"), ended)


def _counted(trial: FaultTrial) -> str:
    """``3 (2 clone, 1 copy)``."""
    ops: dict[str, int] = {}
    for kernel in trial.wrong:
        short = kernel.op.split(".")[1] if kernel.op.startswith("aten.") else kernel.op
        ops[short] = ops.get(short, 0) + 1
    told = ", ".join(f"{number} {op}" for op, number in ops.items())
    return f"{len(trial.wrong)} ({told})" if told else "0"
