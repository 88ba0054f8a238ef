"""The whole panel: header, tabs, and three panes with one selection.

A click: the pane that was clicked sets its ``selection``; links in the browser set it on all other panes, which
highlight it at once; Python observes the header's copy. Python then lays out the graph of the selection, if another one
is on show, fetches the node's raw detail, and calls ``on_select``. It never sets a selection in response, so there is
no cycle.

What a tab shows is made when it is first opened (``_late``), and a source file is sent when something on it is chosen:
of a large model both are megabytes that most users never open.

Whatever goes wrong in a callback is shown in the header's error strip. Callbacks may come on another thread
(ipykernel 7.3 runs them while a cell is busy), so a lock keeps them one after the other.

A panel that is closed (its cell ran again, or the front end closed it) closes all its widgets and drops its references
to the session: IPython's ``Out`` may hold the empty panel for as long as the kernel lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any, cast

import ipywidgets
import traitlets
from IPython.display import display

from inductor_debug_jupyter.jupyter.panel_registry import panels
from inductor_debug_jupyter.jupyter.panels.code import CodePanel
from inductor_debug_jupyter.jupyter.panels.detail import NO_NODE, DetailPanel
from inductor_debug_jupyter.jupyter.panels.diff_charts import DiffCharts
from inductor_debug_jupyter.jupyter.panels.findings import FindingsPanel
from inductor_debug_jupyter.jupyter.panels.fixes import FixController, FixesPanel
from inductor_debug_jupyter.jupyter.panels.graph import GraphPanel
from inductor_debug_jupyter.jupyter.panels.guards import NO_GUARDS, GuardsPanel, GuardsTab
from inductor_debug_jupyter.jupyter.panels.header import HeaderBar
from inductor_debug_jupyter.jupyter.panels.kernel_diff import KernelDiffPanel
from inductor_debug_jupyter.jupyter.panels.live_parts import NOT_LIVE, LiveParts
from inductor_debug_jupyter.jupyter.panels.memory import AlivePanel, MemoryTab
from inductor_debug_jupyter.jupyter.panels.overview import OverviewPanel
from inductor_debug_jupyter.jupyter.panels.pane import Pane
from inductor_debug_jupyter.jupyter.panels.placement import PlacementPanel
from inductor_debug_jupyter.jupyter.panels.transfers import ROWS_SENT, TransfersPanel
from inductor_debug_jupyter.jupyter.panels.what_if import TAB as WHAT_IF
from inductor_debug_jupyter.jupyter.panels.what_if import WhatIfPanel
from inductor_debug_jupyter.jupyter.panels.widget_closing import close_all
from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphViews
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.records import BACKWARD, SessionRecord
from inductor_debug_jupyter.pipeline.reports.snapshot import Snapshot
from inductor_debug_jupyter.pipeline.views.guards import guards_view
from inductor_debug_jupyter.pipeline.views.localization import without_outputs
from inductor_debug_jupyter.pipeline.views.overview import overview_view
from inductor_debug_jupyter.pipeline.views.panel import (
    findings_view,
    header_view,
    node_view,
    source_view,
)
from inductor_debug_jupyter.pipeline.views.placement import placement_views
from inductor_debug_jupyter.pipeline.views.places import Lookup, nothing
from inductor_debug_jupyter.pipeline.views.short_text import short_text
from inductor_debug_jupyter.pipeline.views.transfers import transfers_view
from inductor_debug_jupyter.pipeline.views.view_types import Selection, TabView

PLACES_SENT = 200
"""The most places of a finding that go to the browser; the finding's count has all of them."""

GONE = "this panel is gone: its cell ran again, or it was closed; session.panel() makes a new one"

_OF_SESSION = frozenset(
    (
        "record",
        "on_select",
        "_live",
        "_lookup",
        "_views",
        "_late",
        "_panes",
        "_links",
        "_unlisten",
        "_form",
        "_snapshot",
    )
)
"""Attributes of a panel through which it holds a session."""


