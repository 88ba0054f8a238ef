"""The top: the answer in one line, the tabs, and errors of our own."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.asset import Pane, asset


class HeaderBar(Pane):
    """``view`` is a :class:`~inductor_debug_jupyter.pipeline.views.view_types.HeaderView`, ``error`` the error strip.

    ``asked`` is what a button asked for (``quick_run``); whoever does it takes it away again.
    """

    _esm = asset("header.js")
    _css = asset("header.css")
    view = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    asked = traitlets.Unicode("").tag(sync=True)
