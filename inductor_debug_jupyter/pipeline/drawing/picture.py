"""One graph of a session as a static picture, for snapshots and reports."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.drawing.graph_view import FIRST_VIEW, GraphView
from inductor_debug_jupyter.pipeline.drawing.graphviz_layout import SECONDS
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.view_types import PictureView


def picture_view(
    lookup: Lookup, compile_id: str, stage: str, *, limit: int = FIRST_VIEW, timeout: float = SECONDS
) -> PictureView:
    """The picture of a graph as it opens, with about ``limit`` shapes, and the nodes of each shape.

    Raises:
        NotFoundError: that compile has no graph of that stage.
    """
    return GraphView(lookup, compile_id, stage, first=limit).picture(timeout=timeout)
