"""The Memory tab: bytes alive while each node runs, and the tensors that are alive under the pointer.

The curve is bqplot's; a click on it makes the pointer a ruler, and what is alive at its place stands beside it. bqplot
takes a while to load, so the curve is made when the tab is opened for the first time.
"""

from __future__ import annotations

from typing import Any

import ipywidgets
import traitlets

from inductor_debug_jupyter.jupyter.panels.charts import axis, figure
from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset
from inductor_debug_jupyter.pipeline import harmless, words
from inductor_debug_jupyter.pipeline.devices.memory import liveness_of
from inductor_debug_jupyter.pipeline.records import MemoryRecord
from inductor_debug_jupyter.pipeline.views.memory import alive_view, memory_view
from inductor_debug_jupyter.pipeline.views.places import Lookup

TAB = "memory"
ROWS = 200
_LINE = "#0072b2"
_LIMIT = "#d55e00"
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


class AlivePanel(Pane):
    """The tensors alive at one node: ``title`` says which, ``rows`` are views, largest first."""

    _esm = asset("memory.js")
    _css = asset("memory.css")
    title = traitlets.Unicode("").tag(sync=True)
    rows = traitlets.List().tag(sync=True)


class MemoryTab(ipywidgets.HBox):  # type: ignore[misc]  # ipywidgets has no type information
    """The curve of one graph and the list beside it.

    Args:
        lookup: the session.
        alive: the list; it is one of the panel's panes, since a click in it is a selection.
    """

    def __init__(self, lookup: Lookup, alive: AlivePanel) -> None:
        self._lookup = lookup
        self._records = lookup.record.memory
        self._alive = alive
        titles = [f"{each.compile_id} {each.stage} · peak {words.size(each.peak)}" for each in self._records]
        self._chooser = ipywidgets.Dropdown(options=[(title, at) for at, title in enumerate(titles)])
        self._chooser.layout.width = "auto"
        self._left = ipywidgets.VBox(children=[self._chooser])
        self._left.layout.flex, self._left.layout.min_width = "1 1 60%", "0"
        super().__init__(children=[self._left])
        self.add_class("idj-memory-tab")
        self.layout.flex, self.layout.height = "1 1 60%", "100%"
        self.layout.min_width, self.layout.display = "0", "none"
        self._figures: dict[int, Any] = {}
        self._chooser.observe(lambda change: self._draw(change["new"]), names="value")

    def enter(self) -> None:
        """Show the tab; the first time, draw."""
        self.layout.display = "flex"
        if not self._figures and self._records:
            worst = max(range(len(self._records)), key=lambda at: self._records[at].peak)
            self._chooser.value = worst
            self._draw(worst)

    def leave(self) -> None:
        """Hide the tab."""
        self.layout.display = "none"

    def _draw(self, at: int) -> None:
        if at not in self._figures:
            self._figures[at] = self._figure(self._records[at])
        self._left.children = [self._chooser, self._figures[at]]
        record = self._records[at]
        self._show(record, record.timeline.index(record.peak))

    def _figure(self, record: MemoryRecord) -> Any:
        import bqplot

        view = memory_view(record, self._lookup.record.memory_limit)
        factor, unit = next((each for each in _UNITS if record.peak >= each[0]), _UNITS[-1])
        x_scale, y_scale = bqplot.LinearScale(), bqplot.LinearScale(min=0)
        scales = {"x": x_scale, "y": y_scale}
        xs, ys = ([point[part] for point in view["points"]] for part in (0, 1))
        curve = bqplot.Lines(
            x=xs,
            y=[y / factor for y in ys],
            scales=scales,
            colors=[_LINE],
            fill="bottom",
            fill_opacities=[0.18],
            interpolation="step-after",
        )
        marks = [curve]
        if view["limit"] is not None and view["limit"] < 4 * record.peak:
            limit = view["limit"] / factor
            marks.append(
                bqplot.Lines(x=xs[:1] + xs[-1:], y=[limit, limit], scales=scales, colors=[_LIMIT], line_style="dashed")
            )
        ruler = bqplot.interacts.IndexSelector(scale=x_scale, marks=[curve], color=_LIMIT, line_width=1)
        ruler.observe(lambda change: self._pointed(record, change["new"]), names="selected")
        axes = [axis(x_scale, "nodes, as they run", label_offset="32px"), axis(y_scale, unit, orientation="vertical")]
        return figure(marks, axes, height=410, margin=(12, 16, 44, 62), interaction=ruler)

    def _pointed(self, record: MemoryRecord, selected: Any) -> None:
        if selected is not None and len(selected):
            self._show(record, max(0, min(len(record.timeline) - 1, int(float(selected[0])))))

    def _show(self, record: MemoryRecord, position: int) -> None:
        graph = self._lookup.graphs.get((record.compile_id, record.stage))
        if graph is None:
            return
        node, total = graph.nodes[position], record.timeline[position]
        at_peak = " (the peak)" if total == record.peak else ""
        self._alive.title = f"{words.size(total)} alive at {harmless.plain(node.name)}{at_peak}"
        capture = next(each for each in self._lookup.record.captures if each.compile_id == record.compile_id)
        rows = []
        for tensor in liveness_of(graph, capture).alive_at(position)[:ROWS]:
            made = graph.node(tensor.node)
            selection = self._lookup.of_node(record.compile_id, record.stage, made) if made else None
            rows.append({**alive_view(tensor, total), "selection": selection})
        self._alive.rows = rows
