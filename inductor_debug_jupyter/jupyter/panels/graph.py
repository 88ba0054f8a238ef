"""The middle pane: one graph.

The browser sets ``act``, an action of the user; the pane does it on a
:class:`~inductor_debug_jupyter.pipeline.drawing.graph_view.GraphView` and sends the result: another picture, other
colours, what a search found, which shapes show the selection. A script that calls the same view changes the pane too,
because the pane listens to the view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import traitlets

from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset
from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphView, GraphViews
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.views.view_types import Selection

_NO_PICTURE = {
    "compile_id": "", "stage": "", "svg": "", "nodes": {}, "frames": {}, "note": "", "anchor": "", "opened": 0,
    "closed": 0, "colours": [],
}  # fmt: skip
_NO_PAINT: dict[str, Any] = {"by": "nothing", "title": "", "legend": [], "of": {}}
_NO_FIND: dict[str, Any] = {"text": "", "count": 0, "names": [], "of": {}}


class GraphPanel(Pane):
    """Shows ``picture``; Python answers ``wanted`` and ``act``.

    ``picture``, ``paint`` and ``found`` are what a
    :class:`~inductor_debug_jupyter.pipeline.drawing.graph_view.GraphView` answers to ``picture``, ``paint`` and
    ``search``, ``choices`` the graphs with their titles. ``wanted`` is what the chooser was set to, ``act`` has ``do``
    (``expand``, ``collapse``, ``expand_all``, ``collapse_all``, ``colour``, ``search``, ``choose``) and what it needs.
    ``lit`` says which shapes show the selection that it names.
    """

    _esm = asset("graph.js")
    _css = asset("graph.css")
    choices = traitlets.List().tag(sync=True)
    wanted = traitlets.Dict(default_value={"compile_id": "", "stage": ""}).tag(sync=True)
    act = traitlets.Dict(default_value={}).tag(sync=True)
    picture = traitlets.Dict(default_value=_NO_PICTURE).tag(sync=True)
    paint = traitlets.Dict(default_value=_NO_PAINT).tag(sync=True)
    found = traitlets.Dict(default_value=_NO_FIND).tag(sync=True)
    lit = traitlets.Dict(default_value={"node": "", "line": "", "ids": []}).tag(sync=True)

    def __init__(self, views: GraphViews, **traits: Any) -> None:
        super().__init__(**traits)
        self._views = views
        self._view: GraphView | None = None
        self.leave = views.on_change(self._on_change)
        """Ends that it follows the views, which outlive it."""

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
            self.picture = {**self.picture, "answers": answers, "note": note}
            raise

    def light(self, selection: dict[str, Any]) -> None:
        """Show what is chosen: its graph, if it names one, and its node, if that is hidden in a closed box."""
        key = (selection["compile_id"], selection["stage"])
        if key[1] and key != self.shown:
            self._views.of(*key).reveal(selection["node"])
            self.show(*key)
        elif self._view is not None:
            self._send_lit(selection)  # at once: a layout may take a moment
            if selection["node"] and not self._draws(selection["node"]):
                self._view.reveal(selection["node"])
        self._send_lit(selection)

    def do(self, act: dict[str, Any]) -> None:
        """Do an action of the user in the browser.

        Raises:
            UsageError: it is nothing that can be done.
            NotFoundError: it is done to a box that is not there.
        """
        view = self._view
        if view is None or not act:
            return
        actions: dict[str, Callable[[], object]] = {
            "expand": lambda: view.expand(act["box"]),
            "collapse": lambda: view.collapse(act["box"]),
            "expand_all": view.expand_all,
            "collapse_all": view.collapse_all,
            "colour": lambda: view.colour(act["by"]),
            "search": lambda: self._search(act["text"]),
        }
        if act["do"] not in actions:
            raise UsageError(f"the graph cannot {act['do']!r}; allowed: {', '.join(actions)}")
        actions[act["do"]]()

    def _draws(self, name: str) -> bool:
        """Whether the node has a shape of its own (or its host's), not only that of a closed box."""
        assert self._view is not None
        drawing = self._view.drawing
        ids = drawing.drawn_as(name, self._view.drawn)
        return any(self.picture["nodes"].get(each, {}).get("kind") != "group" for each in ids)

    def _on_change(self, view: GraphView) -> None:
        if view is self._view:
            self._send_picture()

    def _send_picture(self) -> None:
        assert self._view is not None
        picture = self._view.picture()
        with self.hold_sync():
            self.picture = dict(picture)
            self.paint = dict(self._view.paint())
            self._send_lit(self.selection)
            if self.found["text"]:
                self._search(self.found["text"])

    def _send_lit(self, selection: dict[str, Any]) -> None:
        if self._view is not None:
            line = f"{selection['label']}:{selection['line']}"
            ids = self._view.lit(cast(Selection, selection)) if selection["node"] or selection["line"] else []
            self.lit = {"node": selection["node"], "line": line, "ids": ids}

    def _search(self, text: str) -> None:
        assert self._view is not None
        self.found = dict(self._view.search(text))
