"""The panes of one session: they make the parts that the page shows, and answer what it asks.

What a tab shows is made when it is first opened, and a source file is sent when something on it is chosen: of a large
model both are megabytes that most users never open. Charts are made with their tab as well, because bqplot takes a
while to load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.jupyter.panel.code import BEING_MADE, CodePane
from inductor_debug_jupyter.jupyter.panel.code import TAB as CODE
from inductor_debug_jupyter.jupyter.panel.compare import TAB as COMPARE
from inductor_debug_jupyter.jupyter.panel.compare import Compared, ComparedRuns, ComparedStages, ComparePane
from inductor_debug_jupyter.jupyter.panel.graph import GraphPane
from inductor_debug_jupyter.jupyter.panel.guards import TAB as GUARDS
from inductor_debug_jupyter.jupyter.panel.guards import GuardsPane
from inductor_debug_jupyter.jupyter.panel.kernel_diff import TAB as DIFF
from inductor_debug_jupyter.jupyter.panel.kernel_diff import KernelDiffPane
from inductor_debug_jupyter.jupyter.panel.live_parts import LiveParts
from inductor_debug_jupyter.jupyter.panel.memory import TAB as MEMORY
from inductor_debug_jupyter.jupyter.panel.memory import MemoryPane
from inductor_debug_jupyter.jupyter.panel.what_if import TAB as WHAT_IF
from inductor_debug_jupyter.jupyter.panel.what_if import WhatIfPane
from inductor_debug_jupyter.pipeline.documentation import explain
from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphViews
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.views.localization import without_outputs
from inductor_debug_jupyter.pipeline.views.numerics import budget_view
from inductor_debug_jupyter.pipeline.views.overview import overview_view
from inductor_debug_jupyter.pipeline.views.panel import (
    findings_view,
    graphs_to_come,
    header_view,
    node_view,
    source_view,
)
from inductor_debug_jupyter.pipeline.views.panel_parts import NO_NODE, Parts
from inductor_debug_jupyter.pipeline.views.placement import placement_views
from inductor_debug_jupyter.pipeline.views.places import Lookup, nothing
from inductor_debug_jupyter.pipeline.views.rule_page import page_view
from inductor_debug_jupyter.pipeline.views.timing import time_view
from inductor_debug_jupyter.pipeline.views.transfers import transfers_view
from inductor_debug_jupyter.pipeline.views.view_types import Row, Selection, TabView

PLACES_SENT = 200
"""The most places of a finding that go to the browser; the finding's count has all of them."""
TRANSFERS_SENT = 2_000
"""So many transfers, and so many kernels, go to the browser; the summary counts all."""

BUDGET = "budget"
TIME = "time"
COMPARE_TAB = TabView(id=COMPARE, title="Compare", badge="", kind="")
Changed = Callable[[Callable[[], None]], None]
"""Calls a function that writes parts, shows what goes wrong in it, and sends what it changed."""


def _not_reported(_: str) -> None:
    """What is done for a tab that no request of the page opened is told to nobody."""


