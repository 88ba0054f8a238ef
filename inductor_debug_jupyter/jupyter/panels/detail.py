"""The right pane: what is chosen, explained."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.asset import Pane, asset

NO_NODE = {"compile_id": "", "stage": "", "node": "", "title": "", "label": "", "line": 0, "text": "", "rows": []}


class DetailPanel(Pane):
    """``rows`` are known from the start; ``node`` and further ``sources`` are Python's answers to a selection."""

    _esm = asset("detail.js")
    _css = asset("detail.css")
    sources = traitlets.Dict().tag(sync=True)
    rows = traitlets.List().tag(sync=True)
    node = traitlets.Dict(default_value=NO_NODE).tag(sync=True)
