"""``capture``: what seeing a compile costs, for our capture and its peers side by side.

One transformer encoder, forward and backward, in a fresh process for every measurement; repeats go through the
contenders forwards and backwards in turn, so that a machine that slows down slows everybody down. FX and AOT caches
are off for all (but for the contender that measures them), compiled ``.so`` files are there from a run that is not
counted. With several ``--layers`` it asks instead how what we add grows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.benchmarks.children import Answer, Children
from inductor_debug_jupyter.benchmarks.command_line import one_of, some_of, whole_numbers
from inductor_debug_jupyter.benchmarks.contenders import CONTENDERS
from inductor_debug_jupyter.benchmarks.costs import (
    COLUMNS,
    LAYER_COLUMNS,
    CallRatios,
    Cost,
    LayerCost,
    call_ratios,
    cost_of,
    cost_rows,
    figures,
    fit,
    fit_line,
    layer_cost,
    layer_rows,
    statements,
)
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.options import whole_number

_CALLS = "calls"
_PARTS = (*CONTENDERS, _CALLS)
_GROWTH = ("plain", "capture")
_CALL_CHILDREN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--repeats", default="", metavar="N", help="measurements of each; default 5, with --small 1")
    parser.add_argument(
        "--layers", default="4", metavar="N,…", help="layers of the encoder; several ask how our cost grows; default 4"
    )
    parser.add_argument("--only", default="", metavar="NAME,…", help=f"only these: {', '.join(_PARTS)}")
    parser.add_argument("--calls", default="300", metavar="N", help="calls of each compiled function; default 300")
    parser.add_argument(
        "--python", default=sys.executable, metavar="FILE", help="another interpreter with this package, and its torch"
    )
    parser.add_argument("--small", action="store_true", help="one tiny layer, not warmed up, to try this out")
    parser.add_argument("--format", default="table", metavar="table|json", help="default table")


@dataclass(frozen=True)
class _Plan:
    """What was asked for."""

    names: list[str]
    layers: list[int]
    repeats: int
    calls: int
    small: bool

    @property
    def contenders(self) -> list[str]:
        return [name for name in self.names if name in CONTENDERS]

    @property
    def call_children(self) -> int:
        return min(self.repeats, _CALL_CHILDREN) if _CALLS in self.names else 0

    @property
    def steps(self) -> int:
        runs = self.repeats + (0 if self.small else 1)
        return len(self.layers) * len(self.contenders) * runs + self.call_children


def run(args: argparse.Namespace) -> int:
    """Measure and print; 1 when plain or our capture could not be measured."""
    plan = _plan(args)
    form = one_of(args.format, "--format", ("table", "json"))
    with (
        tempfile.TemporaryDirectory(prefix="inductor-debug-capture-", ignore_cleanup_errors=True) as folder,
        Progress(plan.steps) as progress,
    ):
        measurement = _Measurement(plan, Children(Path(folder), args.python), progress)
        costs = {layers: measurement.costs(layers) for layers in plan.layers}
        calls = measurement.calls() if plan.call_children else None
    growth = [
        layer_cost(layers, each["plain"], each["capture"])
        for layers, each in costs.items()
        if all(name in each and each[name].measured for name in _GROWTH)
    ]
    answer = _answer(plan, costs, calls, growth)
    if form == "json":
        print_line(json.dumps(answer, indent=2))
    else:
        _print(plan, costs, growth, answer)
    return int(any(cost.error for all_ in costs.values() for cost in all_.values() if cost.name in _GROWTH))


def _plan(args: argparse.Namespace) -> _Plan:
    layers = [1] if args.small else whole_numbers(args.layers, "--layers", 1)
    everything = _GROWTH if len(layers) > 1 else _PARTS
    return _Plan(
        names=some_of(args.only, "--only", _PARTS) if args.only else list(everything),
        layers=layers,
        repeats=whole_number(args.repeats or ("1" if args.small else "5"), "--repeats", 1),
        calls=whole_number(args.calls, "--calls", 1),
        small=args.small,
    )


class _Measurement:
    """Goes through the plan."""

    def __init__(self, plan: _Plan, children: Children, progress: Progress) -> None:
        self.plan, self.children, self.progress = plan, children, progress

    def costs(self, layers: int) -> dict[str, Cost]:
        """Every contender on an encoder of that many layers."""
        names = self.plan.contenders
        answers: dict[str, list[Answer]] = {name: [] for name in names}
        for name in () if self.plan.small else names:
            first = self._compile(name, layers, "not counted", warming=True)
            answers[name] = [first] if first.error else []
        for repeat in range(self.plan.repeats):
            for name in names if repeat % 2 == 0 else reversed(names):
                if not _failure(answers[name]):
                    answers[name].append(self._compile(name, layers, f"repeat {repeat + 1}"))
        return {name: cost_of(name, _failure(answers[name]) or answers[name]) for name in names}

    def calls(self) -> CallRatios:
        """How fast the compiled function runs."""
        answers = []
        for repeat in range(self.plan.call_children):
            self.progress.step(f"calls of compiled functions: repeat {repeat + 1}")
            answers.append(self.children.calls(self.plan.layers[0], self.plan.calls, small=self.plan.small))
        return call_ratios(answers)

    def _compile(self, name: str, layers: int, which: str, *, warming: bool = False) -> Answer:
        self.progress.step(f"{CONTENDERS[name].title}, layers: {layers}, {which}")
        timed = len(self.plan.layers) > 1
        return self.children.compile(name, layers, small=self.plan.small, warming=warming, timed=timed)


def _failure(answers: list[Answer]) -> list[Answer]:
    """The answer that a contender failed with, after which it is not asked again."""
    return [answer for answer in answers[-1:] if answer.error]


def _answer(
    plan: _Plan, costs: dict[int, dict[str, Cost]], calls: CallRatios | None, growth: list[LayerCost]
) -> dict[str, Any]:
    """Everything that was found, as plain data."""
    line = fit(growth)
    torch_version = next((a.torch_version for each in costs.values() for c in each.values() for a in c.answers), "")
    return {
        "torch": torch_version,
        "small": plan.small,
        "repeats": plan.repeats,
        "measurements": [
            {
                "layers": layers,
                "contenders": [figures(cost, each.get("plain")) for cost in each.values()],
                "statements": statements(each, None),
            }
            for layers, each in costs.items()
        ],
        "calls": asdict(calls) if calls else None,
        "growth": [{**asdict(cost), "per_node": cost.per_node} for cost in growth],
        "fit": asdict(line) if line else None,
        "statements": _statements(plan, costs, calls, fit_line(line)),
    }


def _statements(plan: _Plan, costs: dict[int, dict[str, Cost]], calls: CallRatios | None, growth: str) -> Sequence[str]:
    if plan.small:
        return ["Small: these figures say that it runs, nothing else"]
    lines: list[str] = []
    for layers, each in costs.items():
        prefix = f"{layers} layers: " if len(costs) > 1 else ""
        lines += [prefix + line for line in statements(each, calls if len(costs) == 1 else None)]
    return [*lines, growth] if len(costs) > 1 else lines


def _print(plan: _Plan, costs: dict[int, dict[str, Cost]], growth: list[LayerCost], answer: dict[str, Any]) -> None:
    print_line(f"torch {answer['torch']}, {plan.repeats} repeats, medians of CPU seconds\n")
    for layers, each in costs.items():
        if len(costs) > 1:
            print_line(f"{layers} layers")
        if each:
            print_table(COLUMNS, cost_rows(each), right=COLUMNS[1:7])
        print_line("")
    if len(costs) > 1:
        print_table(LAYER_COLUMNS, layer_rows(growth), right=LAYER_COLUMNS)
        print_line("")
    for line in answer["statements"]:
        print_line(line)
