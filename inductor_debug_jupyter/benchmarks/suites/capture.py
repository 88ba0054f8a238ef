"""``capture``: what seeing a compile costs, for our capture and its peers side by side.

One transformer encoder, forward and backward, in a fresh process for every measurement; repeats go through the
contenders forwards and backwards in turn, so that a machine that slows down slows everybody down. FX and AOT caches
are off for all (but for the contender that measures them), compiled ``.so`` files are there from a run that is not
counted. With several ``--layers`` it asks instead how what we add grows.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from inductor_debug_jupyter.benchmarks.children import Answer, Children, Job
from inductor_debug_jupyter.benchmarks.command_line import some_of, whole_numbers
from inductor_debug_jupyter.benchmarks.contenders import CONTENDERS
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.options import whole_number
from inductor_debug_jupyter.pipeline.records.graph import STAGES

CAPTURE_GOAL = 1.10
"""Our capture over a plain compile, at most."""
CALLS_GOAL = 0.02
"""How far from 1.00 the compiled function may run."""

_CALLS = "calls"
_PARTS = (*CONTENDERS, _CALLS)
_GROWTH = ("plain", "capture")
_CALL_CHILDREN = 3
_CXX_SECONDS = 1.0
"""More CPU time than this in other programs during a compile is a C++ compiler at work."""
_LINEAR_EXPONENT = 1.15
_LINEAR_R_SQUARED = 0.98
_RECOMPILED = 20.0
_BUSY = 1.10
_COLUMNS = ("CPU s", "after", "wall s", "× plain", "× with after", "range", "gives")
_LAYER_COLUMNS = ("Layers", "nodes", "plain s", "we add in the block, s", "closed and saved, s", "µs a node")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--repeats", default="", metavar="N", help="measurements of each; default 5, with --small 1")
    parser.add_argument(
        "--layers", default="4", metavar="N,…", help="layers of the encoder; several ask how our cost grows; default 4"
    )
    parser.add_argument("--only", default="", metavar="NAME,…", help=f"only these: {', '.join(_PARTS)}")
    parser.add_argument("--calls", default="300", metavar="N", help="calls of each compiled function; default 300")
    parser.add_argument("--small", action="store_true", help="one tiny layer, not warmed up, to try this out")


def run(args: argparse.Namespace) -> int:
    """Measure and print; 1 when plain or our capture could not be measured."""
    layers = [1] if args.small else whole_numbers(args.layers, "--layers", 1)
    names = some_of(args.only, "--only", _PARTS) if args.only else list(_GROWTH if len(layers) > 1 else _PARTS)
    repeats = whole_number(args.repeats or ("1" if args.small else "5"), "--repeats", 1)
    calls = whole_number(args.calls, "--calls", 1)
    contenders = [name for name in names if name in CONTENDERS]
    call_children = min(repeats, _CALL_CHILDREN) if _CALLS in names and len(layers) == 1 else 0
    steps = len(layers) * len(contenders) * (repeats + (not args.small)) + call_children
    with (
        tempfile.TemporaryDirectory(prefix="inductor-debug-capture-", ignore_cleanup_errors=True) as folder,
        Progress(steps) as progress,
    ):
        children = Children(Path(folder))
        costs = {}
        for number in layers:
            job = Job("compile", "", number, args.small, timed=len(layers) > 1)
            costs[number] = _measured(contenders, job, repeats, children, progress)
        called = []
        for repeat in range(call_children):
            progress.step(f"calls of compiled functions: repeat {repeat + 1}")
            called.append(children.run(Job("calls", "capture", layers[0], args.small, calls)))
    _print(costs, called, repeats, small=args.small)
    return int(any(cost.error for all_ in costs.values() for cost in all_.values() if cost.name in _GROWTH))


@dataclass(frozen=True)
class Cost:
    """What one contender cost, over all repeats; with ``error`` there is no figure."""

    name: str
    answers: Sequence[Answer]
    error: str = ""

    @property
    def title(self) -> str:
        """What the table calls the contender."""
        return CONTENDERS[self.name].title

    @property
    def cpu(self) -> float:
        """Median CPU seconds of everything."""
        return statistics.median(answer.cpu for answer in self.answers)

    @property
    def compiling(self) -> float:
        """Median CPU seconds of the compile."""
        return statistics.median(answer.compiling.cpu for answer in self.answers)

    @property
    def stages(self) -> list[str]:
        """The stages that were found in what every repeat left behind."""
        return [stage for stage in STAGES if all(stage in answer.found for answer in self.answers)]


Costs = Mapping[str, Cost]


def _measured(names: Sequence[str], job: Job, repeats: int, children: Children, progress: Progress) -> dict[str, Cost]:
    """Every contender on an encoder of ``job``'s layers; one that failed is not run again."""
    answers: dict[str, list[Answer]] = {name: [] for name in names}
    errors: dict[str, str] = {}
    rounds = [] if job.small else [("not counted", list(names))]
    rounds += [(f"repeat {at + 1}", list(names)[:: -1 if at % 2 else 1]) for at in range(repeats)]
    for which, name in ((which, name) for which, order in rounds for name in order):
        if name in errors:
            continue
        contender, warming = CONTENDERS[name], which == "not counted"
        progress.step(f"{contender.title}, layers: {job.layers}, {which}")
        answer = children.run(replace(job, contender=name), warming=warming)
        missed = contender.warm_caches and not warming and not answer.cache_hits
        if error := answer.error or ("torch did not answer from its caches" if missed else ""):
            errors[name] = error
        elif not warming:
            answers[name].append(answer)
    return {name: Cost(name, answers[name], errors.get(name, "")) for name in names}


