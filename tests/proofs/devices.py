"""``devices``: real models against every target: findings, op coverage, cost, peak memory and partitions.

Four gates, each with its figure; the exit code is 1 when one of them fails:

- every op has exactly one verdict and one segment;
- checking a model against one target takes at most 2% of the CPU time that AOTAutograd takes for it in the same run;
- the estimated peak is within 5% of what a dispatch mode measures while the graph runs again;
- a partitioned graph gives the same bits as the whole one and moves what was planned.

A model is compiled once, forward and backward, by AOTAutograd alone. Its graphs, with the arguments that they really
had, are run again as they are and partitioned for each target.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.command_line import named
from inductor_debug_jupyter.benchmarks.models import MODEL_NAMES, BenchmarkModel, benchmark_model
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.devices import (
    DeviceProfile,
    check,
    coverage_of,
    graph_coverage,
    load_profile,
    memory_of,
    profile_names,
    rules_for,
)
from inductor_debug_jupyter.pipeline.records import OP_STATUSES, CompileCapture, CoverageRecord, GraphRecord, Violation
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper, KeptGraph
from inductor_debug_jupyter.pipeline.words import size
from tests.proofs.inside_torch.peak import MeasuredPeak
from tests.proofs.partitioned import PartitionedGraph
from tests.proofs.synthetic import synthetic_capture

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
    names = named(args.model, "--model", MODEL_NAMES, MODEL_NAMES)
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


def _growth(sizes: Sequence[int], target: str) -> list[tuple[int, float]]:
    """CPU seconds a node of synthetic graphs of growing size: the better of two runs."""
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


def _target_failures(trial: DeviceTrial, result: TargetResult, *, judge_cost: bool) -> Iterator[str]:
    if not result.accounted:
        yield f"{trial.model} on {result.target}: not every op is accounted for"
    if judge_cost and result.seconds > MOST_COST * trial.aot_seconds:
        share = result.seconds / trial.aot_seconds
        yield f"{trial.model} on {result.target}: checking takes {share:.2%}, over {MOST_COST:.0%}"


def _replay_failures(trial: DeviceTrial, replay: ReplayResult) -> Iterator[str]:
    if replay.error > MOST_MEMORY_ERROR:
        yield f"{trial.model} {replay.stage}: the peak is off by {replay.error:.1%}"
    for target, (_, _, same) in replay.partitions.items():
        if not same:
            yield f"{trial.model} {replay.stage}: partitioned for {target} it differs"


def _failures(trials: Sequence[DeviceTrial], growth: Sequence[tuple[int, float]], *, judge_cost: bool) -> list[str]:
    failures: list[str] = []
    for trial in trials:
        for result in trial.targets:
            failures += _target_failures(trial, result, judge_cost=judge_cost)
        for replay in trial.replays:
            failures += _replay_failures(trial, replay)
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


# One model against every target ---------------------------------------------------------------------------------------


HARSH = DeviceProfile("harsh", deny=("aten.add", "aten._softmax", "aten.relu", "aten.sigmoid", "aten.bmm", "aten.exp"))
"""No real target: it lacks ops that are everywhere, so that graphs are cut into many segments."""


@dataclass
class TargetResult:
    """One model on one target."""

    target: str
    findings: tuple[Violation, ...]
    coverage: CoverageRecord
    seconds: float
    """CPU time of all rules, coverage and memory."""

    @property
    def nodes(self) -> int:
        """Ops in all graphs."""
        return sum(graph.nodes for graph in self.coverage.graphs)

    @property
    def accounted(self) -> bool:
        """Whether each op has one row and one segment."""
        return all(
            sum(row.count for row in graph.rows) == graph.nodes == sum(len(s.nodes) for s in graph.segments)
            for graph in self.coverage.graphs
        )


@dataclass
class ReplayResult:
    """One graph, run again."""

    stage: str
    estimated: int | None
    measured: int
    partitions: dict[str, tuple[int, int, bool]] = field(default_factory=dict)
    """Target → segments, bytes moved, and whether outputs and written inputs are bit-equal and transfers as planned."""

    @property
    def error(self) -> float:
        """How far the estimate is off, as a fraction of what was measured."""
        return 1.0 if self.estimated is None or not self.measured else abs(self.estimated / self.measured - 1)


@dataclass
class DeviceTrial:
    """All of one model."""

    model: str
    aot_seconds: float
    record_seconds: float
    targets: list[TargetResult]
    replays: list[ReplayResult]


def run_trial(model: BenchmarkModel, targets: Sequence[str], *, small: bool) -> DeviceTrial:
    """Compile one model, check it against every target and replay its graphs."""
    built = model.build(small)
    keeper, aot_seconds = _compile(built.module, built.inputs)
    start = time.process_time()
    records = [graph_record(kept.stage, kept.graph_module, roles=_roles(kept, built.module)) for kept in keeper.graphs]
    record_seconds = time.process_time() - start
    results = [check_target(_captures(records), load_profile(target)) for target in targets]
    profiles = [*(load_profile(target) for target in targets), HARSH]
    replays = [_replay(kept, record, profiles) for kept, record in zip(keeper.graphs, records, strict=True)]
    return DeviceTrial(model.name, aot_seconds, record_seconds, results, replays)


def _compile(module: Any, inputs: Sequence[Any]) -> tuple[AotKeeper, float]:
    torch.compiler.reset()
    keeper = AotKeeper()
    compiled: Any = torch.compile(module, backend=keeper)
    outputs = compiled(*inputs)
    tensors = outputs.values() if isinstance(outputs, dict) else [outputs]
    loss: Any = sum(tensor.float().sum() for tensor in tensors if isinstance(tensor, torch.Tensor))
    loss.backward()
    return keeper, keeper.seconds


def _roles(kept: KeptGraph, module: Any) -> list[tuple[str, str]]:
    """Dynamo gives parameters as inputs: those among a forward's arguments are told from the rest by identity."""
    known = {tensor.data_ptr(): ("parameter", name) for name, tensor in module.named_parameters()}
    known |= {tensor.data_ptr(): ("buffer", name) for name, tensor in module.named_buffers()}
    return [
        known.get(arg.data_ptr(), ("input", "")) if isinstance(arg, torch.Tensor) else ("input", "")
        for arg in (kept.args or ())
    ]


