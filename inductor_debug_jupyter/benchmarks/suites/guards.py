"""``guards``: what inspecting guards costs over the compile it watches, and their table.

Two gates; the exit code is 1 when one fails:

- inspecting a model that is compiled with Inductor takes at most 5% more CPU time than compiling it (medians of
  alternating runs of one process). The same ratio for the cheaper backends is shown and not judged: what they leave out
  is the compile itself;
- the view of 5,000 guards is built in at most 0.5 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from inductor_debug_jupyter.benchmarks.arguments import whole_number
from inductor_debug_jupyter.benchmarks.progress import Progress
from inductor_debug_jupyter.benchmarks.table import print_line, print_table

if TYPE_CHECKING:
    from inductor_debug_jupyter.benchmarks.guard_trial import InspectionCost

SUMMARY = "what inspecting guards costs over the compile it watches, and a table of thousands of guards"

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
    from inductor_debug_jupyter.benchmarks.guard_trial import inspection_cost, table_seconds

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
