"""The Compare tab: two graphs side by side, of two runs or of two stages of one compile.

What the page asks about one of the two graphs comes with its ``side``; the state of both is a
:class:`~inductor_debug_jupyter.pipeline.drawing.side_by_side.PairedGraphs`. Pairs are matched when they are chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.pipeline.comparing import RunComparison
from inductor_debug_jupyter.pipeline.comparing.graph_pairs import GraphPair, run_pairs, stage_pair
from inductor_debug_jupyter.pipeline.drawing.side_by_side import SIDES, PairedGraphs, Side
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import BACKWARD, CompileCapture, SessionRecord
from inductor_debug_jupyter.pipeline.views.comparison import (
    ROWS,
    changes_view,
    difference_rows,
    pair_counts,
    pair_title,
)
from inductor_debug_jupyter.pipeline.views.panel_parts import NO_COMPARISON, NOTHING_FOUND, Parts
from inductor_debug_jupyter.pipeline.views.text import header_line
from inductor_debug_jupyter.pipeline.views.view_types import Row

TAB = "compare"
_STEPS = (
    ("dynamo", "joint"),
    ("dynamo", "forward"),
    ("joint", "forward"),
    ("joint", "backward"),
    ("forward", "post_grad"),
    ("backward", f"post_grad{BACKWARD}"),
)
"""Stages that follow each other: one step of the compiler lies between them."""


class Compared(Protocol):
    """What is compared: pairs of graphs to choose from."""

    records: tuple[SessionRecord, SessionRecord]

    def titles(self) -> list[str]:
        """The title of each pair, for the chooser."""

    def pair(self, number: int) -> GraphPair:
        """One pair."""

    def heads(self, pair: GraphPair) -> list[str]:
        """What stands above each of the two graphs."""

    def changes(self) -> Row:
        """What changed besides graphs; empty for two stages."""


class ComparedRuns:
    """Two runs: the graphs that differ."""

    def __init__(self, comparison: RunComparison) -> None:
        if comparison.runs is None:
            raise UsageError("this comparison was read from a file: compare the sessions again to see their graphs")
        self.comparison = comparison
        self.records = comparison.runs

    @cached_property
    def _pairs(self) -> list[GraphPair]:
        return [*run_pairs(*self.records)]

    def titles(self) -> list[str]:
        """Stage, function, and how many nodes differ."""
        return [pair_title(pair) for pair in self._pairs]

    def pair(self, number: int) -> GraphPair:
        """One pair."""
        return self._pairs[number]

    def heads(self, pair: GraphPair) -> list[str]:
        """What the user calls each run, or its id, and its header line."""
        each = zip(SIDES, self.comparison.labels, self.records, strict=True)
        return [
            f"{side}: {plain(label or record.id)} · {header_line(record, timings=False)}"
            for side, label, record in each
        ]

    def changes(self) -> Row:
        """Breaks, recompiles, kernels, findings, figures."""
        return changes_view(self.comparison)


class ComparedStages:
    """Two stages of one compile; the chooser also has every other step of the compiler."""

    def __init__(self, record: SessionRecord, compile_id: str, before: str, after: str) -> None:
        self.records = (record, record)
        asked = (compile_id, before, after)
        steps = [(each.compile_id, *step) for each in record.captures for step in _steps_of(each)]
        self.steps = steps if asked in steps else [asked, *steps]
        self.first = self.steps.index(asked)

    def titles(self) -> list[str]:
        """Stages and compile id."""
        names = {capture.compile_id: capture.name for capture in self.records[0].captures}
        return [f"{before} → {after} · {names.get(each, '')} · {each}" for each, before, after in self.steps]

    def pair(self, number: int) -> GraphPair:
        """One pair.

        Raises:
            NotFoundError: one of the two graphs was not captured.
        """
        compile_id, before, after = self.steps[number]
        capture = next((each for each in self.records[0].captures if each.compile_id == compile_id), None)
        if capture is None:
            raise NotFoundError(f"there is no compile {compile_id!r}")
        return stage_pair(capture, before, after)

    def heads(self, pair: GraphPair) -> list[str]:
        """The stage of each side."""
        return [f"{side}: {graphs[0][1]}" for side, graphs in zip(SIDES, pair.graphs, strict=True)]

    def changes(self) -> Row:
        """Nothing but graphs is compared."""
        return {}


def _steps_of(capture: CompileCapture) -> list[tuple[str, str]]:
    """The steps whose two graphs were captured; Dynamo's next one is the joint graph where there is one."""
    found = [step for step in _STEPS if set(step) <= set(capture.graphs)]
    return [step for step in found if step != ("dynamo", "forward") or "joint" not in capture.graphs]


