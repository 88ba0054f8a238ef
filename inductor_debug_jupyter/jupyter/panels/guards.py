"""The Guards tab: graph breaks and recompiles on top, the table of guards below."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.asset import Pane, asset

NO_GUARDS: dict[str, object] = {
    "summary": "", "rows": [], "total": 0, "breaks": [], "recompiles": [], "graphs": {}, "hints": {},
}  # fmt: skip


class GuardsPanel(Pane):
    """``view`` is a :class:`~inductor_debug_jupyter.pipeline.views.guards.GuardsView`."""

    _esm = asset("guards.js")
    _css = asset("guards.css")
    view = traitlets.Dict(default_value=NO_GUARDS).tag(sync=True)
