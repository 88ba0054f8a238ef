"""The Guards tab: a timeline of compiles, breaks, recompiles, symbolic sizes, "what if", and the table of guards.

The timeline is bqplot's, one bar a compile; a click on a bar selects what was compiled. It takes a while to load, so it
is made when the tab is opened for the first time. "What if" is answered by torch's own guards, in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.jupyter.panel.charts import INK, axis, figure
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.views.guards import guards_view
from inductor_debug_jupyter.pipeline.views.labels import label_of
from inductor_debug_jupyter.pipeline.views.panel_parts import Parts
from inductor_debug_jupyter.pipeline.views.recompiles import CompileBar

TAB = "guards"
_COLORS = {"first": "#0072b2", "resumed": "#56b4e9", "recompile": "#d55e00", "refused": "#999999"}
_WORDS = {"first": "first compile", "resumed": "after a break", "recompile": "recompile", "refused": "refused"}
_SIGNS = {"first": "", "resumed": "✂ ", "recompile": "↻ ", "refused": "✗ "}
"""Before the bar's name, so that colour alone says nothing."""
_HEIGHT = 116
_WITH_CALL = 4
"""The labels of so many bars have room for the number of the call in a narrow window."""
_LEAST_BARS = 2


class GuardQueries(Protocol):
    """Evaluates guards: :class:`~inductor_debug_jupyter.pipeline.guards.would_recompile.ChangedInputs`."""

    @property
    def functions(self) -> tuple[str, ...]: ...  # noqa: D102

    def inputs(self, function: str | None = None) -> dict[str, str]: ...  # noqa: D102

    def ask(  # noqa: D102
        self, changes: dict[str, str], *, function: str | None = None, grad: bool | None = None
    ) -> Any: ...


class GuardsPane:
    """Writes ``guards`` and the timeline when the tab is first opened, and answers "would it recompile?".

    Args:
        parts: the panel's state.
        record: the session to show.
        queries: evaluates guards on other inputs; None when the session is not live.
        select: called with the selection of a bar of the timeline that is clicked.
    """

    def __init__(
        self, parts: Parts, record: SessionRecord, queries: GuardQueries | None, select: Callable[[Any], None]
    ) -> None:
        self._parts, self._record, self._queries, self._select = parts, record, queries, select
        self._bars: list[CompileBar] = []
        if queries is not None and queries.functions:
            self._show_inputs(queries.functions[-1])

    def answers(self) -> wire.Handlers:
        """The requests of the page that this pane answers, each with its handler."""
        return {wire.WouldRecompile: self._would_recompile}

    def fill(self) -> None:
        """Write the tables, and draw the timeline."""
        view = guards_view(self._record)
        self._parts["guards"], self._bars = dict(view), view["timeline"]
        if len(self._bars) >= _LEAST_BARS:
            self._parts["widgets"] = {**self._parts["widgets"], "timeline": self._figure()}

    def _show_inputs(self, function: str) -> None:
        assert self._queries is not None
        texts = self._queries.inputs(function)
        self._parts["guard_inputs"] = {
            "function": function,
            "functions": list(self._queries.functions),
            "texts": texts,
        }

    def _would_recompile(self, request: wire.WouldRecompile) -> None:
        if self._queries is None:
            raise UsageError("this session was loaded from a file: there are no guards to ask")
        self._parts["guard_answer"] = {}
        if request.function != self._parts["guard_inputs"].get("function"):
            self._show_inputs(request.function)
        answer = self._queries.ask(request.changes, function=request.function, grad=request.grad)
        self._parts["guard_answer"] = _answer_view(answer)

    def _figure(self) -> Any:
        import bqplot

        longest = max(bar["seconds"] for bar in self._bars)
        x_scale, y_scale = bqplot.OrdinalScale(), bqplot.LinearScale(min=0, max=1.3 * (longest or 1.0))  # for the title
        labels = [_label(bar, with_call=len(self._bars) <= _WITH_CALL) for bar in self._bars]
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
        return figure(
            [bars],
            [axis(x_scale, num_ticks=min(len(labels), 12)), axis(y_scale, "s", orientation="vertical", num_ticks=3)],
            height=_HEIGHT,
            margin=(22, 12, 26, 52),
            title=f"Compiles: {', '.join(_SIGNS[kind] + _WORDS[kind] for kind in kinds)}",
            title_style={**INK, "font-size": "12px"},
            padding_y=0,
        )

    def _clicked(self, event: dict[str, Any]) -> None:
        at = int(event.get("data", {}).get("index", -1))
        if 0 <= at < len(self._bars):
            self._select(dict(self._bars[at]["selection"]))


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


def _label(bar: CompileBar, *, with_call: bool) -> str:
    call = f" · call {bar['call']}" if bar["call"] and with_call else ""
    return f"{_SIGNS[bar['kind']]}{bar['compile_id']}{call}"
