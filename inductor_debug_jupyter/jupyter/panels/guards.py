"""The Guards tab: graph breaks and recompiles on top, the table of guards below."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.asset import Pane, asset


class GuardsPanel(Pane):
    """``view`` is a :class:`~inductor_debug_jupyter.pipeline.views.guards.GuardsView`."""

    _esm = asset("guards.js")
    _css = asset("guards.css")
    view = traitlets.Dict().tag(sync=True)
