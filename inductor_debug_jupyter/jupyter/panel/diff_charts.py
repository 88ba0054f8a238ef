"""Under the KernelDiff tab: how the errors of an output are spread, and how they grow from node to node; bqplot's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from inductor_debug_jupyter.jupyter.panel.charts import axis, figure, whole_ticks
from inductor_debug_jupyter.pipeline.views.localization import CurvePoint

_COLOURS = {"introduced": "#d55e00", "amplified": "#e69f00", "rounding": "#0072b2", "not_compared": "#999999"}
LEGEND = (
    "Red brings an error in, orange passes one on, blue is rounding; dashed is what rounding explains. "
    "Click a point for its node."
)
_TICKS = 6
_LEAST = 1e-12
"""Smaller errors are drawn here: a logarithmic axis has no zero."""


def error_chart(points: list[CurvePoint], pick: Callable[[int], None]) -> Any:
    """The error of each node, in the order of running; ``pick`` is called with the number of a clicked point."""
    import bqplot

    scales = {"x": bqplot.LinearScale(), "y": bqplot.LogScale()}
    xs = [point["at"] for point in points]
    ys = [_shown(point["error"]) for point in points]
    allowed = bqplot.Lines(
        x=xs,
        y=[_shown(point["allowed"]) for point in points],
        scales=scales,
        colors=["#999999"],
        line_style="dashed",
    )
    dots = bqplot.Scatter(
        x=xs,
        y=ys,
        scales=scales,
        colors=[_COLOURS[point["status"]] for point in points],
        default_size=36,
        names=[point["node"] for point in points],
        display_names=False,
    )
    dots.on_element_click(lambda _, message: pick(int(message.get("data", {}).get("index", -1))))
    line = bqplot.Lines(x=xs, y=ys, scales=scales, colors=["#0072b2"], opacities=[0.7])
    sizes = [*ys, *(_shown(point["allowed"]) for point in points)]
    x_axis = axis(
        scales["x"],
        "values, as they are computed",
        label_offset="32px",
        tick_values=whole_ticks(xs[-1]),
        tick_format="d",
    )
    return _figure([allowed, line, dots], scales, x_axis, "error / largest element", sizes)


def _shown(value: float | None) -> float:
    return 1.0 if value is None or not math.isfinite(value) else max(value, _LEAST)


def histogram(output: Any) -> Any:
    """How many elements have an error of which size."""
    import bqplot

    bins = [(low, high, count) for low, high, count in output["histogram"] if high > 0]
    none = sum(count for _, high, count in output["histogram"] if high == 0)
    scales = {"x": bqplot.LinearScale(), "y": bqplot.LogScale(min=0.8)}
    bars = bqplot.Bars(
        x=[math.log10(max(low, 1e-300)) for low, _, _ in bins],
        y=[max(count, 0.8) for _, _, count in bins],
        scales=scales,
        colors=["#0072b2"],
        padding=0.1,
        base=0.8,
    )
    without = f" ({none:,} elements have none)" if none else ""
    counts = [1, *(count for _, _, count in bins)]
    x_axis = axis(scales["x"], f"log₁₀ of the error{without}", label_offset="32px", num_ticks=8)
    return _figure([bars], scales, x_axis, "elements", counts)


def powers_of_ten(values: Sequence[float]) -> list[float]:
    """At most :data:`_TICKS` powers of ten that span the values: bqplot's own ticks of a logarithmic axis overlap."""
    first, last = (round(math.log10(edge)) for edge in (min(values), max(values)))
    step = max(1, math.ceil((last - first) / (_TICKS - 1)))
    return [10.0**power for power in range(first, last + 1, step)]


def _figure(marks: list[Any], scales: dict[str, Any], x_axis: Any, y_label: str, values: Sequence[float]) -> Any:
    form = ".0e" if "error" in y_label else ",.0f"
    ticks = powers_of_ten(values or [1.0])
    y_axis = axis(
        scales["y"], y_label, label_offset="46px", orientation="vertical", tick_format=form, tick_values=ticks
    )
    return figure(marks, [x_axis, y_axis], height=230, margin=(10, 16, 44, 66))
