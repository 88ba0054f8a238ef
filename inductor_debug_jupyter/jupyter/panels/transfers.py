"""The Transfers tab: what a device was sent, what came back, and the kernels that ran there."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset

TAB = "transfers"
ROWS_SENT = 2_000
"""So many transfers, and so many kernels, go to the browser; the summary counts all."""


class TransfersPanel(Pane):
    """``view`` is :func:`~inductor_debug_jupyter.pipeline.views.transfers.transfers_view`'s; filled when first seen."""

    _esm = asset("transfers.js")
    _css = asset("transfers.css")
    view = traitlets.Dict(default_value={"summary": "", "transfers": [], "kernels": [], "left_out": 0}).tag(sync=True)
