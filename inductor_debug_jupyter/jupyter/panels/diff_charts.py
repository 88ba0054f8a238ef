"""Under the KernelDiff tab: how the errors of the chosen output are spread, and how they grow from node to node.

Both are bqplot's. A point of the curve is a node: clicking it chooses the node in the other tabs, and says what it is.
bqplot takes a while to load, so the charts are made when the tab is opened for the first time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ipywidgets

from inductor_debug_jupyter.jupyter.panels.charts import axis, figure
from inductor_debug_jupyter.jupyter.panels.kernel_diff import KernelDiffPanel
from inductor_debug_jupyter.pipeline.records import LocalizationRecord
from inductor_debug_jupyter.pipeline.views.localization import CurvePoint, error_curve

_COLOURS = {"introduced": "#d55e00", "amplified": "#e69f00", "rounding": "#0072b2", "not_compared": "#999999"}
_LEAST = 1e-12
"""Smaller errors are drawn here: a logarithmic axis has no zero."""

Choose = Callable[[str, str], None]


class DiffCharts(ipywidgets.HBox):  # type: ignore[misc]  # ipywidgets has no type information
    """The two charts.

    Args:
        panel: the tab that says which output is chosen.
        localization: every node's error; without it there is no curve.
        choose: called with the graph and the name of a node that was clicked.
    """

    def __init__(
        self, panel: KernelDiffPanel, localization: LocalizationRecord | None, choose: Choose | None = None
    ) -> None:
        self._panel = panel
        self._choose = choose
        self.points: list[CurvePoint] = [] if localization is None else error_curve(localization)
        self._caption = ipywidgets.Label("Click a point for its node")
        self._curve: Any = None
        super().__init__(children=[])
        self.add_class("idj-diff-charts")
        self.layout.display, self.layout.width = "none", "100%"
        panel.observe(lambda _: self._draw(), names="chosen")

    def enter(self) -> None:
        """Show them; the first time, draw."""
        self.layout.display = "flex"
        if not self.children:
            self._draw()

    def leave(self) -> None:
        """Hide them."""
        self.layout.display = "none"

    def _draw(self) -> None:
        if self.layout.display == "none":
            return
        output = next((each for each in self._panel.view["outputs"] if each["path"] == self._panel.chosen), None)
        charts = []
        if output is not None and output["histogram"]:
            charts.append(_histogram(output))
        if self.points:
            self._curve = self._curve or self._make_curve()
            charts.append(ipywidgets.VBox(children=[self._curve, self._caption]))
        for chart in charts:
            chart.layout.flex, chart.layout.min_width = "1 1 50%", "0"
        self.children = charts

    def _make_curve(self) -> Any:
        import bqplot

        scales = {"x": bqplot.LinearScale(), "y": bqplot.LogScale()}
        xs = [point["at"] for point in self.points]
        ys = [_shown(point["error"]) for point in self.points]
        allowed = bqplot.Lines(
            x=xs,
            y=[_shown(point["allowed"]) for point in self.points],
            scales=scales,
            colors=["#999999"],
            line_style="dashed",
        )
        dots = bqplot.Scatter(
            x=xs,
            y=ys,
            scales=scales,
            colors=[_COLOURS[point["status"]] for point in self.points],
            default_size=36,
            names=[point["node"] for point in self.points],
            display_names=False,
        )
        dots.on_element_click(self._clicked)
        line = bqplot.Lines(x=xs, y=ys, scales=scales, colors=["#0072b2"], opacities=[0.4])
        return _figure([allowed, line, dots], scales, "values, as they are computed", "error / largest element")

    def _clicked(self, _: Any, message: dict[str, Any]) -> None:
        """A click on a point."""
        at = message.get("data", {}).get("index")
        if isinstance(at, int) and 0 <= at < len(self.points):
            self.pick(at)

    def pick(self, at: int) -> None:
        """Describe a point in the caption, and choose its node."""
        point = self.points[at]
        error = "not finite" if point["error"] is None else f"{point['error']:.2e}"
        where = f" · {point['place']}" if point["place"] else ""
        self._caption.value = f"{point['graph']} {point['node']} ({point['op']}): {error}, {point['words']}{where}"
        if self._choose is not None:
            self._choose(point["graph"], point["node"])


def _shown(value: float | None) -> float:
    return 1.0 if value is None or not math.isfinite(value) else max(value, _LEAST)


def _histogram(output: Any) -> Any:
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
    return _figure([bars], scales, f"log₁₀ of the error{without}", "elements")


def _figure(marks: list[Any], scales: dict[str, Any], x_label: str, y_label: str) -> Any:
    form = ".0e" if "error" in y_label else ".1s"
    x_axis = axis(scales["x"], x_label, label_offset="32px")
    y_axis = axis(scales["y"], y_label, label_offset="46px", orientation="vertical", tick_format=form, num_ticks=6)
    return figure(marks, [x_axis, y_axis], height=230, margin=(10, 16, 44, 66))
