"""The first page."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset


class OverviewPanel(Pane):
    """``view`` is an :class:`~inductor_debug_jupyter.pipeline.views.view_types.OverviewView`."""

    _esm = asset("overview.js")
    _css = asset("overview.css")
    view = traitlets.Dict().tag(sync=True)
