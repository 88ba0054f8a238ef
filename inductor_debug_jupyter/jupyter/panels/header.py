"""The header: the result in one line, the tabs, and errors of our own."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset


class HeaderBar(Pane):
    """``view`` is that of :func:`~inductor_debug_jupyter.pipeline.views.panel.header_view`, ``error`` the error strip.

    ``asked`` is the button that was clicked (``quick_run``); its handler sets it back.
    """

    _esm = asset("header.js")
    _css = asset("header.css")
    view = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    asked = traitlets.Unicode("").tag(sync=True)
