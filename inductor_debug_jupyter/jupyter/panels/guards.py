"""The Guards tab: compiles as a timeline, breaks, recompiles and open sizes, "what if", and the table of guards below.

The timeline is bqplot's, one bar a compile; a click on a bar selects what was compiled. It takes a while to load, so it
is made when the tab is opened for the first time. "What if" is answered by torch's own guards, in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import ipywidgets
import traitlets

from inductor_debug_jupyter.jupyter.panels.asset import Pane, asset
from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.views.guards import GuardsView
from inductor_debug_jupyter.pipeline.views.labels import label_of
from inductor_debug_jupyter.pipeline.views.recompiles import CompileBar

TAB = "guards"
_INK = {"fill": "var(--jp-ui-font-color1, #212121)", "font-size": "11px"}
_COLORS = {"first": "#0072b2", "resumed": "#56b4e9", "recompile": "#d55e00", "refused": "#999999"}
_WORDS = {"first": "first compile", "resumed": "after a break", "recompile": "recompile", "refused": "refused"}
_HEIGHT = 116
_LEAST_BARS = 2


class Asker(Protocol):
    """Who answers "what if": :class:`~inductor_debug_jupyter.pipeline.guards.changed_inputs.ChangedInputs`."""

    @property
    def functions(self) -> tuple[str, ...]: ...  # noqa: D102

    def inputs(self, function: str | None = None) -> dict[str, str]: ...  # noqa: D102

    def ask(  # noqa: D102
        self, changes: dict[str, str], *, function: str | None = None, grad: bool | None = None
    ) -> Any: ...


NO_GUARDS = GuardsView(
    summary="",
    rows=[],
    total=0,
    breaks=[],
    recompiles=[],
    storms=[],
    timeline=[],
    symbols=[],
    graphs={},
    hints={},
)
"""What the tab has before it is first looked at."""


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

    def __init__(self, view: GuardsView, asker: Asker | None = None, **traits: Any) -> None:
        super().__init__(view=dict(view), **traits)
        self._asker = asker
        if asker is not None and asker.functions:
            self._show_inputs(asker.functions[-1])
        self.observe(lambda change: self._on_asked(change["new"]), names="asked")

    def _show_inputs(self, function: str) -> None:
        assert self._asker is not None
        texts = self._asker.inputs(function)
        self.inputs = {"function": function, "functions": list(self._asker.functions), "texts": texts}

    def _on_asked(self, asked: dict[str, Any]) -> None:
        if self._asker is None or not asked:
            return
        try:
            if asked["function"] != self.inputs.get("function"):
                self._show_inputs(asked["function"])
            answer = self._asker.ask(asked["changes"], function=asked["function"], grad=asked["grad"])
            self.answer = _told(answer)
        except InductorDebugError as error:
            self.answer = {"error": plain(str(error))}
        except Exception as error:  # nobody sees an exception of a comm handler
            self.answer = {"error": f"{type(error).__name__}: {plain(str(error))}"}


def _told(answer: Any) -> dict[str, str]:
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
        self.layout.flex, self.layout.height, self.layout.min_width, self.layout.display = (
            "1 1 66%",
            "100%",
            "0",
            "none",
        )

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
        axes = [
            bqplot.Axis(scale=x_scale, grid_lines="none", tick_style=_INK, num_ticks=min(len(labels), 12)),
            bqplot.Axis(
                scale=y_scale, label="s", orientation="vertical", grid_lines="none", tick_style=_INK, num_ticks=3
            ),
        ]
        for axis in axes:
            axis.label_color = "var(--jp-ui-font-color2, #616161)"
        kinds = dict.fromkeys(bar["kind"] for bar in self._bars)
        figure = bqplot.Figure(
            marks=[bars],
            axes=axes,
            title=f"Compiles: {', '.join(_WORDS[kind] for kind in kinds)}",
            title_style={**_INK, "font-size": "12px"},
            background_style={"fill": "transparent"},
            fig_margin={"top": 22, "bottom": 26, "left": 52, "right": 12},
            padding_y=0,
        )
        figure.layout.height, figure.layout.width, figure.layout.flex = f"{_HEIGHT}px", "100%", "none"
        figure.layout.min_height = f"{_HEIGHT}px"
        return figure

    def _clicked(self, event: dict[str, Any]) -> None:
        at = int(event.get("data", {}).get("index", -1))
        if 0 <= at < len(self._bars):
            self._select(dict(self._bars[at]["selection"]))


def _label(bar: CompileBar) -> str:
    return f"{bar['compile_id']} · call {bar['call']}" if bar["call"] else bar["compile_id"]
