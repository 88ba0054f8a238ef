"""``guards``: what inspecting guards costs over the compile it watches, and their table.

Two gates; the exit code is 1 when one fails:

- inspecting a model that is compiled with Inductor takes at most 5% more CPU time than compiling it (medians of
  alternating runs of one process). The same ratio for the cheaper backends is shown and not judged: what they leave out
  is the compile itself;
- the view of 5,000 guards is built in at most 0.5 s.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.children import Meter
from inductor_debug_jupyter.benchmarks.models import encoder
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.guards import GuardInspector
from inductor_debug_jupyter.pipeline.options import whole_number
from inductor_debug_jupyter.pipeline.records import CompileCapture, Guard, SessionRecord, SourceLine
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed
from inductor_debug_jupyter.pipeline.views.guards import guards_text, guards_view
from tests.proofs.inside_torch.inductor_settings import compiling_here

MOST_COST = 1.05
MOST_TABLE = 0.5
GUARDS = 5_000
_JUDGED = "inductor"
_BACKENDS = ("eager", "aot_eager", _JUDGED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--repeats", default="", metavar="N", help="measurements of each; default 7, with --small 1")
    parser.add_argument("--layers", default="2", metavar="N", help="layers of the encoder; default 2")
    parser.add_argument("--small", action="store_true", help="one tiny layer, to try this out; costs not judged")
    parser.add_argument("--json", metavar="FILE", help="also write every figure to this file")


def run(args: argparse.Namespace) -> int:
    """Measure, print the table; 1 when a gate fails."""
    repeats = whole_number(args.repeats or ("1" if args.small else "7"), "--repeats", 1)
    layers = whole_number(args.layers, "--layers", 1)

    costs: list[InspectionCost] = []
    with Progress(len(_BACKENDS) + 1) as progress:
        for backend in _BACKENDS:
            progress.step(f"{backend}: compile and inspect in turn")
            costs.append(inspection_cost(backend, layers=layers, repeats=repeats, small=args.small))
        progress.step(f"{GUARDS:,} guards")
        table = table_seconds(GUARDS)
    _print(costs, table)
    failures = _failures(costs, table, judge_cost=not args.small)
    for line in failures:
        print_line(f"FAILED: {line}")
    if not failures:
        print_line("All gates hold (costs are not judged on a tiny model)." if args.small else "All gates hold.")
    if args.json:
        Path(args.json).write_text(json.dumps(_figures(costs, table), indent=1), encoding="utf-8")
    return int(bool(failures))


def _print(costs: Sequence[InspectionCost], table: Mapping[str, float]) -> None:
    columns = ("Backend", "Guards", "Plain s", "Inspected s", "Ratio", "pair by pair")
    rows = [
        (
            cost.backend,
            str(cost.guards),
            f"{statistics.median(cost.plain):.3f}",
            f"{statistics.median(cost.inspected):.3f}",
            f"{cost.ratio:.3f}",
            f"{cost.spread[0]:.3f}–{cost.spread[1]:.3f}",
        )
        for cost in costs
    ]
    print_table(columns, rows, right=columns[1:5])
    print_line("")
    print_line(f"{GUARDS:,} guards: view {table['view']:.3f} s, text {table['text']:.3f} s of CPU")


def _failures(costs: Sequence[InspectionCost], table: Mapping[str, float], *, judge_cost: bool) -> list[str]:
    failures = []
    for cost in costs:
        if cost.backend == _JUDGED and judge_cost and cost.ratio > MOST_COST:
            failures.append(f"inspecting costs {cost.ratio:.3f} of the {cost.backend} compile, over {MOST_COST}")
        if not cost.guards:
            failures.append(f"no guards were found with {cost.backend}")
    if table["view"] > MOST_TABLE:
        failures.append(f"the view of {GUARDS:,} guards takes {table['view']:.2f} s, over {MOST_TABLE} s")
    return failures


def _figures(costs: Sequence[InspectionCost], table: Mapping[str, float]) -> dict[str, object]:
    return {
        "costs": [
            {
                "backend": cost.backend,
                "guards": cost.guards,
                "plain": cost.plain,
                "inspected": cost.inspected,
                "ratio": cost.ratio,
            }
            for cost in costs
        ],
        "table": dict(table),
        "table_guards": GUARDS,
    }


# Measuring ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InspectionCost:
    """CPU seconds of plain compiles and of inspected ones, pair by pair."""

    backend: str
    guards: int
    plain: tuple[float, ...]
    inspected: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median over median."""
        return statistics.median(self.inspected) / statistics.median(self.plain)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest ratio of a pair."""
        ratios = [own / base for own, base in zip(self.inspected, self.plain, strict=True)]
        return min(ratios), max(ratios)


def inspection_cost(backend: str, *, layers: int, repeats: int, small: bool = False) -> InspectionCost:
    """Compile and inspect in turn."""
    built = encoder(layers, small=small)
    times: dict[str, list[float]] = {"plain": [], "inspected": []}
    found = 0

    def plain() -> None:
        compiled: Callable[..., Any] = torch.compile(built.module, backend=backend)
        compiled(*built.inputs)

    def inspected() -> None:
        nonlocal found
        found = len(GuardInspector(torch.compile(built.module, backend=backend)).inspect(*built.inputs).guards)

    ways: dict[str, Callable[[], None]] = {"plain": plain, "inspected": inspected}
    with caches_bypassed(), compiling_here():
        for way in ways.values():  # not counted: imports, and the C++ compiler
            _seconds(way)
        for repeat in range(repeats):
            order = list(ways) if repeat % 2 == 0 else list(reversed(ways))
            for name in order:
                times[name].append(_seconds(ways[name]))
    torch.compiler.reset()
    return InspectionCost(backend, found, tuple(times["plain"]), tuple(times["inspected"]))


def _seconds(way: Callable[[], None]) -> float:
    torch.compiler.reset()
    gc.collect()
    meter = Meter()
    way()
    return meter.lap().cpu


def synthetic_guards(count: int) -> SessionRecord:
    """A session with that many guards, all different, of the kinds that models have."""
    line = SourceLine("cell", 3, "y = x * n", "f", "In [1]")
    tensor = "Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=True, size=[8, 8], stride=[8, 1])"
    made = []
    for at in range(count):
        name = f"L['self']._modules['block{at}']"
        kind, expression, check = (
            ("EQUALS_MATCH", f"{name}.p", f"{name}.p == {at}"),
            ("TENSOR_MATCH", f"{name}._parameters['weight']", f"check_tensor({name}._parameters['weight'], {tensor}"),
            ("TYPE_MATCH", name, f"___check_type_id({name}, {1_000_000 + at}), type=<class 'a.Block{at}'>"),
            ("EQUALS_MATCH", f"L['n{at}']", f"L['n{at}'] == {at}"),
        )[at % 4]
        made.append(Guard("0/0", kind, expression, (check,), line))
    return SessionRecord(
        id="", created="", name="f", target="", strict=False, torch_version="", tool_version="",
        captures=(CompileCapture("0/0", "f", line),), guards=tuple(made),
    )  # fmt: skip


def table_seconds(count: int) -> dict[str, float]:
    """CPU seconds of the view of that many guards, and of their text; the median of five."""
    record = synthetic_guards(count)
    ways: dict[str, Callable[[], Any]] = {
        "view": lambda: guards_view(record),
        "text": lambda: guards_text(record, limit=None),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(5):
        for name, way in ways.items():
            meter = Meter()
            way()
            times[name].append(meter.lap().cpu)
    return {name: statistics.median(each) for name, each in times.items()}
