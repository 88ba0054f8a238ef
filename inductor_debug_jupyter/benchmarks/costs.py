"""From the answers of many children to medians, ratios and a fit."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from inductor_debug_jupyter.benchmarks.contenders import CONTENDERS
from inductor_debug_jupyter.benchmarks.job import Answer
from inductor_debug_jupyter.pipeline.records.graph import STAGES

_CXX_SECONDS = 1.0
"""More CPU time than this in other programs during a compile is a C++ compiler at work."""


@dataclass(frozen=True)
class Cost:
    """What one contender cost, over all repeats. ``compile`` is up to the end of the block, ``whole`` everything."""

    name: str
    title: str
    answers: tuple[Answer, ...]
    error: str = ""

    @property
    def measured(self) -> bool:
        """Whether there is a figure."""
        return bool(self.answers) and not self.error

    @property
    def compile_cpu(self) -> float:
        """Median CPU seconds of the compile with what is around it."""
        return statistics.median(answer.cpu("compile") for answer in self.answers)

    @property
    def after_cpu(self) -> float:
        """Median CPU seconds of what comes after the compile: closing, saving, a second program."""
        return statistics.median(answer.cpu("close", "finish") for answer in self.answers)

    @property
    def whole_cpu(self) -> float:
        """Median CPU seconds of everything."""
        return statistics.median(answer.cpu() for answer in self.answers)

    @property
    def whole_wall(self) -> float:
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
    if not error and contender.WARM_CACHES and not all(answer.cache_hits for answer in answers):
        error = "torch did not answer from its caches"
    return Cost(name, contender.TITLE, tuple(answers), error)


def ratio(cost: Cost, base: Cost | None, *, whole: bool) -> float | None:
    """Median over the median of ``base``; None where one of them has no figure."""
    if base is None or not base.measured or not cost.measured:
        return None
    return (cost.whole_cpu if whole else cost.compile_cpu) / base.whole_cpu


def ratio_range(cost: Cost, base: Cost | None) -> tuple[float, float] | None:
    """The least and the greatest ratio of everything within one repeat."""
    if base is None or not base.measured or not cost.measured:
        return None
    ratios = [own.cpu() / plain.cpu() for own, plain in zip(cost.answers, base.answers, strict=False)]
    return min(ratios), max(ratios)


def best_ratio(cost: Cost, base: Cost | None) -> float | None:
    """The best run over the best run of ``base``: what a machine is busy with only ever adds."""
    if base is None or not base.measured or not cost.measured:
        return None
    return cost.spread()[0] / base.spread()[0]


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
    told = [answer.own for answer in own.answers]
    after = [answer.own + answer.cpu("close", "finish") for answer in own.answers]
    return LayerCost(
        layers=layers,
        nodes=own.answers[0].nodes,
        plain=plain.whole_cpu,
        block=statistics.median(told),
        whole=statistics.median(after),
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
