"""``localize``: seeded faults that must be found exactly, and clean runs that must raise no alarm."""

from __future__ import annotations

import argparse
import warnings

import torch

from inductor_debug_jupyter.benchmarks.command_line import some_of
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.options import whole_number
from tests.proofs.localize_cases import (
    SWEPT,
    CleanRun,
    Trial,
    cases,
    resident_bytes,
    run_clean,
    smallest_found,
    try_case,
)

_PARTS = ("faults", "sweep", "clean")
_MODELS = ("bert-2l", "bert-12l", "resnet-18", "mamba")
_DTYPES = ("float32", "bfloat16", "float16")
_FACTORS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--models", default=",".join(_MODELS), metavar="A,B", help="default all four")
    parser.add_argument("--parts", default=",".join(_PARTS), metavar="A,B", help="faults, sweep, clean; default all")
    parser.add_argument("--dtypes", default=",".join(_DTYPES), metavar="A,B", help="of the clean runs; default three")
    parser.add_argument("--seeds", default="20", metavar="N", help="of each clean run; default 20")


def run(args: argparse.Namespace) -> int:
    """Print the tables as they come; 1 when a fault is missed, or something else is blamed."""
    models = some_of(args.models, "--models", _MODELS)
    parts = some_of(args.parts, "--parts", _PARTS)
    dtypes = some_of(args.dtypes, "--dtypes", _DTYPES)
    seeds = whole_number(args.seeds, "--seeds", 1)
    problems: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "faults" in parts:
            problems += _faults(models)
        if "sweep" in parts:
            _sweep(models)
        if "clean" in parts:
            problems += _clean(models, dtypes, seeds)
    for problem in problems:
        print_line(f"✗ {problem}")
    if not problems:
        print_line("✓ every fault that was found is the one that was seeded, and no clean run raised an alarm")
    return int(bool(problems))


def _faults(models: list[str]) -> list[str]:
    chosen = list(cases(models))
    problems: list[str] = []
    rows = []
    with Progress(len(chosen)) as progress:
        for case in chosen:
            progress.step(f"{case.model}, {case.name}")
            trial = try_case(case)
            progress.remark(" · ".join(_row(trial)))
            problems += [f"{case.model}, {case.name}: {each}" for each in trial.problems]
            rows.append(_row(trial))
    columns = ("Model", "Fault", "Blamed", "Where", "Values", "Amplified", "Seconds", "Compiles", "Kept MB", "Exact")
    print_table(columns, rows, right=columns[4:9])
    print_line(f"(Most memory that the process had: {resident_bytes() / 2**20:.0f} MB)")
    return problems


def _row(trial: Trial) -> tuple[str, ...]:
    ops: dict[str, int] = {}
    for culprit in trial.found:
        ops[culprit.op] = ops.get(culprit.op, 0) + 1
    blamed = ", ".join(f"{number} {op}" for op, number in ops.items()) or "nothing"
    if trial.wrong_kernels is not None:
        blamed += f" (of {trial.wrong_kernels} kernels that are wrong by a bit)"
    first = trial.found[0] if trial.found else None
    where = f"{first.source}, {first.kernel or first.module_path}" if first else "–"
    return (
        trial.case.model,
        trial.case.name,
        blamed,
        where[:70],
        str(trial.compared),
        str(trial.amplified),
        f"{trial.seconds:.1f}",
        str(trial.compiles),
        f"{trial.peak_bytes / 2**20:.2f}",
        "✗" if trial.problems else "✓",
    )


def _sweep(models: list[str]) -> None:
    rows = []
    with Progress(len(models)) as progress:
        for model in models:
            progress.step(f"{model}, {len(_FACTORS)} magnitudes of one fault")
            for factor, found, what in smallest_found(model, _FACTORS):
                told = "found" if found else f"not found ({what})"
                rows.append((model, f"{SWEPT[model].op} × (1 + {factor:g})", told))
                progress.remark(" · ".join(rows[-1]))
    print_table(("Model", "Fault, float32", "Found"), rows)


def _clean(models: list[str], dtypes: list[str], seeds: int) -> list[str]:
    rows, problems = [], []
    with Progress(len(models) * len(dtypes)) as progress:
        for model in models:
            for dtype in dtypes:
                progress.step(f"{model}, {dtype}, {seeds} seeds")
                found = run_clean(model, getattr(torch, dtype), seeds)
                progress.remark(" · ".join(_clean_row(found)))
                problems += [f"{model}, {dtype}: {alarm}" for alarm in found.alarms]
                rows.append(_clean_row(found))
    columns = (
        "Model",
        "Dtype",
        "Seeds",
        "Values judged",
        "Alarms",
        "Largest/allowed",
        "allclose says wrong",
        "Seconds",
    )
    print_table(columns, rows, right=columns[2:])
    return problems


def _clean_row(found: CleanRun) -> tuple[str, ...]:
    return (
        found.model,
        found.dtype,
        str(found.seeds),
        str(found.values),
        str(len(found.alarms)),
        f"{found.largest:.2f}",
        str(found.outputs_outside),
        f"{found.seconds:.0f}",
    )