class DebugPanel(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no type information
    """What appears under the cell.

    Args:
        record: the session to show.
        live: what a living session has besides its record.
    """

    selection = traitlets.Dict(default_value=nothing())
    """What is chosen: ``finding, compile_id, stage, node, label, line``. Read it; set it with :meth:`select`."""
    has_code = False
    """Whether there is a Code tab."""
    header: HeaderBar
    graph: GraphPanel
    _body: Any

    def __init__(self, record: SessionRecord, live: LiveParts = NOT_LIVE) -> None:
        self._lock = RLock()
        self._panes: list[Pane] = []
        self._links: list[Any] = []
        self._form: Any = None
        self._snapshot: Any = None
        self._unlisten: list[Callable[[], None]] = []
        super().__init__()
        self.add_class("idj-frame")
        self.load(record, live)
        if self.comm is not None:
            self.comm.on_close(lambda _: self.close())

    @property
    def is_closed(self) -> bool:
        """Whether it is gone from the page."""
        return "record" not in vars(self)

    def close(self) -> None:
        """Close it with all its widgets, and let go of the session. Safe to call twice."""
        if self.is_closed:
            return
        panels.gone(self)
        self._stop_listening()
        self.graph.leave()
        close_all(self)
        self.children: Sequence[Any] = []
        for name, value in list(vars(self).items()):
            if name in _OF_SESSION or isinstance(value, ipywidgets.Widget):
                delattr(self, name)

    def __repr__(self) -> str:
        return GONE if self.is_closed else str(super().__repr__())

    def load(
        self, record: SessionRecord, live: LiveParts = NOT_LIVE, *, tab: str = "", chosen: Selection | None = None
    ) -> None:
        """Show another record in this one's place, and in its snapshot's: on ``tab``, or where the worst news are."""
        before = [*self._links, *self._panes, *(self._laid_out() if self._panes else [])]
        if self._panes:
            self.graph.leave()
        self.record = record
        self._live = live
        self.on_select = live.on_select
        self._lookup = Lookup(record)
        self._views = live.views or GraphViews(record, lookup=self._lookup)
        self._make_panes(live, tab)
        self.fixes = self._fixes_pane(live.fixes)
        self._lay_out()
        self._connect(chosen)
        close_all(*before)
        if self._snapshot is not None:
            self._snapshot.update(Snapshot(record))

    def _lay_out(self) -> None:
        form = [] if self._form is None else [self._form]
        self.children = [self.header, *form, *self._laid_out()]

    def _laid_out(self) -> list[Any]:
        """The widgets below the header and the form."""
        above = [] if self.fixes is None else [self.fixes]
        return [*above, self._body, *([] if self.charts is None else [self.charts])]

    def _fixes_pane(self, desk: FixController | None) -> FixesPanel | None:
        """The strip of fix-its, where there is something to fix or to take back, and a model to run."""
        refused = any(finding.severity != "info" for finding in self.record.findings)
        if desk is None or not (desk.can_run and (refused or desk.in_force)):
            return None
        tabs = [each["id"] for each in self.header.view["tabs"]]  # all of them: the page must not jump
        pane = FixesPanel(desk, tab=self.header.tab, tabs=tabs)
        self._panes.append(pane)
        return pane

    def _connect(self, chosen: Selection | None) -> None:
        """Link the panes with each other, choose the worst finding unless something is chosen, and listen."""
        self._links = [
            ipywidgets.jslink((self.header, trait), (pane, trait))
            for pane in self._panes[1:]
            for trait in ("selection", "tab")
        ]
        ordered = self._lookup.ordered
        self._assign(chosen or (self._lookup.of_finding(ordered[0][0]) if ordered else nothing()))
        self._open_tab(self.header.tab)
        self.header.observe(self._on_selection, names="selection")
        self.header.observe(self._on_tab, names="tab")
        self.header.observe(self._on_asked, names="asked")
        self.graph.observe(self._on_wanted, names="wanted")
        self.graph.observe(self._on_act, names="act")
        if self.has_code:
            self.code.observe(self._on_code_wanted, names="wanted")

    def _make_panes(self, live: LiveParts, wanted: str) -> None:
        header = header_view(self.record)
        if live.trier is not None and self.record.captures:
            header["tabs"].append(TabView(id=WHAT_IF, title="What if", badge="", kind=""))
        rows = findings_view(self.record, self._lookup, max_places=PLACES_SENT)
        cells = [label for label in self.record.sources if label.startswith("In [")] or [*self.record.sources][:1]
        sources = source_view(self.record, self._lookup, cells)
        there = {each["id"] for each in header["tabs"]}
        tab = wanted if wanted in there else header["tab"]
        explained = ["findings", "graph", "guards", "placement", "transfers"]
        self.header = HeaderBar(view=header, tab=tab)
        self.overview = OverviewPanel(view=overview_view(self.record, self._lookup), tab=tab, tabs=["overview"])
        self.findings = FindingsPanel(rows=rows, tab=tab, tabs=["findings"])
        self.graph = GraphPanel(self._views, choices=self._lookup.choices, tab=tab, tabs=["findings", "graph"])
        self.guards = GuardsPanel(NO_GUARDS, live.what_if, tab=tab, tabs=["guards"])
        self.guards_tab = GuardsTab(self.guards, [], self.follow)
        self._late: dict[str, Callable[[], None]] = {"guards": lambda: self.guards_tab.fill(guards_view(self.record))}
        self.detail = DetailPanel(live.binder, sources=sources, rows=rows, tab=tab, tabs=explained)
        self._panes = [self.header, self.overview, self.findings, self.graph, self.guards]
        self._panes += [*self._device_panes(tab, there), self.detail, *self._trying_panes(tab, there)]
        self._make_diff_pane(tab)
        children: list[Any] = [self.guards_tab if pane is self.guards else pane for pane in self._panes[1:]]
        self.memory: MemoryTab | None = None
        if "memory" in there:
            alive = AlivePanel(tab=tab, tabs=["memory"])
            self.memory = MemoryTab(self._lookup, alive)
            self._panes.append(alive)
            children += [self.memory, alive]
        self._body = ipywidgets.HBox(children=children)
        self._body.add_class("idj-body")

    def _device_panes(self, tab: str, there: set[str]) -> Iterator[Pane]:
        """The Placement and Transfers tabs, if the session has such data."""
        if "placement" in there:
            placement = PlacementPanel(tab=tab, tabs=["placement"])
            self._late["placement"] = lambda: placement.set_trait(
                "graphs", placement_views(self.record.coverage, self._lookup)
            )
            yield placement
        if "transfers" in there:
            transfers = TransfersPanel(tab=tab, tabs=["transfers"])
            self._late["transfers"] = lambda: transfers.set_trait(
                "view", dict(transfers_view(self.record, self._lookup, limit=ROWS_SENT))
            )
            yield transfers

    def _trying_panes(self, tab: str, there: set[str]) -> Iterator[Pane]:
        """The What if tab, if there is a live session, and the Code tab, if code was generated."""
        if self._live.trier is not None and WHAT_IF in there:
            self.trying = WhatIfPanel(self._live.trier, tab=tab, tabs=[WHAT_IF])
            self._late[WHAT_IF] = self.trying.fill
            yield self.trying
        self.has_code = "code" in there
        if self.has_code:
            self.code = CodePanel(self.record, self._lookup, tab=tab, tabs=["code"])
            yield self.code

    def _make_diff_pane(self, tab: str) -> None:
        """A comparison, or a search without one, with its charts."""
        self.charts: DiffCharts | None = None
        found = self.record.localization
        if (diff := self.record.diff or (without_outputs(found) if found else None)) is None:
            return
        self.kernel_diff = KernelDiffPanel(diff, self._live.pairs, found, tab=tab)
        self._panes.append(self.kernel_diff)
        self.charts = DiffCharts(self.kernel_diff, found, self._choose_node)

    def show(self) -> None:
        """Display the panel and, as an output of its own, the snapshot that stays when there is no kernel."""
        display(self)
        self._snapshot = display(Snapshot(self.record), display_id=True)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The widget and, for front ends without widgets, a few lines of text: the snapshot tells the rest."""
        panels.shown(self)
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        return {**bundle, "text/plain": short_text(self.record)}

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
            UsageError: not exactly one of the three was given, or the panel is gone.
            NotFoundError: there is no such finding, node or line.
        """
        if self.is_closed:
            raise UsageError(GONE)
        chosen = self._lookup.find(finding=finding, node=node, line=line, label=label, near=self.graph.shown)
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
        """Run it; what it raises goes to the error strip: an exception of a comm handler is shown nowhere."""
        try:
            with self._lock:
                action()
        except Exception as error:
            self.header.error = f"{type(error).__name__}: {error}"

    def _on_selection(self, change: dict[str, Any]) -> None:
        self._guarded(lambda: self._answer(change["new"]))

    def _on_tab(self, change: dict[str, Any]) -> None:
        self._open_tab(change["new"])

    def _open_tab(self, tab: str) -> None:
        if (fill := self._late.pop(tab, None)) is not None:
            self._guarded(fill)
        if tab in ("findings", "graph", "guards"):
            self._guarded(self._prepare)
        elif tab in ("placement", "transfers"):
            self._guarded(lambda: self._show_node(self.header.selection))
        elif tab == "code":
            self._guarded(lambda: self._show_code(self.header.selection))
        if self.charts is not None:
            self._guarded(self.charts.enter if tab == "diff" else self.charts.leave)
        self._guarded(self.guards_tab.enter if tab == "guards" else self.guards_tab.leave)
        if self.memory is not None:
            self._guarded(self.memory.enter if tab == "memory" else self.memory.leave)

    def _on_asked(self, change: dict[str, Any]) -> None:
        if change["new"]:
            self.header.asked = ""
            self._guarded(self._toggle_form)

    def _toggle_form(self) -> None:
        """The quick run's form between header and body; what it ran is shown here."""
        from inductor_debug_jupyter.jupyter.quick_run import QuickRunForm

        if self._form is None:
            self._form = QuickRunForm(target=self.record.target, on_session=self._show_session)
            self._lay_out()
        else:
            form, self._form = self._form, None
            self._lay_out()
            close_all(form)

    @classmethod
    def of(cls, session: Any) -> DebugPanel:
        """The panel of a session: a click in it is a call on the session, and the other way round."""
        panel = cls(session.record, LiveParts.of(session))
        panel._listen_to(session)
        return panel

    def _show_session(self, session: Any) -> None:
        """Show another one: the one before has nothing to say here any more."""
        self.load(session.record, LiveParts.of(session))
        self._listen_to(session)

    def _listen_to(self, session: Any) -> None:
        self._stop_listening()
        self._unlisten = [session.on_select(self.follow), session.on_change(lambda: self._follow(session))]

    def _stop_listening(self) -> None:
        while self._unlisten:
            self._unlisten.pop()()

    def _follow(self, session: Any) -> None:
        """Show the session's new record or what-if, on the same tab; an error is shown there, not raised in a cell."""
        self._guarded(lambda: self._show_news(session))

    def _show_news(self, session: Any) -> None:
        before, record = self.record, session.record
        if record is before:
            if self._live.trier is not None and self.record.captures:
                self.trying.follow()
        elif record == replace(before, findings=record.findings) and len(record.findings) == len(before.findings):
            self._say_fixits(record)
        else:
            live = replace(LiveParts.of(session), fixes=self._live.fixes)
            chosen = cast(Selection, self.header.selection) if record.captures is before.captures else None
            self.load(record, live, tab=self.header.tab, chosen=chosen)

    def _say_fixits(self, record: SessionRecord) -> None:
        """The findings name fix-its now: their texts are new, and nothing else."""
        self.record, self._lookup = record, Lookup(record)
        self.findings.rows = self.detail.rows = findings_view(record, self._lookup, max_places=PLACES_SENT)
        self.overview.view = overview_view(record, self._lookup)
        if self._snapshot is not None:
            self._snapshot.update(Snapshot(record))

    def _choose_node(self, graph: str, node: str) -> None:
        """A point of the error curve was clicked: choose its node, in the graph of the capture that has it."""
        suffix = BACKWARD if graph == "backward" else ""
        wanted = (f"post_grad{suffix}", graph)
        for stage in wanted:
            for (compile_id, at), found in self._lookup.graphs.items():
                if at == stage and (record := found.node(node)) is not None:
                    self._assign(self._lookup.of_node(compile_id, stage, record))
                    return

    def _on_wanted(self, change: dict[str, Any]) -> None:
        wanted = change["new"]
        self._guarded(lambda: self.graph.show(wanted["compile_id"], wanted["stage"]))

    def _on_act(self, change: dict[str, Any]) -> None:
        act = change["new"]
        if act.get("do") == "choose":  # a search's find: nothing in the browser knows where it stands
            chosen = self._lookup.find_node(act["node"], near=self.graph.shown)
            self._guarded(lambda: self._assign(chosen))
        else:
            self._guarded(lambda: self.graph.do(act))

    def _answer(self, chosen: dict[str, Any]) -> None:
        self.selection = dict(chosen)
        self._show_node(chosen)
        if (chosen["compile_id"], chosen["stage"]) in self._lookup.graphs or not chosen["stage"]:
            self.graph.light(chosen)
        if self.header.tab == "code":
            self._show_code(chosen)
        if self.on_select is not None:
            self.on_select(dict(chosen))

    def _on_code_wanted(self, change: dict[str, Any]) -> None:
        self._guarded(lambda: self.code.answer(change["new"]))

    def _show_code(self, chosen: dict[str, Any]) -> None:
        if self.has_code:
            self.code.show(chosen)

    def _prepare(self) -> None:
        """The first picture and the first detail, when a tab that shows them is opened for the first time."""
        self._show_node(self.header.selection)
        if not self.graph.shown[1] and self._lookup.first_graph is not None:
            self.graph.show(*self._lookup.first_graph)
            self.graph.light(self.header.selection)

    def _show_node(self, chosen: dict[str, Any]) -> None:
        found = node_view(self._lookup, chosen["compile_id"], chosen["stage"], chosen["node"])
        self.detail.node = dict(found) if found else NO_NODE
        label = chosen["label"]
        if label in self.record.sources and label not in self.detail.sources:  # a library's files are large
            self.detail.sources = {**self.detail.sources, **source_view(self.record, self._lookup, [label])}
