"""One graph of a session as a laid-out picture."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.records import GraphRecord
from inductor_debug_jupyter.pipeline.views import words
from inductor_debug_jupyter.pipeline.views.graph import MAX_CALLS, draw, marks_of, picture_nodes
from inductor_debug_jupyter.pipeline.views.layout import picture_svg
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.shapes import PictureView
from inductor_debug_jupyter.pipeline.views.words import plain


def picture_view(
    lookup: Lookup,
    compile_id: str,
    stage: str,
    *,
    inside: Collection[str] = (),
    limit: int = MAX_CALLS,
    timeout: float = 10,
) -> PictureView:
    """The picture of that graph, and what each of its nodes stands for. Takes as long as graphviz does.

    Args:
        lookup: the session.
        compile_id: which compile.
        stage: which of its graphs.
        inside: draw only the nodes of these names (what a group stands for), and what flows into them.
        limit: collapse by module when more nodes than this compute something.
        timeout: seconds for the layout.

    Raises:
        NotFoundError: that compile has no graph of that stage.
    """
    graph = lookup.graphs.get((compile_id, stage))
    if graph is None:
        raise NotFoundError(f"compile {compile_id!r} has no {stage!r} graph")
    if inside:
        graph = _part(graph, frozenset(inside))
    severities: list[str] = [finding.severity for finding in lookup.record.findings]
    drawing = draw(graph, marks_of(lookup, compile_id, stage), severities, limit=limit)
    svg, note = picture_svg(drawing, timeout=timeout)
    nodes = picture_nodes(drawing, lookup, compile_id, stage)
    return PictureView(
        compile_id=compile_id, stage=stage, svg=svg, nodes=nodes, note=note, inside=_title(graph) if inside else ""
    )


def _part(graph: GraphRecord, names: frozenset[str]) -> GraphRecord:
    """Those nodes alone; what flows in from other nodes becomes an input."""
    members = [node for node in graph.nodes if node.name in names]
    outside = {name for node in members for name in node.inputs} - names
    inputs = [
        node if not node.is_call else replace(node, op="placeholder") for node in graph.nodes if node.name in outside
    ]
    return GraphRecord(graph.stage, (*inputs, *members))


def _title(part: GraphRecord) -> str:
    """The module that all of the part's nodes are in."""
    paths = [node.module_path.split(".") for node in part.calls]
    shared = [step[0] for step in zip(*paths, strict=False) if len(set(step)) == 1]
    return plain(".".join(shared)) or words.count(len(paths), "op")
