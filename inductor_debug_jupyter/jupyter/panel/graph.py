"""The middle pane: one graph.

The pane carries out what the user asks on a :class:`~inductor_debug_jupyter.pipeline.drawing.graph_view.GraphView` and
writes the result: another picture, other colours, what a search found, which shapes show the selection. A script that
calls the same view changes the pane too, because the pane listens to the view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphView, GraphViews
from inductor_debug_jupyter.pipeline.views.panel_parts import Parts
from inductor_debug_jupyter.pipeline.views.view_types import Selection


class GraphPane:
    """Writes ``graph``, ``graph_paint``, ``graph_found`` and ``graph_lit``.

    Args:
        parts: the panel's state.
        views: the state of each graph's picture, which outlives the pane.
        changed: called with a function that writes what a script changed in the view.
    """

    def __init__(self, parts: Parts, views: GraphViews, changed: Callable[[Callable[[], None]], None]) -> None:
        self._parts = parts
        self._views = views
        self._view: GraphView | None = None
        self._changed = changed
        self.leave = views.on_change(self._on_change)
        """Ends that it follows the views."""

    def answers(self) -> wire.Handlers:
        """The requests of the page that this pane answers, each with its handler."""
        return {
            wire.ShowGraph: lambda request: self.show(request.compile_id, request.stage),
            wire.GraphAction: self._do,
            wire.SearchGraph: lambda request: self._search(request.text),
        }

    @property
    def shown(self) -> tuple[str, str]:
        """Compile id and stage of the graph on show; empty when there is none."""
        return (self._view.compile_id, self._view.stage) if self._view else ("", "")

    def show(self, compile_id: str, stage: str) -> None:
        """Put that graph on show.

        Raises:
            NotFoundError: there is no such graph.
        """
        try:
            view = self._views.of(compile_id, stage)
            if view is not self._view:
                view.anchor = ""
            self._view = view
            self._send_picture()
        except Exception as error:
            answers = {"compile_id": compile_id, "stage": stage}
            note = f"{compile_id} {stage} could not be drawn: {error}"
            self._parts["graph"] = {**self._parts["graph"], "answers": answers, "note": note}
            raise

    def colour(self, by: str) -> None:
        """Colour the graph on show.

        Raises:
            UsageError: it does not offer that.
        """
        assert self._view is not None
        self._view.colour(by)

    def light(self, selection: dict[str, Any]) -> None:
        """Show what is chosen: its graph, if it names one, and its node, if that is hidden in a closed box."""
        key = (selection["compile_id"], selection["stage"])
        if key[1] and key != self.shown:
            self._views.of(*key).reveal(selection["node"])
            self.show(*key)
        elif self._view is not None:
            self._send_lit(selection)
            self._parts.flush()  # at once: a layout may take a moment
            if selection["node"] and not self._draws(selection["node"]):
                self._view.reveal(selection["node"])
        self._send_lit(selection)

    def _do(self, request: wire.GraphAction) -> None:
        """Open and close boxes, and colour.

        Raises:
            NotFoundError: there is no such box.
        """
        view = self._view
        if view is None:
            return
        actions: dict[str, Callable[[], object]] = {
            "expand": lambda: view.expand(request.box),
            "collapse": lambda: view.collapse(request.box),
            "expand_all": view.expand_all,
            "collapse_all": view.collapse_all,
            "colour": lambda: view.colour(request.by),
        }
        actions[request.do]()

    def _draws(self, name: str) -> bool:
        """Whether the node has a shape of its own (or its host's), not only that of a closed box."""
        assert self._view is not None
        drawing = self._view.drawing
        ids = drawing.drawn_as(name, self._view.drawn)
        return any(self._parts["graph"]["nodes"].get(each, {}).get("kind") != "group" for each in ids)

    def _on_change(self, view: GraphView) -> None:
        if view is self._view:
            self._changed(self._send_picture)

    def _send_picture(self) -> None:
        assert self._view is not None
        self._parts["graph"] = dict(self._view.picture())
        self._parts["graph_paint"] = dict(self._view.paint())
        self._send_lit(self._parts["selection"])
        if self._parts["graph_found"]["text"]:
            self._search(self._parts["graph_found"]["text"])

    def _send_lit(self, selection: dict[str, Any]) -> None:
        if self._view is not None:
            line = f"{selection['label']}:{selection['line']}"
            ids = self._view.lit(cast(Selection, selection)) if selection["node"] or selection["line"] else []
            self._parts["graph_lit"] = {"node": selection["node"], "line": line, "ids": ids}

    def _search(self, text: str) -> None:
        if self._view is not None:
            self._parts["graph_found"] = dict(self._view.search(text))
