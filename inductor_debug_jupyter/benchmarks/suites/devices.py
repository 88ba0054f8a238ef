"""``devices``: real models against every target: findings, op coverage, cost, peak memory and partitions.

Four gates, each with its figure; the exit code is 1 when one of them fails:

- every op has exactly one verdict and one segment;
- checking a model against one target takes at most 2% of the CPU time that AOTAutograd takes for it in the same run;
- the estimated peak is within 5% of what a dispatch mode measures while the graph runs again;
- a partitioned graph gives the same bits as the whole one and moves what was planned.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inductor_debug_jupyter.benchmarks.models import MODEL_NAMES, benchmark_model
from inductor_debug_jupyter.benchmarks.progress import Progress
from inductor_debug_jupyter.benchmarks.table import print_line, print_table
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import OP_STATUSES
from inductor_debug_jupyter.pipeline.words import size

if TYPE_CHECKING:
    from inductor_debug_jupyter.benchmarks.device_trial import DeviceTrial

SUMMARY = "models against every target: findings, op coverage, cost of checking, peak memory, partitions, linearity"

MOST_COST = 0.02
MOST_MEMORY_ERROR = 0.05
MOST_GROWTH = 2.0
"""How much dearer a node may be in the largest synthetic graph than in the smallest but one."""

_SIZES = (1_000, 10_000, 100_000)
_SMALL_SIZES = (500, 1_000, 2_000)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--model", action="append", metavar="NAME", help=f"only this one; may be repeated: {', '.join(MODEL_NAMES)}"
    )
    parser.add_argument("--target", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument(
        "--small", action="store_true", help="tiny models and graphs, to try this out; costs not judged"
    )
    parser.add_argument("--json", metavar="FILE", help="also write every figure to this file")


def run(args: argparse.Namespace) -> int:
    """Measure, print the tables; 1 when a gate fails."""
    names = _chosen(args.model)
    from inductor_debug_jupyter.benchmarks.device_trial import run_trial
    from inductor_debug_jupyter.pipeline.devices import load_profile, profile_names

    targets = args.target or list(profile_names())
    for target in targets:
        load_profile(target)  # a bad one is told before anything is built
    trials: list[DeviceTrial] = []
    with Progress(len(names) + 1) as progress:
        for name in names:
            progress.step(f"{name}: compile, check, run again")
            trials.append(run_trial(benchmark_model(name), targets, small=args.small))
        progress.step("synthetic graphs")
        growth = _growth(_SMALL_SIZES if args.small else _SIZES, targets[0])
    _print(trials, growth)
    failures = _failures(trials, growth, judge_cost=not args.small)
    for line in failures:
        print_line(f"FAILED: {line}")
    if not failures:
        print_line("All gates hold." if not args.small else "All gates hold (costs are not judged on tiny models).")
    if args.json:
        Path(args.json).write_text(json.dumps(_figures(trials, growth), indent=1), encoding="utf-8")
    return int(bool(failures))


def _chosen(given: Sequence[str] | None) -> list[str]:
    for name in given or ():
        if name not in MODEL_NAMES:
            raise OptionError(f"--model: {name!r} is not allowed; allowed: {', '.join(MODEL_NAMES)}")
    return list(dict.fromkeys(given or MODEL_NAMES))


def _growth(sizes: Sequence[int], target: str) -> list[tuple[int, float]]:
    """CPU seconds a node of synthetic graphs of growing size: the better of two runs."""
    from inductor_debug_jupyter.benchmarks.device_trial import check_target
    from inductor_debug_jupyter.benchmarks.synthetic import synthetic_capture
    from inductor_debug_jupyter.pipeline.devices import load_profile

    profile = load_profile(target)
    return [
        (nodes, min(check_target([synthetic_capture(nodes)], profile).seconds for _ in range(2)) / nodes)
        for nodes in sizes
    ]


def _print(trials: Sequence[DeviceTrial], growth: Sequence[tuple[int, float]]) -> None:
    columns = ("Model", "Target", "Findings", "Places", "Ops", *map(str.capitalize, OP_STATUSES), "Check ms", "of AOT")
    print_table(columns, [row for trial in trials for row in _target_rows(trial)], right=columns[2:])
    print_line("")
    columns = ("Model", "Graph", "Peak estimated", "measured", "off by", "Target", "Segments", "Moved", "Same bits")
    print_table(columns, [row for trial in trials for row in _replay_rows(trial)], right=columns[2:5])
    print_line("")
    told = ", ".join(f"{nodes:,} nodes {seconds * 1e6:.1f} µs a node" for nodes, seconds in growth)
    print_line(f"Growth: {told}")


def _target_rows(trial: DeviceTrial) -> list[tuple[str, ...]]:
    return [
        (
            trial.model,
            result.target,
            str(len(result.findings)),
            str(sum(len(finding.places) for finding in result.findings)),
            str(result.nodes),
            *(str(result.coverage.count(status)) for status in OP_STATUSES),
            f"{result.seconds * 1000:.1f}",
            f"{result.seconds / trial.aot_seconds:.2%}",
        )
        for result in trial.targets
    ]


def _replay_rows(trial: DeviceTrial) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for replay in trial.replays:
        estimated = "unknown" if replay.estimated is None else size(replay.estimated)
        first = (trial.model, replay.stage, estimated, size(replay.measured), f"{replay.error:.2%}")
        for target, (segments, moved, same) in replay.partitions.items():
            rows.append((*first, target, str(segments), size(moved), "yes" if same else "NO"))
            first = ("", "", "", "", "")
    return rows


def _failures(trials: Sequence[DeviceTrial], growth: Sequence[tuple[int, float]], *, judge_cost: bool) -> list[str]:
    failures = []
    for trial in trials:
        for result in trial.targets:
            if not result.accounted:
                failures.append(f"{trial.model} on {result.target}: not every op is accounted for")
            if judge_cost and result.seconds > MOST_COST * trial.aot_seconds:
                share = result.seconds / trial.aot_seconds
                failures.append(f"{trial.model} on {result.target}: checking takes {share:.2%}, over {MOST_COST:.0%}")
        for replay in trial.replays:
            if replay.error > MOST_MEMORY_ERROR:
                failures.append(f"{trial.model} {replay.stage}: the peak is off by {replay.error:.1%}")
            failures += [
                f"{trial.model} {replay.stage}: partitioned for {target} it differs"
                for target, (_, _, same) in replay.partitions.items()
                if not same
            ]
    if judge_cost and growth[-1][1] > MOST_GROWTH * growth[-2][1]:
        failures.append(
            f"a node of {growth[-1][0]:,} costs {growth[-1][1] / growth[-2][1]:.1f}× one of {growth[-2][0]:,}"
        )
    return failures


def _figures(trials: Sequence[DeviceTrial], growth: Sequence[tuple[int, float]]) -> dict[str, Any]:
    return {
        "models": [
            {
                "model": trial.model,
                "aot_seconds": trial.aot_seconds,
                "record_seconds": trial.record_seconds,
                "targets": [
                    {
                        "target": result.target,
                        "findings": [str(finding) for finding in result.findings],
                        "ops": {status: result.coverage.count(status) for status in OP_STATUSES},
                        "accounted": result.accounted,
                        "seconds": result.seconds,
                        "of_aot": result.seconds / trial.aot_seconds,
                    }
                    for result in trial.targets
                ],
                "graphs": [
                    {
                        "stage": replay.stage,
                        "estimated": replay.estimated,
                        "measured": replay.measured,
                        "partitions": {
                            target: {"segments": segments, "bytes_moved": moved, "bit_equal": same}
                            for target, (segments, moved, same) in replay.partitions.items()
                        },
                    }
                    for replay in trial.replays
                ],
            }
            for trial in trials
        ],
        "seconds_a_node": {str(nodes): seconds for nodes, seconds in growth},
    }
