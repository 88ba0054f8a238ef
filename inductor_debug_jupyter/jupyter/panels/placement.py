"""The Placement tab: which ops the target has, where each stretch of the graph runs, and what moves in between."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset

TAB = "placement"


class PlacementPanel(Pane):
    """``graphs`` are those of :func:`~inductor_debug_jupyter.pipeline.views.placement.placement_views`."""

    _esm = asset("placement.js")
    _css = asset("placement.css")
    graphs = traitlets.List().tag(sync=True)
