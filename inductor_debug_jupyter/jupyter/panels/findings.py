"""The left pane: the list of findings."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset


class FindingsPanel(Pane):
    """``rows`` are those of :func:`~inductor_debug_jupyter.pipeline.views.panel.findings_view`."""

    _esm = asset("findings.js")
    _css = asset("findings.css")
    rows = traitlets.List().tag(sync=True)