def _captures(records: Sequence[GraphRecord]) -> list[CompileCapture]:
    """Fresh captures: what a graph has looked up for one target must not make the next one cheaper."""
    return [CompileCapture("0/0", graphs={record.stage: replace(record) for record in records})]


def check_target(captures: Sequence[CompileCapture], profile: DeviceProfile) -> TargetResult:
    """All that a session does with a target, and its CPU time."""
    gc.collect()  # what others left behind is not the checks' doing
    start = time.process_time()
    findings = check(captures, rules_for(profile))
    coverage = coverage_of(captures, profile)
    for capture in captures:
        for graph in capture.graphs.values():
            memory_of(graph, capture)
    return TargetResult(profile.name, findings, coverage, time.process_time() - start)


def _replay(kept: KeptGraph, record: GraphRecord, profiles: Sequence[DeviceProfile]) -> ReplayResult:
    written = {name for node in record.calls for name in node.mutates}
    estimate = memory_of(record)
    args = _arguments(kept, written)
    with torch.no_grad(), MeasuredPeak(args) as measured:
        expected = kept.graph_module(*args)
    result = ReplayResult(kept.stage, estimate.peak if estimate else None, measured.peak)
    for profile in profiles:
        coverage = graph_coverage(record, profile)
        graph = PartitionedGraph(kept.graph_module, record, coverage.segments)
        mine = _arguments(kept, written)
        outputs = graph(*mine)
        planned = [transfer.bytes for transfer in coverage.transfers]
        same = (
            all(_bit_equal(*pair) for pair in zip(expected, outputs, strict=True))
            and all(_bit_equal(*pair) for pair in zip(args, mine, strict=True))
            and sorted(moved.bytes for moved in graph.moved) == sorted(size or 0 for size in planned)
        )
        result.partitions[profile.name] = (len(coverage.segments), coverage.moved("border") or 0, same)
    return result


def _arguments(kept: KeptGraph, written: set[str]) -> list[Any]:
    """The arguments of the real call; those that the graph writes to as copies."""
    assert kept.args is not None
    names = [node.name for node in kept.graph_module.graph.find_nodes(op="placeholder")]
    return [
        arg.clone() if name in written and isinstance(arg, torch.Tensor) else arg
        for name, arg in zip(names, kept.args, strict=True)
    ]


def _bit_equal(reference: Any, candidate: Any) -> bool:
    if not isinstance(reference, torch.Tensor):
        return bool(reference == candidate)
    return (
        reference.shape == candidate.shape
        and reference.stride() == candidate.stride()
        and reference.dtype == candidate.dtype
        and torch.equal(_bits(reference), _bits(candidate))
    )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as bytes: NaN is equal to itself, and 0 is not -0."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
