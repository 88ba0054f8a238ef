"""A graph as a page without Python shows it: its pictures made beforehand, and what is needed to find a node in them.

There is a picture as the graph opens, one with every box closed, one with as many open as can be drawn, and one for
each box that is opened from the first, while there is ``room``: boxes with findings first, then from the outside in.
What has no picture of its own is found in the one with all boxes open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from inductor_debug_jupyter.pipeline.drawing.colours import CHANGES, NOTHING, TITLES, paint_changes
from inductor_debug_jupyter.pipeline.drawing.folding import Box
from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphView
from inductor_debug_jupyter.pipeline.views.view_types import Row

BOXES = 24
"""How many boxes of one graph get a picture."""
IN_SIGHT = 12
"""Boxes around so many nodes with a status are open at first."""


def saved_graph(
    view: GraphView, room: Callable[[], bool] = lambda: True, *, status: Mapping[str, str] | None = None
) -> Row:
    """The graph as data.

    Args:
        view: the graph.
        room: whether there is time and space for another picture.
        status: what became of nodes in another graph: its own colours then, and these nodes in sight.

    Returns:
        ``pictures`` by name (``first``, ``none``, ``all``, or a box's id), ``boxes`` (id → where it starts and ends,
        and the box around it), ``positions`` (node → the op that it is drawn as) and ``texts`` to search.
    """
    for name in [*(status or ())][:IN_SIGHT]:
        position = view.drawn.position(name)
        around = view.tree.path_to(position) if position is not None else []
        view.open_only(dict.fromkeys((*view.opened, *(box.id for box in around))))
    first = view.opened
    pictures = {"first": _picture(view, status)}
    view.expand_all()
    pictures["all"] = _picture(view, status) if view.opened != first else pictures["first"]
    if first:
        view.collapse_all()
        pictures["none"] = _picture(view, status)
    for box in _boxes(view, set(first)):
        if len(pictures) > BOXES or not room():
            break
        view.open_only((*first, *(each.id for each in box.around()), box.id))
        pictures[box.id] = _picture(view, status)
    view.open_only(first)
    boxes = {
        box.id: [box.start, box.end, box.parent.id if box.parent else ""] for box in view.tree.by_id.values() if box.id
    }
    return Row(
        compile_id=view.compile_id,
        stage=view.stage,
        pictures=pictures,
        boxes=boxes,
        first=list(first),
        by=CHANGES if status is not None else NOTHING,
        positions=view.positions,
        texts=view.search_texts,
    )


def _picture(view: GraphView, status: Mapping[str, str] | None) -> Row:
    """The picture, its colours by scheme, where its shapes begin, and the inputs that have shapes of their own."""
    picture, drawing = view.picture(), view.drawing
    paints = {by: view.colours_by(by) for by in view.colours}
    if status is not None:
        paints[CHANGES] = paint_changes(status, drawing, view.drawn)
    return {
        **picture,
        "colours": [[by, TITLES[by]] for by in paints],
        "paints": paints,
        "units": [[shape.start, shape.id] for shape in drawing.shapes[: drawing.units]],
        "inputs": drawing.inputs,
    }


def _boxes(view: GraphView, opened: set[str]) -> Iterator[Box]:
    """The boxes that are closed at first: those with findings, then the outermost, in order."""
    marked = {position for name in view.marks if (position := view.drawn.position(name)) is not None}

    def rank(box: Box) -> tuple[bool, int, int]:
        return not any(box.start <= at < box.end for at in marked), len([*box.around()]), box.start

    return iter(sorted((box for box in view.tree.by_id.values() if box.id and box.id not in opened), key=rank))
