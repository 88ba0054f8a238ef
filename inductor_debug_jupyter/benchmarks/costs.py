"""From the answers of many children to medians, ratios and a fit."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inductor_debug_jupyter.benchmarks.children import Answer
from inductor_debug_jupyter.benchmarks.contenders import CONTENDERS
from inductor_debug_jupyter.pipeline.records.graph import STAGES

_CXX_SECONDS = 1.0
"""More CPU time than this in other programs during a compile is a C++ compiler at work."""


@dataclass(frozen=True)
class Cost:
    """What one contender cost, over all repeats."""

    name: str
    title: str
    answers: tuple[Answer, ...]
    error: str = ""

    @property
    def measured(self) -> bool:
        """Whether there is a figure."""
        return bool(self.answers) and not self.error

    def cpu(self, *laps: str) -> float:
        """Median CPU seconds of those stretches, of everything when none is named."""
        return statistics.median(answer.cpu(*laps) for answer in self.answers)

    @property
    def wall(self) -> float:
        """Median wall seconds of everything."""
        return statistics.median(answer.wall() for answer in self.answers)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that were found in what every repeat left behind."""
        return tuple(stage for stage in STAGES if all(stage in answer.found for answer in self.answers))

    @property
    def cold_runs(self) -> int:
        """How many repeats had to compile C++, which the others found ready."""
        return sum(answer.laps["compile"].children > _CXX_SECONDS for answer in self.answers)

    def spread(self) -> tuple[float, float]:
        """The least and the most CPU seconds of everything."""
        seconds = [answer.cpu() for answer in self.answers]
        return min(seconds), max(seconds)


def cost_of(name: str, answers: Sequence[Answer]) -> Cost:
    """The cost of a contender; when one repeat failed, its reason instead."""
    error = next((answer.error for answer in answers if answer.error), "")
    contender = CONTENDERS[name]
    if not error and contender.warm_caches and not all(answer.cache_hits for answer in answers):
        error = "torch did not answer from its caches"
    return Cost(name, contender.title, tuple(answers), error)


def figures(cost: Cost, plain: Cost | None) -> dict[str, Any]:
    """A contender's figures and every single run, as plain data.

    Ratios are CPU time over a plain compile's: medians of the compile and of everything, the best run over the best run
    (what a machine is busy with only ever adds), and the least and the most within one repeat.
    """
    found: dict[str, Any] = {"name": cost.name, "title": cost.title, "error": cost.error}
    if not cost.measured:
        return found
    found |= {"cpu": cost.cpu("compile"), "after_cpu": cost.cpu("close", "finish"), "wall": cost.wall}
    found |= {"stages": cost.stages, "runs": [asdict(answer) for answer in cost.answers]}
    if plain is None or not plain.measured:
        return found | dict.fromkeys(("ratio", "ratio_whole", "ratio_best", "ratio_range"))
    base = plain.cpu()
    each = [own.cpu() / other.cpu() for own, other in zip(cost.answers, plain.answers, strict=False)]
    return found | {
        "ratio": found["cpu"] / base,
        "ratio_whole": cost.cpu() / base,
        "ratio_best": cost.spread()[0] / plain.spread()[0],
        "ratio_range": (min(each), max(each)),
    }


@dataclass(frozen=True)
class CallRatios:
    """A captured function's calls over a plainly compiled one's; medians over the children."""

    error: str = ""
    after: float = 0.0
    control: float = 0.0
    """Two plainly compiled functions over each other: what the measurement itself can tell apart."""
    under: float = 0.0
    first: float = 0.0
    """The first call after the block over a median one: far above 1 when torch compiled again."""
    milliseconds: float = 0.0


def call_ratios(answers: Sequence[Answer]) -> CallRatios:
    """The ratios of all children."""
    if error := next((answer.error for answer in answers if answer.error), ""):
        return CallRatios(error)
    calls = [answer.calls for answer in answers]

    def median_of(over: str, under: str) -> float:
        return statistics.median(times[over] / times[under] for times in calls)

    return CallRatios(
        after=median_of("captured", "plain"),
        control=median_of("control", "plain"),
        under=median_of("under", "around"),
        first=median_of("first", "captured"),
        milliseconds=1000 * statistics.median(times["plain"] for times in calls),
    )