# Rows and sentences ---------------------------------------------------------------------------------------------------


def _print(costs: dict[int, dict[str, Cost]], called: Sequence[Answer], repeats: int, *, small: bool) -> None:
    versions = [a.torch_version for each in costs.values() for cost in each.values() for a in cost.answers]
    print_line(f"torch {[*versions, ''][0]}, {repeats} repeats, medians of CPU seconds\n")
    sentences: list[str] = []
    for layers, each in costs.items():
        rows = [_row(cost, each.get("plain")) for cost in each.values()]
        print_table((f"Contender, {layers} layers", *_COLUMNS), rows, right=_COLUMNS[:6])
        print_line("")
        sentences += [f"{layers} layers: {line}" for line in _statements(each, called)]
    if len(costs) > 1:
        sentences.append(_print_growth(costs))
    for line in ["Small: these figures say that it runs, nothing else"] if small else sentences:
        print_line(line)


def _row(cost: Cost, plain: Cost | None) -> tuple[str, ...]:
    """One row of the table; a contender that failed says so and keeps its place.

    Ratios are CPU time over a plain compile's: medians of the compile and of everything, and the least and the most
    within one repeat.
    """
    if cost.error:
        return (cost.title, *["–"] * 6, f"failed: {cost.error}")
    after = statistics.median(answer.after.cpu for answer in cost.answers)
    wall = statistics.median(answer.compiling.wall + answer.after.wall for answer in cost.answers)
    over = ["–"] * 3
    if plain is not None and not plain.error:
        each = [own.cpu / other.cpu for own, other in zip(cost.answers, plain.answers, strict=False)]
        over = [
            f"{cost.compiling / plain.cpu:.2f}×",
            f"{cost.cpu / plain.cpu:.2f}×",
            f"{min(each):.2f}–{max(each):.2f}",
        ]
    return (cost.title, f"{cost.compiling:.2f}", f"{after:.2f}", f"{wall:.2f}", *over, _given(cost))


def _given(cost: Cost) -> str:
    """The stages, and which of them are only inside a raw log."""
    if not cost.stages:
        return "nothing"
    lacking = [stage for stage in STAGES if stage not in cost.stages]
    raw = [stage for stage in cost.stages if cost.answers[0].found[stage].endswith(".log")]
    if not lacking and not raw:
        return f"all {len(STAGES)} stages"
    parts = [f"{len(cost.stages)} of {len(STAGES)} stages"]
    parts += [f"no {', '.join(lacking)}"] if lacking else []
    parts += [f"{', '.join(raw)} only inside a raw log"] if raw else []
    return "; ".join(parts)


def _statements(costs: Costs, called: Sequence[Answer]) -> list[str]:
    """What the table means, with the goals, and what makes it doubtful."""
    good = {name: cost for name, cost in costs.items() if not cost.error}
    lines = _ratio_lines(good, good["plain"]) if "plain" in good else []
    lines += _call_lines(called) if called else []
    for cost in good.values():
        cold = sum(answer.compiling.children > _CXX_SECONDS for answer in cost.answers)
        if cold:
            lines.append(f"{cost.title}: {cold} of {len(cost.answers)} runs compiled C++, which the others found ready")
    seconds = [answer.cpu for answer in good["plain"].answers] if "plain" in good else [1.0]
    if max(seconds) / min(seconds) > _BUSY:
        lines.append(
            f"The plain compile alone varied from {min(seconds):.2f} to {max(seconds):.2f} s: the machine is busy, "
            "measure again on a quiet one, with more --repeats"
        )
    return lines


