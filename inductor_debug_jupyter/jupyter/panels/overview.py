"""The first page."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset


class OverviewPanel(Pane):
    """``view`` is that of :func:`~inductor_debug_jupyter.pipeline.views.overview.overview_view`."""

    _esm = asset("overview.js")
    _css = asset("overview.css")
    view = traitlets.Dict().tag(sync=True)
