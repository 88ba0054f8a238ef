"""The whole panel: header, tabs, and three panes with one selection.

Where a click goes: the pane that was clicked sets its ``selection``; links that live in the browser set it on all
other panes, which light up at once; the header's copy tells Python. Python then does what only Python can: it lays
out the graph that the selection stands in, if another one is on show, fetches the node's raw detail, and calls
``on_select``. It never answers with a selection, so there is nothing to run in circles.

Whatever goes wrong in a callback is shown in the header's error strip. Callbacks may come on another thread
(ipykernel 7.3 runs them while a cell is busy), so a lock keeps them one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, cast

import ipywidgets
import traitlets
from IPython.display import HTML, display

from inductor_debug_jupyter.jupyter.panels.asset import Pane
from inductor_debug_jupyter.jupyter.panels.code import CodePanel
from inductor_debug_jupyter.jupyter.panels.detail import NO_NODE, DetailPanel
from inductor_debug_jupyter.jupyter.panels.findings import FindingsPanel
from inductor_debug_jupyter.jupyter.panels.graph import GraphPanel
from inductor_debug_jupyter.jupyter.panels.guards import Asker, GuardsPanel, GuardsTab
from inductor_debug_jupyter.jupyter.panels.header import HeaderBar
from inductor_debug_jupyter.jupyter.panels.kernel_diff import KernelDiffPanel
from inductor_debug_jupyter.jupyter.panels.memory import AlivePanel, MemoryTab
from inductor_debug_jupyter.jupyter.panels.overview import OverviewPanel
from inductor_debug_jupyter.jupyter.panels.placement import PlacementPanel
from inductor_debug_jupyter.pipeline.records import BACKWARD, SessionRecord
from inductor_debug_jupyter.pipeline.views.code import document_view, documents_view, node_list_view
from inductor_debug_jupyter.pipeline.views.guards import guards_view
from inductor_debug_jupyter.pipeline.views.panel import (
    findings_view,
    header_view,
    node_view,
    overview_view,
    source_view,
)
from inductor_debug_jupyter.pipeline.views.picture import picture_view
from inductor_debug_jupyter.pipeline.views.placement import placement_views
from inductor_debug_jupyter.pipeline.views.places import Lookup, nothing
from inductor_debug_jupyter.pipeline.views.shapes import PictureView, Selection
from inductor_debug_jupyter.pipeline.views.snapshot import snapshot_html
from inductor_debug_jupyter.pipeline.views.text import session_text

SelectCallback = Callable[[dict[str, Any]], None]
PLACES_SENT = 200
"""So many places of a finding go to the browser; the count says how many there are."""


class DebugPanel(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no type information
    """What appears under the cell.

    Args:
        record: the session to show.
        on_select: called with the new selection whenever it changes, by a click or by :meth:`select`.
        what_if: who answers whether other inputs would recompile; a session that was loaded has nobody.
    """

    selection = traitlets.Dict(default_value=nothing())
    """What is chosen: ``finding, compile_id, stage, node, label, line``. Read it; set it with :meth:`select`."""

    def __init__(
        self, record: SessionRecord, *, on_select: SelectCallback | None = None, what_if: Asker | None = None
    ) -> None:
        self.record = record
        self.on_select = on_select
        self._lookup = Lookup(record)
        self._pictures: dict[tuple[str, str, tuple[str, ...]], PictureView] = {}
        self._lock = RLock()
        self._make_panes(what_if)
        super().__init__(children=[self.header, self._body])
        self.add_class("idj-frame")
        self._links = [
            ipywidgets.jslink((self.header, trait), (pane, trait))
            for pane in self._panes[1:]
            for trait in ("selection", "tab")
        ]
        if self._lookup.ordered:
            self._assign(self._lookup.of_finding(self._lookup.ordered[0][0]))
        if self.header.tab in ("findings", "graph"):
            self._guarded(self._prepare)
        if self.header.tab == "guards":
            self._guarded(self.guards_tab.enter)
        self.header.observe(self._on_selection, names="selection")
        self.header.observe(self._on_tab, names="tab")
        self.graph.observe(self._on_wanted, names="wanted")
        if self.has_code:
            self.code.observe(self._on_code_wanted, names="wanted")

    def _make_panes(self, what_if: Asker | None) -> None:
        header = header_view(self.record)
        rows = findings_view(self.record, self._lookup, max_places=PLACES_SENT)
        sources = source_view(self.record, self._lookup)
        tab, there = header["tab"], {each["id"] for each in header["tabs"]}
        explained = ["findings", "graph", "guards", "placement"]
        self.header = HeaderBar(view=header, tab=tab)
        self.overview = OverviewPanel(view=overview_view(self.record, self._lookup), tab=tab, tabs=["overview"])
        self.findings = FindingsPanel(rows=rows, tab=tab, tabs=["findings"])
        self.graph = GraphPanel(choices=self._lookup.choices, tab=tab, tabs=["findings", "graph"])
        guards = guards_view(self.record)
        self.guards = GuardsPanel(guards, what_if, tab=tab, tabs=["guards"])
        self.guards_tab = GuardsTab(self.guards, guards["timeline"], self.follow)
        self.detail = DetailPanel(sources=sources, rows=rows, tab=tab, tabs=explained)
        self._panes: list[Pane] = [self.header, self.overview, self.findings, self.graph, self.guards]
        if "placement" in there:
            views = placement_views(self.record.coverage, self._lookup)
            self._panes.append(PlacementPanel(graphs=views, tab=tab, tabs=["placement"]))
        self._panes.append(self.detail)
        if "code" in there:
            self.code = CodePanel(sources=sources, choices=self._lookup.choices, tab=tab, tabs=["code"])
            self._panes.append(self.code)
        if self.record.diff is not None:
            self.kernel_diff = KernelDiffPanel(self.record.diff, tab=tab)
            self._panes.append(self.kernel_diff)
        children: list[Any] = [self.guards_tab if pane is self.guards else pane for pane in self._panes[1:]]
        self.memory: MemoryTab | None = None
        if "memory" in there:
            alive = AlivePanel(tab=tab, tabs=["memory"])
            self.memory = MemoryTab(self._lookup, alive)
            self._panes.append(alive)
            children += [self.memory, alive]
        self._body = ipywidgets.HBox(children=children)
        self._body.add_class("idj-body")

    def show(self) -> None:
        """Display the panel and, as an output of its own, the snapshot that stays when there is no kernel."""
        display(self)
        display(HTML(snapshot_html(self.record)))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The widget and, for whoever has no widgets, what it says."""
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        return {**bundle, "text/plain": session_text(self.record)}

    def select(
        self,
        *,
        finding: int | None = None,
        node: str | None = None,
        line: int | None = None,
        label: str = "",
    ) -> dict[str, Any]:
        """Choose a finding (its index in ``record.findings``), a node by name, or a source line; answers the selection.

        Raises:
            UsageError: not exactly one of the three was given.
            NotFoundError: there is no such finding, node or line.
        """
        shown = (self.graph.picture["compile_id"], self.graph.picture["stage"])
        chosen = self._lookup.find(finding=finding, node=node, line=line, label=label, near=shown)
        self._assign(chosen)
        return dict(chosen)

    def follow(self, selection: dict[str, Any]) -> None:
        """Take over a whole selection that was made elsewhere (by the session, or in another panel of it).

        What the panel has already is not sent again: by now the user may have clicked on something newer.
        """
        if selection != self.selection:
            self._assign(cast(Selection, {**nothing(), **selection}))

    def _assign(self, chosen: Selection) -> None:
        """Set the selection everywhere. The browser would do it too, but there may be none."""
        for pane in self._panes:
            pane.selection = dict(chosen)
        self.selection = dict(chosen)

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run it; what it raises goes to the error strip, because nobody sees an exception of a comm handler."""
        try:
            with self._lock:
                action()
        except Exception as error:
            self.header.error = f"{type(error).__name__}: {error}"

    def _on_selection(self, change: dict[str, Any]) -> None:
        self._guarded(lambda: self._answer(change["new"]))

    def _on_tab(self, change: dict[str, Any]) -> None:
        if change["new"] in ("findings", "graph", "guards"):
            self._guarded(self._prepare)
        elif change["new"] == "code":
            self._guarded(lambda: self._show_code(self.header.selection))
        self._guarded(self.guards_tab.enter if change["new"] == "guards" else self.guards_tab.leave)
        if self.memory is not None:
            self._guarded(self.memory.enter if change["new"] == "memory" else self.memory.leave)

    def _on_wanted(self, change: dict[str, Any]) -> None:
        wanted = change["new"]
        self._guarded(lambda: self._show_graph(wanted["compile_id"], wanted["stage"], wanted.get("inside", "")))

    def _answer(self, chosen: dict[str, Any]) -> None:
        self.selection = dict(chosen)
        self._show_node(chosen)
        key = (chosen["compile_id"], chosen["stage"])
        if key in self._lookup.graphs and not (self._shows(*key) and self._draws(chosen["node"])):
            self._show_graph(chosen["compile_id"], chosen["stage"])
        if self.header.tab == "code":
            self._show_code(chosen)
        if self.on_select is not None:
            self.on_select(dict(chosen))

    @property
    def has_code(self) -> bool:
        """Whether there is a Code tab."""
        return hasattr(self, "code")

    def _on_code_wanted(self, change: dict[str, Any]) -> None:
        wanted = change["new"]
        if "document" in wanted:
            self._guarded(lambda: self._show_document(wanted["document"]))
        else:
            self._guarded(lambda: self._show_nodes(wanted["compile_id"], wanted["stage"]))

    def _show_code(self, chosen: dict[str, Any]) -> None:
        """The graph and the document that the selection stands in; without one, what is on show stays."""
        if not self.has_code:
            return
        if not self.code.documents:
            self.code.documents = list(documents_view(self.record))
        key = (chosen["compile_id"], chosen["stage"])
        if key in self._lookup.graphs or not self.code.nodes["rows"]:
            self._show_nodes(*(key if key in self._lookup.graphs else self._lookup.first_graph or ("", "")))
        if (document := self._document_of(chosen)) is not None:
            self._show_document(document)
        if chosen.get("kernel"):
            self._show_nodes_of(chosen["kernel"])

    def _document_of(self, chosen: dict[str, Any]) -> str | None:
        """The chosen kernel, or the first that the chosen node or line went into; at first, any."""
        if chosen.get("kernel"):
            return str(chosen["kernel"])
        line = f"{chosen['label']}:{chosen['line']}"
        for row in self.code.nodes["rows"]:
            if row["documents"] and (row["name"] == chosen["node"] or (not chosen["node"] and row["line"] == line)):
                return str(row["documents"][0])
        return None if self.code.document["id"] else next((each["id"] for each in self.code.documents), None)

    def _show_nodes(self, compile_id: str, stage: str) -> None:
        shown = self.code.nodes
        if (shown["compile_id"], shown["stage"]) != (compile_id, stage):
            self.code.nodes = dict(node_list_view(self._lookup, compile_id, stage))

    def _show_nodes_of(self, kernel: str) -> None:
        """Put a graph on show that has the kernel's nodes, unless the one on show does."""
        entry = next((each for each in self.code.documents if each["id"] == kernel), None)
        if entry is None or any(kernel in row["documents"] for row in self.code.nodes["rows"]):
            return
        stage = f"post_grad{BACKWARD}" if entry["backward"] else "post_grad"
        if (entry["compile_id"], stage) in self._lookup.graphs:
            self._show_nodes(entry["compile_id"], stage)

    def _show_document(self, document: str) -> None:
        if self.code.document["id"] != document:
            self.code.document = dict(document_view(self.record, document))

    def _prepare(self) -> None:
        """The first picture and the first detail, when a tab that shows them is opened for the first time."""
        self._show_node(self.header.selection)
        if not self.graph.picture["svg"] and self._lookup.first_graph is not None:
            self._show_graph(*self._lookup.first_graph)

    def _show_node(self, chosen: dict[str, Any]) -> None:
        found = node_view(self._lookup, chosen["compile_id"], chosen["stage"], chosen["node"])
        self.detail.node = dict(found) if found else NO_NODE

    def _shows(self, compile_id: str, stage: str) -> bool:
        return bool(self.graph.picture["compile_id"] == compile_id and self.graph.picture["stage"] == stage)

    def _draws(self, name: str) -> bool:
        """Whether the picture on show has that node; when a group is open, it may not."""
        return not name or any(name in drawn["names"] for drawn in self.graph.picture["nodes"].values())

    def _show_graph(self, compile_id: str, stage: str, inside: str = "") -> None:
        """Put that graph on show, or only the group in it that the node ``inside`` is drawn as."""
        try:
            names = self._group_of(inside) if inside and self._shows(compile_id, stage) else ()
            key = (compile_id, stage, names)
            if key not in self._pictures:
                self._pictures[key] = picture_view(self._lookup, compile_id, stage, inside=names)
        except Exception as error:
            answers = {"compile_id": compile_id, "stage": stage}
            note = f"{compile_id} {stage} could not be drawn: {error}"
            self.graph.picture = {**self.graph.picture, "answers": answers, "note": note}
            raise
        self.graph.picture = dict(self._pictures[key])

    def _group_of(self, name: str) -> tuple[str, ...]:
        groups = [drawn["names"] for drawn in self.graph.picture["nodes"].values() if drawn["kind"] == "group"]
        return next((tuple(names) for names in groups if name in names), ())
