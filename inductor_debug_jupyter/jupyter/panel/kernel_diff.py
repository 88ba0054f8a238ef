"""The KernelDiff tab: outputs, worst first, where their errors are, the values at the worst place, and two charts."""

from __future__ import annotations

from collections.abc import Callable

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.jupyter.panel.diff_charts import LEGEND, error_chart, histogram
from inductor_debug_jupyter.jupyter.panel.widget_closing import close_all
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import DiffRecord, LocalizationRecord
from inductor_debug_jupyter.pipeline.views.diff import cell_place, diff_view
from inductor_debug_jupyter.pipeline.views.localization import CurvePoint, error_curve, point_text
from inductor_debug_jupyter.pipeline.views.panel_parts import Parts

TAB = "diff"


class KernelDiffPane:
    """Writes ``diff`` when the tab is first opened, then the output on show, its slice and what was picked in it.

    Args:
        parts: the panel's state.
        record: the comparison to show.
        pairs: the tensors that are still there: their pictures are made anew for any slice, measure and window.
        localization: which nodes introduce the error, if that was searched for.
        changed: called with a function that writes what a click on a chart changes.
        choose: called with the graph and the name of a node whose point of the error curve is clicked.
    """

    def __init__(
        self,
        parts: Parts,
        record: DiffRecord,
        pairs: LivePairs | None = None,
        localization: LocalizationRecord | None = None,
        changed: Callable[[Callable[[], None]], None] = lambda action: action(),
        choose: Callable[[str, str], None] = lambda graph, node: None,
    ) -> None:
        self._parts, self._record, self._localization = parts, record, localization
        self._pairs = pairs or LivePairs()
        self._names = {plain(path): path for path in self._pairs.pairs}
        self._changed, self._choose = changed, choose
        self.points: list[CurvePoint] = [] if localization is None else error_curve(localization)
        """Every node's error, in the order of running."""

    def answers(self) -> wire.Handlers:
        """The requests of the page that this pane answers, each with its handler."""
        return {
            wire.ShowOutput: lambda request: self.show(request.path),
            wire.PickDiffCell: self._pick_cell,
            wire.ShowDiffSlice: self._show_slice,
        }

    def fill(self) -> None:
        """Write the outputs, show the worst, and draw the charts."""
        view = diff_view(self._record, localization=self._localization)
        self._parts["diff"] = {**view, "live": list(self._names)}
        if self.points:
            chart = error_chart(self.points, lambda at: self._changed(lambda: self._pick(at)))
            self._parts["widgets"] = {**self._parts["widgets"], "error_curve": chart}
            self._parts["diff_point"] = LEGEND
        if view["outputs"]:
            self.show(view["outputs"][0]["path"])

    def show(self, path: str) -> None:
        """Show another output.

        Raises:
            NotFoundError: there is no such output.
        """
        output = next((each for each in self._parts["diff"]["outputs"] if each["path"] == path), None)
        if output is None:
            raise NotFoundError(f"the comparison has no output {path!r}")
        self._parts["diff_shown"] = path
        widgets = dict(self._parts["widgets"])
        before = widgets.pop("histogram", None)
        if output["histogram"]:
            widgets["histogram"] = histogram(output)
        self._parts["widgets"] = widgets
        if path in self._names and self._parts["diff_slice"].get("path") != path:
            self._show_slice(wire.ShowDiffSlice(path=path))
        if before is not None:
            self._parts.flush()
            close_all(before)

    def _pick(self, at: int) -> None:
        """A point of the error curve was clicked: say what it is, and choose its node."""
        if not 0 <= at < len(self.points):
            return
        point = self.points[at]
        self._parts["diff_point"] = point_text(point)
        self._choose(point["graph"], point["node"])

    def _show_slice(self, request: wire.ShowDiffSlice) -> None:
        """Make another picture; it begins at the worst element of the output."""
        path = request.path
        worst = next((each.max_error_indices for each in self._record.outputs if plain(each.path) == path), None)
        picture = self._pairs.look(
            self._names.get(path, path),
            measure=request.measure,
            rows=request.rows,
            columns=request.columns,
            at=request.at or worst or (),
            window=request.window or (),
        )
        self._parts["diff_slice"] = {**picture, "path": path}

    def _pick_cell(self, request: wire.PickDiffCell) -> None:
        place = {"path": request.path, "row": request.row, "column": request.column}
        found = cell_place(self._record, request.path, request.row, request.column)
        if not found:
            self._parts["diff_place"] = {}
            raise NotFoundError(f"there is no such cell: row {request.row}, column {request.column} of {request.path}")
        self._parts["diff_place"] = {**place, **found}
