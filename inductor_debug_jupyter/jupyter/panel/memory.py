"""The Memory tab: bytes alive while each node runs, and the tensors that are alive under the pointer.

The curve is bqplot's; a click on it makes the pointer a ruler, and what is alive at its place stands beside it. bqplot
takes a while to load, so the curve is made when the tab is opened for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.jupyter.panel.charts import axis, figure, whole_ticks
from inductor_debug_jupyter.jupyter.panel.widget_closing import close_all
from inductor_debug_jupyter.pipeline import harmless, words
from inductor_debug_jupyter.pipeline.devices.memory import liveness_of
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.records import MemoryRecord
from inductor_debug_jupyter.pipeline.views.memory import alive_view, memory_view
from inductor_debug_jupyter.pipeline.views.panel_parts import Parts
from inductor_debug_jupyter.pipeline.views.places import Lookup, graph_title

TAB = "memory"
ROWS = 200
_LINE = "#0072b2"
_LIMIT = "#d55e00"
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


class MemoryPane:
    """Writes ``memory`` (the graphs, and the tensors alive at one node) and the curve of one graph.

    Args:
        parts: the panel's state.
        lookup: the session.
        changed: called with a function that writes what a click on the curve changes.
    """

    def __init__(self, parts: Parts, lookup: Lookup, changed: Callable[[Callable[[], None]], None]) -> None:
        self._parts, self._lookup, self._changed = parts, lookup, changed
        self._records = lookup.record.memory

    def answers(self) -> wire.Handlers:
        """The requests of the page that this pane answers, each with its handler."""
        return {wire.ShowMemory: lambda request: self.show(request.graph)}

    def fill(self) -> None:
        """Draw the graph that needs most."""
        if self._records:
            self.show(max(range(len(self._records)), key=lambda at: self._records[at].peak))

    def show(self, at: int) -> None:
        """Draw the curve of graph number ``at``, and list what is alive at its peak.

        Raises:
            NotFoundError: there is no such graph.
        """
        if not 0 <= at < len(self._records):
            raise NotFoundError(f"there is no memory curve number {at}; there are {len(self._records)}")
        record = self._records[at]
        before = self._parts["widgets"].get("memory")
        self._parts["widgets"] = {**self._parts["widgets"], "memory": self._figure(record)}
        choices = [
            graph_title(self._lookup, each.compile_id, each.stage, f"peak {words.size(each.peak)}")
            for each in self._records
        ]
        self._parts["memory"] = {**self._parts["memory"], "choices": choices, "shown": at}
        self._show(record, record.timeline.index(record.peak))
        if before is not None:
            self._parts.flush()
            close_all(before)

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
        ticks = whole_ticks(int(xs[-1]))
        axes = [
            axis(x_scale, "nodes, as they run", label_offset="32px", tick_values=ticks, tick_format="d"),
            axis(y_scale, unit, orientation="vertical", label_offset="44px"),
        ]
        return figure(marks, axes, height=410, margin=(12, 16, 44, 66), interaction=ruler)

    def _pointed(self, record: MemoryRecord, selected: Any) -> None:
        if selected is not None and len(selected):
            at = max(0, min(len(record.timeline) - 1, int(float(selected[0]))))
            self._changed(lambda: self._show(record, at))

    def _show(self, record: MemoryRecord, position: int) -> None:
        graph = self._lookup.graphs.get((record.compile_id, record.stage))
        if graph is None:
            return
        node, total = graph.nodes[position], record.timeline[position]
        at_peak = " (the peak)" if total == record.peak else ""
        title = f"{words.size(total)} alive at {harmless.plain(node.name)}{at_peak}"
        capture = next(each for each in self._lookup.record.captures if each.compile_id == record.compile_id)
        rows = []
        for tensor in liveness_of(graph, capture).alive_at(position)[:ROWS]:
            made = graph.node(tensor.node)
            selection = self._lookup.of_node(record.compile_id, record.stage, made) if made else None
            rows.append({**alive_view(tensor, total), "selection": selection})
        self._parts["memory"] = {**self._parts["memory"], "title": title, "rows": rows}
