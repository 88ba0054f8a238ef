"""The state of two graphs side by side: which graph of each side is on show, what is open, what is chosen.

Two runs, or two stages of one capture, were matched node by node (``comparing.graph_pairs``). Here the two graphs are
drawn, each by a :class:`GraphView` of its own, and kept together: a box that is opened on one side is opened on the
other, and a node that is chosen on one side chooses its partner. A script can do what the panel does::

    graphs = PairedGraphs(stage_pair(capture, "forward", "post_grad"), (record, record))
    graphs.choose("before", ("0/0", "forward", "gelu"))
    graphs.view("after")
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

from inductor_debug_jupyter.pipeline.comparing.graph_pairs import GraphPair, Place
from inductor_debug_jupyter.pipeline.drawing.colours import CHANGES, TITLES, paint_changes
from inductor_debug_jupyter.pipeline.drawing.folding import Box
from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphView
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import NodeRecord, SessionRecord
from inductor_debug_jupyter.pipeline.views.labels import op_of
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.view_types import Row

Side = Literal["before", "after"]
SIDES: tuple[Side, Side] = get_args(Side)
IN_SIGHT = 6
"""The boxes around so many differences are open at first."""


@dataclass
class _Half:
    """One side: its graphs by compile id and stage, the one on show, and what is lit in it."""

    lookup: Lookup
    keys: tuple[tuple[str, str], ...]
    status: dict[Place, str]
    partners: dict[Place, list[Place]] = field(default_factory=dict)
    views: dict[tuple[str, str], GraphView] = field(default_factory=dict)
    chosen: Place | None = None
    lit: tuple[Place, ...] = ()
    near: Place | None = None


class PairedGraphs:
    """Both graphs of a pair.

    Args:
        pair: which node of one graph is which of the other.
        records: the session of each side; twice the same one for two stages.
    """

    def __init__(self, pair: GraphPair, records: tuple[SessionRecord, SessionRecord]) -> None:
        self.pair = pair
        lookup = Lookup(records[0])
        lookups = lookup, lookup if records[0] is records[1] else Lookup(records[1])
        self._halves = {side: _Half(lookups[at], pair.graphs[at], pair.status[at]) for at, side in enumerate(SIDES)}
        for one, other in pair.links:
            self._halves["before"].partners.setdefault(one, []).append(other)
            self._halves["after"].partners.setdefault(other, []).append(one)
        self._shown = {side: pair.graphs[at][0] for at, side in enumerate(SIDES)}
        self.acting: Side = SIDES[0]
        """The side in which something was chosen last: the other one follows."""
        for side in SIDES:
            self._open_around_differences(side)

    # What is on show --------------------------------------------------------------------------------------------

    def view(self, side: Side) -> GraphView:
        """The graph of that side which is on show."""
        return self._view(side, self._shown[side])

    def choices(self, side: Side) -> list[Row]:
        """The graphs of that side: several, where a graph break divides the function."""
        half = self._halves[side]
        return [each for each in half.lookup.choices if (each["compile_id"], each["stage"]) in half.keys]

    def show(self, side: Side, compile_id: str, stage: str) -> None:
        """Put another graph of that side on show.

        Raises:
            NotFoundError: the side has no such graph.
        """
        if (compile_id, stage) not in self._halves[side].keys:
            raise NotFoundError(f"{side}: there is no graph {compile_id} {stage} here")
        self._shown[side] = compile_id, stage

    def picture(self, side: Side) -> Row:
        """The drawing, without a chooser of colours: here colours are what changed."""
        return {**self.view(side).picture(), "colours": [[CHANGES, TITLES[CHANGES]]]}

    def paint(self, side: Side) -> Row:
        """What became of each shape, as colour and sign; what is the same has neither."""
        half, view = self._halves[side], self.view(side)
        key = self._shown[side]
        status = {node: status for (*graph, node), status in half.status.items() if tuple(graph) == key}
        return paint_changes(status, view.drawing, view.drawn)

    # Opening and closing ----------------------------------------------------------------------------------------

    def act(self, side: Side, do: str, box: str = "") -> None:
        """Open or close a ``box``, or all boxes, on both sides.

        Raises:
            NotFoundError: there is no such box.
        """
        other = _other(side)
        if not box:
            for each in SIDES:
                _do(self.view(each), do)
            return
        partner = self._partner_box(side, box)
        _do(self.view(side), do, box)
        if partner:
            _do(self.view(other), do, partner)

    def _partner_box(self, side: Side, name: str) -> str:
        """The box of the other side that holds the partner of what is in this one; empty without one."""
        view, other = self.view(side), self.view(_other(side))
        box = view.tree.find(name)
        if box is None:
            return ""
        if (found := other.tree.find(box.id)) is not None:
            return found.id
        for node in view.drawn.ops[box.start : box.end]:
            for place in self._partners(side, (*self._shown[side], node.name)):
                if place[:2] == self._shown[_other(side)]:
                    return _alike(other, place[2], box)
        return ""

    def _open_around_differences(self, side: Side) -> None:
        half = self._halves[side]
        for place in [place for place in half.status if place[:2] == self._shown[side]][:IN_SIGHT]:
            for each, at in ((side, place), *((_other(side), at) for at in self._partners(side, place)[:1])):
                view = self._view(each, at[:2])
                position = view.drawn.position(at[2])
                if position is not None and (around := view.tree.path_to(position)):
                    view.expand(around[-1].id)

    # Choosing ---------------------------------------------------------------------------------------------------

    def choose(self, side: Side, place: Place) -> None:
        """Choose a node, and with it its partner; a node without one brings its neighbours' partners in sight.

        Raises:
            NotFoundError: there is no such node.
        """
        node = self._node(side, place)
        if node is None:
            raise NotFoundError(f"{side}: {place[0]} {place[1]} has no node {place[2]!r}")
        self.acting, other = side, _other(side)
        self._light(side, place, (place,))
        found = self._partners(side, place)
        self._light(other, found[0] if found else None, found)
        if not found and (near := self._neighbour(side, place, node)) is not None:
            self._shown[other] = near[:2]
            self.view(other).reveal(near[2])
            self._halves[other].near = near

    def choose_difference(self, number: int) -> None:
        """Choose what differs, by its number in ``pair.comparison.nodes``.

        Raises:
            NotFoundError: there are not so many.
        """
        nodes = self.pair.comparison.nodes
        if not 0 <= number < len(nodes):
            raise NotFoundError(f"there is no difference {number}: these graphs have {len(nodes)}")
        node = nodes[number]
        side, name = SIDES[0] if node.before else SIDES[1], node.before or node.after
        place = next((place for place in self._halves[side].status if place[2] == name), None)
        if place is not None:
            self.choose(side, place)

    def lit(self, side: Side) -> Row:
        """What is chosen on that side: its selection, the shapes that show it, and the shape that is only near."""
        half, view = self._halves[side], self.view(side)
        here = [place[2] for place in half.lit if place[:2] == self._shown[side]]
        shapes = [shape for name in here for shape in view.drawing.drawn_as(name, view.drawn)]
        near = view.drawing.drawn_as(half.near[2], view.drawn)[:1] if half.near is not None else []
        node = self._node(side, half.chosen) if half.chosen else None
        selection = half.lookup.of_node(*half.chosen[:2], node) if half.chosen and node else None
        return Row(selection=selection, ids=list(dict.fromkeys(shapes)), near=near)

    def told(self) -> str:
        """What is chosen, in words: the nodes of both sides, and what became of them."""
        before, after = (", ".join(self._called(side, place) for place in self._halves[side].lit) for side in SIDES)
        if not before or not after:
            return f"{before or after}: only {'before' if before else 'after'}" if before or after else ""
        chosen = [half.chosen for half in self._halves.values()]
        found = [half.status.get(at, "") for half, at in zip(self._halves.values(), chosen, strict=True) if at]
        words = {"changed": "not the same", "moved": "runs elsewhere", "": "the same on both sides"}
        status = next(filter(None, found), "")
        name = before if before == after else f"{before} → {after}"
        return f"{name}: {words.get(status, status)}"

    def number_of_chosen(self) -> int:
        """The number of the chosen difference in ``pair.comparison.nodes``; -1 where what is chosen is the same."""
        names = tuple(half.chosen[2] if half.chosen else "" for half in self._halves.values())
        if not any(half.chosen in half.status for half in self._halves.values()):
            return -1
        found = (
            number
            for number, node in enumerate(self.pair.comparison.nodes)
            if (node.before and node.before == names[0]) or (node.after and node.after == names[1])
        )
        return next(found, -1)

    # Inside -----------------------------------------------------------------------------------------------------

    def _view(self, side: Side, key: tuple[str, str]) -> GraphView:
        half = self._halves[side]
        if key not in half.views:
            half.views[key] = GraphView(half.lookup, *key, marked=False)
        return half.views[key]

    def _partners(self, side: Side, place: Place) -> tuple[Place, ...]:
        return tuple(self._halves[side].partners.get(place, ()))

    def _node(self, side: Side, place: Place) -> NodeRecord | None:
        graph = self._halves[side].lookup.graphs.get(place[:2])
        return graph.node(place[2]) if graph is not None else None

    def _called(self, side: Side, place: Place) -> str:
        """A node's name, with its op where the name does not have it."""
        node = self._node(side, place)
        op = op_of(node) if node is not None else ""
        return plain(place[2] if op in place[2] else f"{place[2]} ({op})")

    def _light(self, side: Side, chosen: Place | None, lit: Iterable[Place]) -> None:
        half = self._halves[side]
        half.chosen, half.lit, half.near = chosen, tuple(lit), None
        if chosen is not None:
            self._shown[side] = chosen[:2]
            self.view(side).reveal(chosen[2])

    def _neighbour(self, side: Side, place: Place, node: NodeRecord) -> Place | None:
        """The partner of the nearest node that has one: of what it reads, else of what reads it."""
        graph = self._halves[side].lookup.graphs[place[:2]]
        seen, waiting = {node.name}, [*node.inputs, *(each.name for each in graph.nodes if node.name in each.inputs)]
        for name in waiting:  # grows while it is walked
            if name in seen or len(seen) > 200:
                continue
            seen.add(name)
            if found := self._partners(side, (*place[:2], name)):
                return found[0]
            waiting += graph.by_name[name].inputs if name in graph.by_name else ()
        return None


def _other(side: Side) -> Side:
    return "after" if side == "before" else "before"


def _do(view: GraphView, do: str, box: str = "") -> None:
    actions = {"expand": view.expand, "collapse": view.collapse}
    if box:
        actions[do](box)
    elif do == "expand_all":
        view.expand_all()
    else:
        view.collapse_all()


def _alike(view: GraphView, node: str, box: Box) -> str:
    """The box around a node that is like another graph's box: of the same module and kind."""
    position = view.drawn.position(node)
    around = view.tree.path_to(position) if position is not None else []
    return next((each.id for each in around if (each.path, each.kind) == (box.path, box.kind)), "")