class Panes:
    """All panes of one session.

    Args:
        record: the session to show.
        live: what a living session has besides its record.
        parts: the panel's state.
        changed: runs what a chart or a script causes (what the page asks comes through :meth:`answers`).
        report: sends what is being done for a request.
        tab: the tab to open, if there is such a one; else that with the worst news.
        chosen: what is chosen; else the worst news.
    """

    def __init__(
        self,
        record: SessionRecord,
        live: LiveParts,
        parts: Parts,
        *,
        changed: Changed,
        report: Callable[[wire.Request, str], None],
        tab: str = "",
        chosen: Selection | None = None,
    ) -> None:
        self.record, self.live, self.parts = record, live, parts
        self.on_select = live.on_select
        """Called with every new selection."""
        self.lookup = Lookup(record)
        self._fill: dict[str, Callable[[], None]] = {}
        """What the tabs that were not opened yet are made by."""
        header = header_view(record)
        if live.trier is not None and record.captures:
            header["tabs"].append(TabView(id=WHAT_IF, title="What if", badge="", kind=""))
        if live.comparison is not None:
            header["tabs"].insert(0, COMPARE_TAB)
            header["tab"] = COMPARE
        header["variable"] = live.variable
        there = {each["id"] for each in header["tabs"]}
        views = live.views or GraphViews(record, lookup=self.lookup)
        self.graph = GraphPane(parts, views, changed)
        self.code = CodePane(parts, record, self.lookup) if CODE in there else None
        self.what_if: WhatIfPane | None = None
        self.diff: KernelDiffPane | None = None
        self._comparing: ComparePane | None = None
        self._handlers: wire.Handlers = {
            wire.Select: lambda request: self.select(request.selection),
            wire.OpenTab: lambda request: self.open_tab(request.tab, lambda text: report(request, text)),
            wire.SelectNode: self._select_node,
            wire.BindNode: self._bind,
            wire.CompareStages: lambda request: self._compare_stages(request, lambda text: report(request, text)),
            wire.ExplainRule: self._explain,
            wire.WriteReport: self._write_report,
            **self.graph.answers(),
        }
        self._add_tabs(there, changed, report)
        parts["header"] = header
        parts["tab"] = tab if tab in there else header["tab"]
        parts["graph_choices"] = self.lookup.choices
        parts["graphs_to_come"] = graphs_to_come(record)
        cells = [label for label in record.sources if label.startswith("In [")] or [*record.sources][:1]
        parts["sources"] = source_view(record, self.lookup, cells)
        if live.binder is not None:
            parts["binding"] = {"can_bind": True, "compiled": live.binder.compiled}
        self.show_findings(record)
        self.show_fixes()
        self._choose(chosen or self.lookup.first)

    def _add_tabs(self, there: set[str], changed: Changed, report: Callable[[wire.Request, str], None]) -> None:
        """The panes of tabs that not every session has."""
        record, parts = self.record, self.parts
        guards = GuardsPane(parts, record, self.live.what_if, lambda chosen: changed(lambda: self.select(chosen)))
        self._add(GUARDS, guards.fill, guards.answers())
        if self.code is not None:
            self._handlers |= self.code.answers()
        if MEMORY in there:
            memory = MemoryPane(parts, self.lookup, changed)
            self._add(MEMORY, memory.fill, memory.answers())
        if "placement" in there:
            self._add("placement", self._fill_placement, {})
        if "transfers" in there:
            self._add("transfers", self._fill_transfers, {})
        if self.live.trier is not None and WHAT_IF in there:
            self.what_if = WhatIfPane(parts, self.live.trier, report)
            self._add(WHAT_IF, self.what_if.fill, self.what_if.answers())
        found = record.localization
        if (diff := record.diff or (without_outputs(found) if found else None)) is not None:
            self.diff = KernelDiffPane(parts, diff, self.live.pairs, found, changed, self._choose_point)
            self._add(DIFF, self.diff.fill, self.diff.answers())
        if record.error_budget is not None:
            self._add(BUDGET, self._fill_budget, {})
        if record.kernel_times is not None:
            self._add(TIME, self._fill_time, {})
        if self.live.comparison is not None:
            comparison = self.live.comparison
            self._add(COMPARE, lambda: self._compare(ComparedRuns(comparison), 0), {})

    def _add(self, tab: str, fill: Callable[[], None], handlers: wire.Handlers) -> None:
        self._fill[tab] = fill
        self._handlers |= handlers

    def _fill_placement(self) -> None:
        self.parts["placement"] = placement_views(self.record.coverage, self.lookup)

    def _fill_transfers(self) -> None:
        self.parts["transfers"] = dict(transfers_view(self.record, self.lookup, limit=TRANSFERS_SENT))

    def _fill_budget(self) -> None:
        """The shares, and the graph that has their ops coloured by them; chosen is the op with the largest share."""
        assert self.record.error_budget is not None
        view = budget_view(self.record.error_budget, self.lookup, self.record.prescription)
        self.parts["budget"] = view
        self._show_coloured("budget", view)

    def _fill_time(self) -> None:
        """The kernels, and the graph that has their ops coloured by their time; chosen is the slowest."""
        assert self.record.kernel_times is not None
        view = time_view(self.record.kernel_times, self.lookup)
        self.parts["time"] = view
        self._show_coloured("time", view)

    def _show_coloured(self, by: str, view: Row) -> None:
        """Choose the first row that has a node, and colour the graph that it is in."""
        chosen = next((row["selection"] for row in view["rows"] if row["selection"]), None)
        if chosen is not None:
            self.graph.show(chosen["compile_id"], chosen["stage"])
            self.graph.colour(by)
            self.select(chosen)

    def _compare_stages(self, request: wire.CompareStages, report: Callable[[str], None]) -> None:
        """Open the Compare tab with two stages of one compile; a stage that Inductor has not made is made now."""
        to_come = self.parts["graphs_to_come"].get(request.compile_id, ())
        if self.live.complete is not None and {request.before, request.after} & {*to_come}:
            report(BEING_MADE)
            self.live.complete()
        compared = ComparedStages(self.record, request.compile_id, request.before, request.after)
        self._fill.pop(COMPARE, None)
        self._compare(compared, compared.first)
        header = self.parts["header"]
        if COMPARE not in [each["id"] for each in header["tabs"]]:
            at = next((at for at, each in enumerate(header["tabs"], 1) if each["id"] == "graph"), 0)
            self.parts["header"] = {**header, "tabs": [*header["tabs"][:at], COMPARE_TAB, *header["tabs"][at:]]}
        self.parts["tab"] = COMPARE

    def _compare(self, compared: Compared, number: int) -> None:
        pane = ComparePane(self.parts, compared, self._follow_comparison)
        pane.show(number)
        self._comparing = pane
        self._handlers |= pane.answers()

    def _follow_comparison(self, chosen: dict[str, Any]) -> None:
        """A node was chosen in the Compare tab: the other tabs show it when they are opened."""
        if chosen == self.parts["selection"]:
            return
        self._choose(cast(Selection, chosen))
        self._show_node(chosen)
        if self.on_select is not None:
            self.on_select(chosen)

    def leave(self) -> None:
        """Stop following the session's graphs."""
        self.graph.leave()

    def answer(self, request: wire.Request) -> None:
        """Do what the page asks.

        Raises:
            UsageError: this session has no such pane.
            Exception: whatever goes wrong on the way.
        """
        if isinstance(request, wire.GraphRequest) and request.side:
            handlers = {} if self._comparing is None else self._comparing.of_one_side()
        else:
            fixes = {} if self.live.fixes is None else self.live.fixes.answers()
            handlers = {**fixes, **self._handlers}
        handler = handlers.get(type(request))
        if handler is None:
            raise UsageError(f"this session has nothing that could answer {type(request).__name__}")
        handler(request)

    # Findings and fix-its

    def show_findings(self, record: SessionRecord) -> None:
        """The findings of this record, which is the same except for their texts."""
        self.record = record
        self.lookup = self.lookup if record is self.lookup.record else Lookup(record)
        self.parts["findings"] = findings_view(record, self.lookup, max_places=PLACES_SENT)
        self.parts["overview"] = overview_view(record, self.lookup)

    def show_fixes(self) -> None:
        """The strip of fix-its, where there is something to fix or to take back, and a model to run."""
        fixes = self.live.fixes
        refused = any(finding.severity != "info" for finding in self.record.findings)
        if fixes is not None and fixes.can_run and (refused or fixes.in_force):
            self.parts["fixes"] = fixes.view()
        else:
            self.parts["fixes"] = {}

    # Tabs

    def open_tab(self, tab: str, report: Callable[[str], None] = _not_reported) -> None:
        """Show a tab; the first time, make what it shows. ``report`` says what that takes, where it takes long.

        Raises:
            NotFoundError: there is no such tab.
        """
        tabs = [each["id"] for each in self.parts["header"]["tabs"]]
        if tab not in tabs:
            raise NotFoundError(f"there is no tab {tab!r}; there are {', '.join(tabs)}")
        self.parts["tab"] = tab
        if (fill := self._fill.pop(tab, None)) is not None:
            fill()
        chosen = self.parts["selection"]
        if tab in ("findings", "graph", BUDGET, TIME):
            self._show_first_graph(chosen)
        if tab in ("findings", "graph", BUDGET, TIME, "guards", "placement", "transfers"):
            self._show_node(chosen)
        elif tab == CODE and self.code is not None:
            self._show_code(self.code, chosen, report)

    def _show_code(self, code: CodePane, chosen: dict[str, Any], report: Callable[[str], None]) -> None:
        """Show the Code tab; what Inductor has not made yet is made now, and the session's news bring it."""
        code.show(chosen)
        if self.live.complete is not None and any(capture.rest for capture in self.record.captures):
            code.say_being_made()
            self.parts.flush()
            report(BEING_MADE)
            try:
                self.live.complete()
            except BaseException:
                code.say_not_made()
                raise

    def show_completed(self, record: SessionRecord) -> None:
        """Take over a record that has more stages than before; tab and selection stay."""
        self.record, self.lookup = record, Lookup(record)
        self.parts["graph_choices"] = self.lookup.choices
        self.parts["graphs_to_come"] = graphs_to_come(record)
        self.parts["overview"] = overview_view(record, self.lookup)
        if self.live.binder is not None:
            self.parts["binding"] = {"can_bind": True, "compiled": self.live.binder.compiled}
        if self.code is not None:
            self.code.follow(record, self.lookup)
            if self.parts["tab"] == CODE:
                self.code.show(self.parts["selection"])

    def _show_first_graph(self, chosen: dict[str, Any]) -> None:
        if not self.graph.shown[1]:
            first = self.lookup.first_graph
            key = (chosen["compile_id"], chosen["stage"])
            if key not in self.lookup.graphs and first is not None:
                self.graph.show(*first)
        self.graph.light(chosen)

    # The selection

    def select(self, chosen: Selection | dict[str, Any]) -> None:
        """Choose something: every part that shows it follows, and ``on_select`` is called."""
        selection = cast(Selection, {**nothing(), **chosen})
        self._choose(selection)
        self._show_node(dict(selection))
        key = (selection["compile_id"], selection["stage"])
        if self.graph.shown[1] and (key in self.lookup.graphs or not selection["stage"]):
            self.graph.light(dict(selection))
        if self.parts["tab"] == CODE and self.code is not None:
            self.code.show(dict(selection))
        if self.on_select is not None:
            self.on_select(dict(selection))

    def _choose(self, selection: Selection) -> None:
        self.parts["selection"] = dict(selection)

    def _select_node(self, request: wire.SelectNode) -> None:
        self.select(self.lookup.find_node(request.node, near=self.graph.shown))

    def _choose_point(self, graph: str, node: str) -> None:
        """A point of the error curve was clicked: choose its node, in the graph of the capture that has it."""
        if (found := self.lookup.of_searched(graph, node)) is not None:
            self.select(found)

    def _show_node(self, chosen: dict[str, Any]) -> None:
        found = node_view(self.lookup, chosen["compile_id"], chosen["stage"], chosen["node"])
        self.parts["node"] = dict(found) if found else NO_NODE
        label = chosen["label"]
        if label in self.record.sources and label not in self.parts["sources"]:  # a library's files are large
            self.parts["sources"] = {**self.parts["sources"], **source_view(self.record, self.lookup, [label])}

    def _explain(self, request: wire.ExplainRule) -> None:
        self.parts["page"] = dict(page_view(explain(request.rule_id)))

    def _write_report(self, request: wire.WriteReport) -> None:
        """Write it, and send it along: the browser may run where the file cannot be reached."""
        if self.live.report is None:
            raise UsageError("there is no session to report on, only its record")
        path = self.live.report()
        self.parts["report"] = {"path": str(path), "name": path.name, "text": path.read_text(encoding="utf-8")}

    def _bind(self, request: wire.BindNode) -> None:
        if self.live.binder is None:
            raise UsageError("this session was loaded from a file: there is no model to run")
        node = {"compile_id": request.compile_id, "stage": request.stage, "node": request.node}
        self.parts["bound"] = {}
        self.parts["bound"] = {**node, "kernel": request.kernel, **self.live.binder.bind(request)}