@dataclass(frozen=True)
class LayerCost:
    """What our capture adds to a compile of that many layers: medians of what was timed inside (see ``stopwatch``)."""

    layers: int
    nodes: int
    plain: float
    block: float
    whole: float

    @property
    def per_node(self) -> float:
        """Seconds of everything that we add, a recorded node."""
        return self.whole / self.nodes


def layer_cost(layers: int, plain: Cost, own: Cost) -> LayerCost:
    """What we add: inside the recorder while it compiles, and afterwards."""
    return LayerCost(
        layers=layers,
        nodes=own.answers[0].nodes,
        plain=plain.cpu(),
        block=statistics.median(answer.own for answer in own.answers),
        whole=statistics.median(answer.own + answer.cpu("close", "finish") for answer in own.answers),
    )


@dataclass(frozen=True)
class Fit:
    """A straight line through what we add: ``start + slope × layers``."""

    start: float
    slope: float
    r_squared: float
    worst: float
    """The greatest distance from the line, as a share of the largest value."""
    exponent: float | None
    """Slope in a log-log plot over the nodes: 1 is linear, 2 quadratic; None when a difference drowned in noise."""


def fit(costs: Sequence[LayerCost]) -> Fit | None:
    """Least squares over the layers; None with fewer than three points, through which a line says nothing."""
    if len(costs) < 3:
        return None
    xs, ys = [float(cost.layers) for cost in costs], [cost.whole for cost in costs]
    line = statistics.linear_regression(xs, ys)
    left = [y - (line.intercept + line.slope * x) for x, y in zip(xs, ys, strict=True)]
    spread = sum((y - statistics.fmean(ys)) ** 2 for y in ys)
    exponent = None
    if min(ys) > 0:
        logs = ([math.log(cost.nodes) for cost in costs], [math.log(y) for y in ys])
        exponent = statistics.linear_regression(*logs).slope
    return Fit(
        start=line.intercept,
        slope=line.slope,
        r_squared=1 - sum(each**2 for each in left) / spread if spread else 1.0,
        worst=max(map(abs, left)) / max(map(abs, ys)),
        exponent=exponent,
    )


# In rows and sentences; the same data as JSON -------------------------------------------------------------------------


CAPTURE_GOAL = 1.10
"""Our capture over a plain compile, at most."""
CALLS_GOAL = 0.02
"""How far from 1.00 the compiled function may run."""
_LINEAR_EXPONENT = 1.15
_LINEAR_R_SQUARED = 0.98
_RECOMPILED = 20.0
_BUSY = 1.10

COLUMNS = ("Contender", "CPU s", "after", "wall s", "× plain", "× with after", "× best runs", "range", "gives")
LAYER_COLUMNS = ("Layers", "nodes", "plain s", "we add in the block, s", "closed and saved, s", "µs a node")

Costs = Mapping[str, Cost]


def cost_rows(costs: Costs) -> list[tuple[str, ...]]:
    """One row a contender; one that failed says so and keeps its place."""
    plain = costs.get("plain")
    return [_row(cost, plain) for cost in costs.values()]


def _row(cost: Cost, plain: Cost | None) -> tuple[str, ...]:
    if not cost.measured:
        return (cost.title, *["–"] * 7, f"failed: {cost.error}" if cost.error else "not measured")
    found = figures(cost, plain)
    seconds = (f"{found[name]:.2f}" for name in ("cpu", "after_cpu", "wall"))
    over = ["–"] * 4
    if found["ratio_range"]:
        over = [f"{found[name]:.2f}×" for name in ("ratio", "ratio_whole", "ratio_best")]
        over.append("–".join(f"{end:.2f}" for end in found["ratio_range"]))
    return (cost.title, *seconds, *over, _given(cost))


def _given(cost: Cost) -> str:
    """The stages; a star on those that are only inside a raw log."""
    if not cost.stages:
        return "nothing"
    files = cost.answers[0].found
    if len(cost.stages) == len(STAGES) and not any(name.endswith(".log") for name in files.values()):
        return f"all {len(STAGES)} stages"
    lacking = [stage for stage in STAGES if stage not in cost.stages]
    raw = [stage for stage in cost.stages if files[stage].endswith(".log")]
    parts = [f"{len(cost.stages)} of {len(STAGES)} stages"]
    parts += [f"no {', '.join(lacking)}"] if lacking else []
    parts += [f"{', '.join(raw)} only inside a raw log"] if raw else []
    return "; ".join(parts)