class ComparePane:
    """Writes ``comparison`` and what is drawn of it.

    Args:
        parts: the panel's state.
        compared: what is compared.
        on_select: called with the chosen node, where the panel's own session has it.
    """

    def __init__(self, parts: Parts, compared: Compared, on_select: Callable[[dict[str, Any]], None]) -> None:
        self._parts = parts
        self._compared = compared
        self._on_select = on_select
        self._graphs: PairedGraphs | None = None

    def answers(self) -> wire.Handlers:
        """What may be asked of it as a whole."""
        return {
            wire.ShowPair: lambda request: self.show(request.pair),
            wire.ShowDifference: lambda request: self._choose_difference(request.difference),
        }

    def of_one_side(self) -> wire.Handlers:
        """What may be asked about one of the two graphs."""
        return {
            wire.ShowGraph: self._show_graph,
            wire.GraphAction: self._act,
            wire.SearchGraph: lambda request: self._search(request.text),
            wire.SelectNode: self._select,
        }

    def show(self, number: int = 0) -> None:
        """Match a pair and draw it, with the first difference chosen.

        Raises:
            NotFoundError: there is no such pair.
        """
        titles, changes = self._compared.titles(), self._compared.changes()
        empty = {**NO_COMPARISON, "pairs": titles, "changes": changes}
        if not titles:
            self._parts["comparison"] = empty
            return
        if not 0 <= number < len(titles):
            raise NotFoundError(f"there is no pair {number}: there are {len(titles)}")
        pair = self._compared.pair(number)
        self._graphs = graphs = PairedGraphs(pair, self._compared.records)
        self._parts["comparison"] = {
            **empty,
            "shown": number,
            "heads": self._compared.heads(pair),
            "choices": {side: graphs.choices(side) for side in SIDES},
            "counts": pair_counts(pair),
            "rows": difference_rows(pair),
            "left_out": max(0, len(pair.comparison.nodes) - ROWS),
        }
        self._parts["comparison_found"] = dict.fromkeys(SIDES, NOTHING_FOUND)
        if pair.comparison.nodes:
            graphs.choose_difference(0)
        self._send(told=True)

    # What the page asks about one of the two graphs

    @property
    def _both(self) -> PairedGraphs:
        if self._graphs is None:
            raise UsageError("no two graphs are compared here")
        return self._graphs

    def _show_graph(self, request: wire.ShowGraph) -> None:
        self._both.show(_side(request), request.compile_id, request.stage)
        self._send()

    def _act(self, request: wire.GraphAction) -> None:
        if request.do == "colour":
            raise UsageError("here colours are what changed")
        self._both.act(_side(request), request.do, request.box)
        self._send()

    def _search(self, text: str) -> None:
        self._parts["comparison_found"] = {side: dict(self._both.view(side).search(text)) for side in SIDES}

    def _select(self, request: wire.SelectNode) -> None:
        side = _side(request)
        shown = self._both.view(side)
        place = request.compile_id or shown.compile_id, request.stage or shown.stage, request.node
        self._both.choose(side, place)
        self._send(told=True)

    def _choose_difference(self, number: int) -> None:
        self._both.choose_difference(number)
        self._send(told=True)

    def _send(self, *, told: bool = False) -> None:
        """Write what is drawn; pictures only where they are other ones."""
        graphs, parts = self._both, self._parts
        pictures = {side: graphs.picture(side) for side in SIDES}
        before = parts["comparison_graphs"]
        if any(pictures[side] != before[side] for side in SIDES):
            parts["comparison_graphs"] = pictures
            parts["comparison_paints"] = {side: dict(graphs.paint(side)) for side in SIDES}
            if text := parts["comparison_found"]["before"]["text"]:
                self._search(text)
        lit = {side: graphs.lit(side) for side in SIDES}
        of_both = {"told": graphs.told(), "row": graphs.number_of_chosen(), "acting": graphs.acting}
        parts["comparison_lit"] = {**lit, **of_both}
        if told:
            self._select_in_session()

    def _select_in_session(self) -> None:
        """What was chosen, or else its partner, becomes the selection of the panel's own session, if it has it."""
        own, acting = self._compared.records[1], self._both.acting
        for side in sorted(SIDES, key=lambda side: side != acting):
            chosen = self._both.lit(side)["selection"]
            if chosen and self._compared.records[SIDES.index(side)] is own:
                self._on_select(chosen)
                return


def _side(request: wire.GraphRequest) -> Side:
    if request.side == "":
        raise UsageError("this asks about one of two graphs: side is before or after")
    return request.side
