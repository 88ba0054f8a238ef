"""``models``: compile time, latency, graphs, findings and numbers of whole models on eager, Inductor and the mock."""

from __future__ import annotations

import argparse
import contextlib

from inductor_debug_jupyter.benchmarks.command_line import named
from inductor_debug_jupyter.benchmarks.models import MODEL_NAMES, benchmark_model
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.options import add_options, read_given, whole_number
from inductor_debug_jupyter.pipeline.records import BackendTiming, BenchmarkRecord
from inductor_debug_jupyter.pipeline.records.diff import VERDICT_WORDS
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store import ArtifactStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--model", action="append", metavar="NAME", help=f"measure this one; may be repeated: {', '.join(MODEL_NAMES)}"
    )
    parser.add_argument("--all", action="store_true", help="measure all of them")
    parser.add_argument("--list", action="store_true", help="list them and stop")
    parser.add_argument("--warmup", default="1", metavar="N", help="calls that are not counted; default 1")
    parser.add_argument("--runs", default="5", metavar="N", help="calls that are; default 5")
    parser.add_argument("--device", default="cpu", help="the torch device to run on; default cpu")
    parser.add_argument("--small", action="store_true", help="tiny versions of the models, to try this out")
    parser.add_argument(
        "--keep-cache",
        action="store_true",
        help="compile with your own Inductor cache; an empty one is used otherwise, so that compile times compare",
    )
    add_options(parser, ["target", "artifacts"])


def run(args: argparse.Namespace) -> int:
    """Measure the chosen models, print the table; 1 when a backend failed or numbers are wrong."""
    if args.list:
        print_table(("Model", "What it is"), [(name, benchmark_model(name).description) for name in MODEL_NAMES])
        return 0
    names = _chosen(args)
    warmup, runs = whole_number(args.warmup, "--warmup", 0), whole_number(args.runs, "--runs", 1)
    settings = resolve(read_given(args, ["target", "artifacts"]))
    _check_device(args.device)
    from inductor_debug_jupyter.benchmarks.model_trial import STEPS, run_trial
    from inductor_debug_jupyter.pipeline.torch_compat.canaries import temporary_inductor_cache

    store = ArtifactStore.of(settings)
    records: list[BenchmarkRecord] = []
    unsaved: list[str] = []
    cache = contextlib.nullcontext() if args.keep_cache else temporary_inductor_cache()
    with cache, Progress(len(names) * len(STEPS)) as progress:
        for name in names:
            options = {"device": args.device, "small": args.small, "warmup": warmup, "runs": runs}
            record, problem = run_trial(benchmark_model(name), settings, store, progress, **options)
            records.append(record)
            unsaved += [f"{record.model} was not stored: {problem}"] if problem else []
    print_table(COLUMNS, [model_row(record) for record in records], right=COLUMNS[1:])
    failed = [line for record in records for line in failure_lines(record)]
    for line in (*failed, *(line for record in records for line in noise_lines(record)), *unsaved):
        print_line(line)
    if len(unsaved) < len(records):
        print_line(f"Stored in {store.folder}. For one page of it: inductor-debug report --format html")
    numbers_wrong = any(record.diff_verdict == "mismatch" for record in records)
    return int(bool(unsaved or failed or numbers_wrong))


def _chosen(args: argparse.Namespace) -> list[str]:
    if args.all:
        return list(MODEL_NAMES)
    if not args.model:
        raise UsageError(f"which model? Say --all, or --model NAME with one of {', '.join(MODEL_NAMES)}")
    return named(args.model, "--model", MODEL_NAMES, ())


def _check_device(name: str) -> None:
    import torch

    try:
        kind = torch.device(name).type
    except RuntimeError as error:
        raise OptionError(f"--device: {name!r} is not allowed; {str(error).splitlines()[0]}") from None
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if kind != "cpu" and (accelerator is None or accelerator.type != kind):
        have = f"cpu or {accelerator.type}" if accelerator else "cpu"
        raise OptionError(f"--device: {name!r} is not allowed; this machine has {have}")


# The table ------------------------------------------------------------------------------------------------------------

COLUMNS = (
    *("Model", "Params", "Eager ms", "Inductor ms", "Mock ms", "Speedup", "Compile s"),
    *("Graphs", "Breaks", "Findings", "KernelDiff"),
)


def failure_lines(record: BenchmarkRecord) -> list[str]:
    """One line for each backend that failed."""
    failed = [timing for timing in record.timings if timing.error]
    return [f"{plain(record.model)} on {timing.backend} failed: {plain(timing.error)}" for timing in failed]


def noise_lines(record: BenchmarkRecord) -> list[str]:
    """One line for each latency that varied too much to be relied on."""
    return [
        f"{plain(record.model)} on {timing.backend} is noisy (± {timing.latency_std / timing.latency_mean:.0%}): "
        "measure again on a quiet machine, with more --runs"
        for timing in record.timings
        if timing.is_noisy
    ]


def model_row(record: BenchmarkRecord) -> tuple[str, ...]:
    """The cells of one model, by :data:`COLUMNS`."""
    inductor = record.timing("inductor")
    compiled = inductor is not None and not inductor.error
    return (
        record.model,
        f"{record.parameters / 1e6:.1f}M",
        _latency(record.timing("eager")),
        _latency(inductor),
        _latency(record.timing("mock_backend")),
        f"{record.speedup:.2f}×" if compiled and record.speedup else "–",
        f"{inductor.compile_seconds:.1f}" if compiled and inductor else "–",
        str(record.graphs),
        str(record.graph_breaks),
        str(sum(record.findings.values())),
        VERDICT_WORDS[record.diff_verdict],
    )


def _latency(timing: BackendTiming | None) -> str:
    if timing is None:
        return "–"
    if timing.error:
        return "failed"
    return f"{timing.latency_mean * 1000:.1f} ± {timing.latency_std * 1000:.1f}"
