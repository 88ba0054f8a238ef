"""What a live session has besides its record: the objects behind buttons that data alone cannot serve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.jupyter.panel.fixes import FixController
from inductor_debug_jupyter.jupyter.panel.guards import GuardQueries
from inductor_debug_jupyter.jupyter.panel.node_binder import NodeBinder
from inductor_debug_jupyter.jupyter.panel.what_if import WhatIfRunner
from inductor_debug_jupyter.pipeline.comparing import RunComparison
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphViews

SelectCallback = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class LiveParts:
    """Each may be missing: a session that was loaded from a file has no model, no tensors and no guards.

    Attributes:
        on_select: called with the new selection whenever it changes, by a click or by a call.
        views: the state of each graph's picture: open boxes, colours.
        pairs: the tensors of a comparison, for the KernelDiff tab.
        what_if: evaluates guards on other inputs.
        fixes: verifies and applies fix-its.
        binder: binds a node to variables of the user.
        trier: runs what-ifs for the What if tab; without one there is no such tab.
        report: writes the report, and answers with its file.
        complete: makes what Inductor has not made yet.
        comparison: with another run, for the Compare tab.
        variable: what the user calls the session.
    """

    on_select: SelectCallback | None = None
    views: GraphViews | None = None
    pairs: LivePairs | None = None
    what_if: GuardQueries | None = None
    fixes: FixController | None = None
    binder: NodeBinder | None = None
    trier: WhatIfRunner | None = None
    report: Callable[[], Path] | None = None
    complete: Callable[[], Any] | None = None
    comparison: RunComparison | None = None
    variable: str = "session"

    @classmethod
    def of(cls, session: Any) -> LiveParts:
        """The parts of a live session."""
        return cls(
            on_select=session.choose,
            views=session.graph_views,
            pairs=session.diff_pairs,
            what_if=session.what_if,
            fixes=FixController(session),
            binder=NodeBinder(session),
            trier=session,
            report=session.report,
            complete=session.complete,
            variable=session.settings["as"] or "session",
        )


NOT_LIVE = LiveParts()
"""Only a record."""
