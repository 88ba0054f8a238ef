"""The middle pane: one graph."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.asset import Pane, asset


class GraphPanel(Pane):
    """Shows ``picture``; Python answers ``wanted`` with another one.

    ``picture`` is a :class:`~inductor_debug_jupyter.pipeline.views.shapes.PictureView`, ``choices`` are
    :class:`~inductor_debug_jupyter.pipeline.views.shapes.GraphChoice`, ``wanted`` is what the chooser was set to, or
    the group to open (``inside`` is a node of it).
    """

    _esm = asset("graph.js")
    _css = asset("graph.css")
    choices = traitlets.List().tag(sync=True)
    wanted = traitlets.Dict(default_value={"compile_id": "", "stage": ""}).tag(sync=True)
    picture = traitlets.Dict(
        default_value={"compile_id": "", "stage": "", "svg": "", "nodes": {}, "note": "", "inside": ""}
    ).tag(sync=True)