def statements(costs: Costs, calls: CallRatios | None) -> list[str]:
    """What the table means, with the goals, and what makes it doubtful."""
    return [
        *_capture_lines(costs),
        *_cache_lines(costs),
        *(_call_lines(calls) if calls else ()),
        *_doubts(costs),
    ]


def _capture_lines(costs: Costs) -> list[str]:
    plain = costs.get("plain")
    found = {name: figures(costs[name], plain) for name in ("capture", "compile_debug") if name in costs}
    own = found.get("capture", {})
    if not own.get("ratio"):
        return []
    block, whole = own["ratio"], own["ratio_whole"]
    goal = f"goal ≤ {CAPTURE_GOAL:.2f}×"
    lines = [
        f"Our capture in the block: {block:.2f}× a plain compile ({goal}: {_met(block <= CAPTURE_GOAL)})",
        f"Our capture closed, checked, stored and saved: {whole:.2f}× ({goal}: {_met(whole <= CAPTURE_GOAL)})",
    ]
    if theirs := found.get("compile_debug", {}).get("ratio_whole"):
        cheaper = "cheaper (met)" if whole < theirs else "not cheaper (not met)"
        lines.append(f"TORCH_COMPILE_DEBUG=1 costs {theirs:.2f}×: ours is {cheaper}")
    return lines


def _cache_lines(costs: Costs) -> list[str]:
    cached, plain = costs.get("cached"), costs.get("plain")
    if cached is None or plain is None or not cached.measured or not plain.measured:
        return []
    off, hit = plain.cpu(), cached.cpu()
    seconds = f"{off:.2f} s over {hit:.2f} s"
    return [
        f"A compile with the FX and AOT caches off, as in a capture, costs {off / hit:.1f}× a hit in them ({seconds})"
    ]


def _call_lines(calls: CallRatios) -> list[str]:
    if calls.error:
        return [f"The compiled function's run time was not measured: {calls.error}"]
    goal = f"goal 1.00 ± {CALLS_GOAL:.2f}×: {_met(abs(calls.after - 1) <= CALLS_GOAL)}"
    control = f"two plain ones {calls.control:.3f}×, {calls.milliseconds:.2f} ms a call"
    lines = [
        f"The compiled function afterwards: {calls.after:.3f}× a plainly compiled one ({goal})",
        f"Beside it: {control}; while the capture is still open {calls.under:.3f}×",
    ]
    if calls.first > _RECOMPILED:
        lines.append(
            f"Its first call after the block took {calls.first:.0f}× a usual one: torch compiled it again then"
        )
    return lines


def _doubts(costs: Costs) -> list[str]:
    lines = [
        f"{cost.title}: {cost.cold_runs} of {len(cost.answers)} runs compiled C++, which the others found ready"
        for cost in costs.values()
        if cost.measured and cost.cold_runs
    ]
    plain = costs.get("plain")
    if plain is not None and plain.measured:
        least, most = plain.spread()
        if most / least > _BUSY:
            lines.append(
                f"The plain compile alone varied from {least:.2f} to {most:.2f} s: the machine is busy, "
                "measure again on a quiet one, with more --repeats"
            )
    return lines


def layer_rows(costs: Sequence[LayerCost]) -> list[tuple[str, ...]]:
    """One row for each number of layers."""
    return [
        (
            str(cost.layers),
            str(cost.nodes),
            f"{cost.plain:.2f}",
            f"{cost.block:.3f}",
            f"{cost.whole:.3f}",
            f"{cost.per_node * 1e6:.0f}",
        )
        for cost in costs
    ]


def fit_line(line: Fit | None) -> str:
    """The fit in a sentence."""
    if line is None:
        return "A line needs at least three numbers of layers: no statement about growth"
    linear = (
        line.exponent is not None
        and 0 < line.exponent <= _LINEAR_EXPONENT  # below 1: something of it costs the same for every model
        and line.r_squared >= _LINEAR_R_SQUARED
    )
    power = "" if line.exponent is None else f", grows as nodes^{line.exponent:.2f}"
    return (
        f"{'Linear' if linear else 'Not shown to be linear'}: we add {line.start:+.3f} s {line.slope:+.3f} s a layer "
        f"(R² {line.r_squared:.3f}, at most {line.worst:.0%} off the line{power})"
    )


def _met(yes: bool) -> str:
    return "met" if yes else "not met"