def _ratio_lines(costs: Costs, plain: Cost) -> list[str]:
    lines = []
    if (own := costs.get("capture")) is not None:
        block, whole = own.compiling / plain.cpu, own.cpu / plain.cpu
        goal = f"goal ≤ {CAPTURE_GOAL:.2f}×"
        lines = [
            f"Our capture in the block: {block:.2f}× a plain compile ({goal}: {_met(block <= CAPTURE_GOAL)})",
            f"Our capture closed, checked, stored and saved: {whole:.2f}× ({goal}: {_met(whole <= CAPTURE_GOAL)})",
        ]
        if (other := costs.get("compile_debug")) is not None:
            cheaper = "cheaper (met)" if own.cpu < other.cpu else "not cheaper (not met)"
            lines.append(f"TORCH_COMPILE_DEBUG=1 costs {other.cpu / plain.cpu:.2f}×: ours is {cheaper}")
    if (hit := costs.get("cached")) is not None:
        seconds = f"{plain.cpu:.2f} s over {hit.cpu:.2f} s"
        off = "A compile with the FX and AOT caches off, as in a capture,"
        lines.append(f"{off} costs {plain.cpu / hit.cpu:.1f}× a hit in them ({seconds})")
    return lines


def _call_lines(answers: Sequence[Answer]) -> list[str]:
    """A captured function's calls over a plainly compiled one's; medians over the children.

    Two plainly compiled functions over each other say what the measurement itself can tell apart.
    """
    if error := next((answer.error for answer in answers if answer.error), ""):
        return [f"The compiled function's run time was not measured: {error}"]

    def median_of(over: str, under: str) -> float:
        return statistics.median(answer.calls[over] / answer.calls[under] for answer in answers)

    after, first = median_of("captured", "plain"), median_of("first", "captured")
    milliseconds = 1000 * statistics.median(answer.calls["plain"] for answer in answers)
    goal = f"goal 1.00 ± {CALLS_GOAL:.2f}×: {_met(abs(after - 1) <= CALLS_GOAL)}"
    control = f"two plain ones {median_of('control', 'plain'):.3f}×, {milliseconds:.2f} ms a call"
    lines = [
        f"The compiled function afterwards: {after:.3f}× a plainly compiled one ({goal})",
        f"Beside it: {control}; while the capture is still open {median_of('under', 'around'):.3f}×",
    ]
    if first > _RECOMPILED:
        lines.append(f"Its first call after the block took {first:.0f}× a usual one: torch compiled it again then")
    return lines


def _print_growth(costs: dict[int, dict[str, Cost]]) -> str:
    """Print what our capture adds to a compile of so many layers, as timed inside; answers with the line's sentence."""
    rows: list[tuple[str, ...]] = []
    points: list[tuple[int, int, float]] = []
    for layers, each in costs.items():
        if any(name not in each or each[name].error for name in _GROWTH):
            continue
        own = each["capture"].answers
        nodes = own[0].nodes
        block = statistics.median(answer.own for answer in own)
        whole = statistics.median(answer.own + answer.after.cpu for answer in own)
        seconds = (f"{each['plain'].cpu:.2f}", f"{block:.3f}", f"{whole:.3f}", f"{whole / nodes * 1e6:.0f}")
        rows.append((str(layers), str(nodes), *seconds))
        points.append((layers, nodes, whole))
    print_table(_LAYER_COLUMNS, rows, right=_LAYER_COLUMNS)
    print_line("")
    return growth_line(points)


def growth_line(points: Sequence[tuple[int, int, float]]) -> str:
    """A straight line by least squares through layers, nodes and the seconds that we add, in a sentence.

    The exponent is the slope in a log-log plot over the nodes: 1 is linear, 2 quadratic.
    """
    if len(points) < 3:
        return "A line needs at least three numbers of layers: no statement about growth"
    xs, nodes, ys = zip(*points, strict=True)
    line = statistics.linear_regression(xs, ys)
    r_squared = statistics.correlation(xs, ys) ** 2
    worst = max(abs(y - (line.intercept + line.slope * x)) for x, y in zip(xs, ys, strict=True)) / max(map(abs, ys))
    exponent = math.nan  # a difference drowned in noise
    if min(ys) > 0:
        exponent = statistics.linear_regression([math.log(n) for n in nodes], [math.log(y) for y in ys]).slope
    # below 1: something of it costs the same for every model
    linear = 0 < exponent <= _LINEAR_EXPONENT and r_squared >= _LINEAR_R_SQUARED
    power = "" if math.isnan(exponent) else f", grows as nodes^{exponent:.2f}"
    how = "Linear" if linear else "Not shown to be linear"
    fit = f"R² {r_squared:.3f}, at most {worst:.0%} off the line{power}"
    return f"{how}: we add {line.intercept:+.3f} s {line.slope:+.3f} s a layer ({fit})"


def _met(yes: bool) -> str:
    return "met" if yes else "not met"
