"""One model against every target: what is found, what it costs to find it, and whether the estimates hold.

The model is compiled once, forward and backward, by AOTAutograd alone; its CPU time is the yardstick for the checks of
the same run. Then its graphs, with the arguments that they really had, are run again: as they are (with a dispatch mode
that counts memory), and partitioned for each target (bit for bit the same, or it is said).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.models import BenchmarkModel
from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.devices import (
    DeviceProfile,
    check,
    coverage_of,
    graph_coverage,
    load_profile,
    memory_of,
    rules_for,
)
from inductor_debug_jupyter.pipeline.devices.execute import PartitionedGraph
from inductor_debug_jupyter.pipeline.records import CompileCapture, CoverageRecord, GraphRecord, Violation
from inductor_debug_jupyter.pipeline.torch_compat.peak import MeasuredPeak
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper, KeptGraph

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
