"""What a living session has besides its record: who answers what the panel cannot answer from data alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.jupyter.panels.binder import NodeBinder
from inductor_debug_jupyter.jupyter.panels.fixes import FixDesk
from inductor_debug_jupyter.jupyter.panels.guards import Asker
from inductor_debug_jupyter.jupyter.panels.what_if import Trier
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphViews

SelectCallback = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class LiveParts:
    """Each may be missing: a session that was loaded from a file has no model, no tensors and no guards.

    Attributes:
        on_select: called with the new selection whenever it changes, by a click or by a call.
        views: the session's graphs as they are looked at.
        pairs: the tensors of a comparison, for the KernelDiff tab.
        what_if: who answers whether other inputs would recompile.
        fixes: who checks and applies fix-its.
        binder: who puts a node into the user's namespace.
        trier: who tries things out for the What if tab; without one there is no such tab.
    """

    on_select: SelectCallback | None = None
    views: GraphViews | None = None
    pairs: LivePairs | None = None
    what_if: Asker | None = None
    fixes: FixDesk | None = None
    binder: NodeBinder | None = None
    trier: Trier | None = None

    @classmethod
    def of(cls, session: Any) -> LiveParts:
        """All that a session has."""
        return cls(
            on_select=session.choose,
            views=session.graph_views,
            pairs=session.diff_pairs,
            what_if=session.what_if,
            fixes=FixDesk(session),
            binder=NodeBinder(session),
            trier=session,
        )


NOT_LIVE = LiveParts()
"""Only a record."""
