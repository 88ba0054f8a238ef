"""The Guards tab: a timeline of compiles, breaks, recompiles, symbolic sizes, "what if", and the table of guards.

The timeline is bqplot's, one bar a compile; a click on a bar selects what was compiled. It takes a while to load, so it
is made when the tab is opened for the first time. "What if" is answered by torch's own guards, in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import ipywidgets
import traitlets

from inductor_debug_jupyter.jupyter.panels.charts import INK, axis, figure
from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset, error_text
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.views.guards import GuardsView
from inductor_debug_jupyter.pipeline.views.labels import label_of
from inductor_debug_jupyter.pipeline.views.recompiles import CompileBar

TAB = "guards"
_COLORS = {"first": "#0072b2", "resumed": "#56b4e9", "recompile": "#d55e00", "refused": "#999999"}
_WORDS = {"first": "first compile", "resumed": "after a break", "recompile": "recompile", "refused": "refused"}
_HEIGHT = 116
_LEAST_BARS = 2


class GuardQueries(Protocol):
    """Evaluates guards: :class:`~inductor_debug_jupyter.pipeline.guards.would_recompile.ChangedInputs`."""

    @property
    def functions(self) -> tuple[str, ...]: ...  # noqa: D102

    def inputs(self, function: str | None = None) -> dict[str, str]: ...  # noqa: D102

    def ask(  # noqa: D102
        self, changes: dict[str, str], *, function: str | None = None, grad: bool | None = None
    ) -> Any: ...


NO_GUARDS = GuardsView(
    summary="", rows=[], total=0, breaks=[], recompiles=[], storms=[], timeline=[], symbols=[], graphs={}, hints={}
)
"""The tab's view until it is first opened."""


class GuardsPanel(Pane):
    """``view`` is a :class:`~inductor_debug_jupyter.pipeline.views.guards.GuardsView`.

    ``inputs`` are those of the call that may be changed; the browser sets ``asked``, Python ``answer``.
    """

    _esm = asset("guards.js")
    _css = asset("guards.css")
    view = traitlets.Dict(default_value=NO_GUARDS).tag(sync=True)
    inputs = traitlets.Dict().tag(sync=True)
    asked = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)

    def __init__(self, view: GuardsView, queries: GuardQueries | None = None, **traits: Any) -> None:
        super().__init__(view=dict(view), **traits)
        self._queries = queries
        if queries is not None and queries.functions:
            self._show_inputs(queries.functions[-1])
        self.observe(lambda change: self._on_asked(change["new"]), names="asked")

    def _show_inputs(self, function: str) -> None:
        assert self._queries is not None
        texts = self._queries.inputs(function)
        self.inputs = {"function": function, "functions": list(self._queries.functions), "texts": texts}

    def _on_asked(self, request: dict[str, Any]) -> None:
        if self._queries is None or not request:
            return
        try:
            if request["function"] != self.inputs.get("function"):
                self._show_inputs(request["function"])
            answer = self._queries.ask(request["changes"], function=request["function"], grad=request["grad"])
            self.answer = _answer_view(answer)
        except Exception as error:
            self.answer = {"error": error_text(error)}


def _answer_view(answer: Any) -> dict[str, str]:
    line = answer.source
    return {
        "answer": answer.answer,
        "reason": plain(answer.reason),
        "check": plain(answer.check),
        "hint": plain(answer.hint),
        "where": f"{plain(label_of(line))}, line {line.line}" if line else "",
        "code": plain(line.text.strip()) if line else "",
    }


class GuardsTab(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no type information
    """The timeline above the pane.

    Args:
        pane: the tables.
        bars: every compile, in order.
        select: called with the selection of a bar that is clicked.
    """

    def __init__(self, pane: GuardsPanel, bars: list[CompileBar], select: Callable[[Any], None]) -> None:
        self._pane, self._bars, self._select = pane, bars, select
        self._drawn = False
        super().__init__(children=[pane])
        self.add_class("idj-guards-tab")
        self.layout.flex, self.layout.height = "1 1 66%", "100%"
        self.layout.min_width, self.layout.display = "0", "none"

    def fill(self, view: GuardsView) -> None:
        """Give the pane its tables, and the timeline its bars."""
        self._pane.view, self._bars = dict(view), view["timeline"]

    def enter(self) -> None:
        """Show the tab; the first time, draw."""
        self.layout.display = "flex"
        if not self._drawn and len(self._bars) >= _LEAST_BARS:
            self._drawn = True
            self.children = [self._figure(), self._pane]

    def leave(self) -> None:
        """Hide the tab."""
        self.layout.display = "none"

    def _figure(self) -> Any:
        import bqplot

        x_scale, y_scale = bqplot.OrdinalScale(), bqplot.LinearScale(min=0)
        labels = [_label(bar) for bar in self._bars]
        bars = bqplot.Bars(
            x=labels,
            y=[bar["seconds"] for bar in self._bars],
            scales={"x": x_scale, "y": y_scale},
            colors=[_COLORS[bar["kind"]] for bar in self._bars],
            padding=0.3,
            tooltip=bqplot.Tooltip(fields=["x", "y"], labels=["compile", "seconds"], formats=["", ".3f"]),
        )
        bars.on_element_click(lambda _, event: self._clicked(event))
        kinds = dict.fromkeys(bar["kind"] for bar in self._bars)
        drawn = figure(
            [bars],
            [axis(x_scale, num_ticks=min(len(labels), 12)), axis(y_scale, "s", orientation="vertical", num_ticks=3)],
            height=_HEIGHT,
            margin=(22, 12, 26, 52),
            title=f"Compiles: {', '.join(_WORDS[kind] for kind in kinds)}",
            title_style={**INK, "font-size": "12px"},
            padding_y=0,
        )
        drawn.layout.flex, drawn.layout.min_height = "none", f"{_HEIGHT}px"
        return drawn

    def _clicked(self, event: dict[str, Any]) -> None:
        at = int(event.get("data", {}).get("index", -1))
        if 0 <= at < len(self._bars):
            self._select(dict(self._bars[at]["selection"]))


def _label(bar: CompileBar) -> str:
    return f"{bar['compile_id']} · call {bar['call']}" if bar["call"] else bar["compile_id"]
