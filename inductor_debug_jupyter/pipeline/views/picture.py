"""One graph of a session as a laid-out picture."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.views.graph import MAX_CALLS, draw, marks_of, picture_nodes
from inductor_debug_jupyter.pipeline.views.layout import picture_svg
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.shapes import PictureView


def picture_view(
    lookup: Lookup, compile_id: str, stage: str, *, limit: int = MAX_CALLS, timeout: float = 10
) -> PictureView:
    """The picture of that graph, and what each of its nodes stands for. Takes as long as graphviz does.

    Raises:
        NotFoundError: that compile has no graph of that stage.
    """
    graph = lookup.graphs.get((compile_id, stage))
    if graph is None:
        raise NotFoundError(f"compile {compile_id!r} has no {stage!r} graph")
    severities: list[str] = [finding.severity for finding in lookup.record.findings]
    drawing = draw(graph, marks_of(lookup, compile_id, stage), severities, limit=limit)
    svg, note = picture_svg(drawing, timeout=timeout)
    nodes = picture_nodes(drawing, lookup, compile_id, stage)
    return PictureView(compile_id=compile_id, stage=stage, svg=svg, nodes=nodes, note=note)
