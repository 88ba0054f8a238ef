"""The state of one graph in the Graph tab: which boxes are open, how it is coloured, what was searched for.

Everything that a user can do in the Graph tab is a method here, so a script can do it, too::

    view = session.graph_views.of(stage="forward")
    view.expand("encoder.layer.3")
    view.colour("memory")
    str(view)

A panel of the session follows: it calls the same methods and observes the views like any other observer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.drawing.colours import NOTHING, TITLES, Measured, offered, paint
from inductor_debug_jupyter.pipeline.drawing.declutter import Drawn, declutter
from inductor_debug_jupyter.pipeline.drawing.folding import Box, Tree
from inductor_debug_jupyter.pipeline.drawing.graphviz_layout import SECONDS, place
from inductor_debug_jupyter.pipeline.drawing.painter import Drawing, Painter, Shape, count_units, marks_of
from inductor_debug_jupyter.pipeline.drawing.svg import to_svg
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.harmless import Harmless, plain
from inductor_debug_jupyter.pipeline.observers import Observers
from inductor_debug_jupyter.pipeline.records import NodeRecord, SessionRecord
from inductor_debug_jupyter.pipeline.views.localization import errors_by_graph
from inductor_debug_jupyter.pipeline.views.numerics import shares_by_graph
from inductor_debug_jupyter.pipeline.views.places import STAGE_PREFERENCE, Lookup, line_key
from inductor_debug_jupyter.pipeline.views.timing import times_by_graph
from inductor_debug_jupyter.pipeline.views.view_types import Row, Selection

MAX_SHAPES = 2_000
"""The largest number of shapes that is drawn; beyond, the boxes that were opened longest ago close."""
FIRST_VIEW = 24
"""About how many shapes a graph opens with; a graph of few ops shows them all."""
_ALL_OPS = 60
_NAMES_SENT = 200
_PICTURES_KEPT = 8


class GraphView(Harmless):
    """One graph of a session with its open boxes and colours.

    Args:
        lookup: the session's lookup.
        compile_id: which compile.
        stage: which of its graphs.
        first: about how many shapes are drawn at first.
        measured: the errors of nodes and their shares of a result's error, where they were measured.
        marked: whether nodes with findings are marked; not where marks are something else's, as in a comparison.
        observers: called with this view after a box was opened or closed, and after a change of colours.

    Raises:
        NotFoundError: that compile has no graph of that stage.
    """

    def __init__(
        self,
        lookup: Lookup,
        compile_id: str,
        stage: str,
        *,
        first: int = FIRST_VIEW,
        measured: Measured | None = None,
        marked: bool = True,
        observers: Observers | None = None,
    ) -> None:
        if (compile_id, stage) not in lookup.graphs:
            raise NotFoundError(f"compile {compile_id!r} has no {stage!r} graph")
        self.lookup, self.compile_id, self.stage = lookup, compile_id, stage
        self.measured = measured or Measured()
        self._marked = marked
        self.coloured_by = NOTHING
        self.anchor = ""
        self.drawn: Drawn = declutter(lookup.graphs[compile_id, stage])
        self.tree = Tree(self.drawn.ops, self.drawn.graph.modules)
        self._opened: dict[str, None] = dict.fromkeys(_first_open(self.tree, first))
        self._shown: tuple[str, ...] = ()
        self._pictures: dict[tuple[str, ...], tuple[Drawing, Row]] = {}
        self._observers = observers or Observers()
        self._drawing: Drawing | None = None

    # Opening and closing ----------------------------------------------------------------------------------------

    @property
    def opened(self) -> tuple[str, ...]:
        """The ids of the open boxes, as they were opened."""
        return tuple(dict.fromkeys((*self._opened, *self._shown)))

    def expand(self, name: str) -> None:
        """Open a box, by its id or its module's path, and those around it.

        Raises:
            NotFoundError: there is no such box.
        """
        box = self._box(name)
        around = [each.id for each in box.around()]
        for each in (*reversed(around), box.id):
            self._opened.pop(each, None)
            self._opened[each] = None
        self._make_room(keep={box.id, *around})
        self._changed(box.id)

    def collapse(self, name: str) -> None:
        """Close a box, by its id or its module's path; open boxes inside it stay open for the next time.

        Raises:
            NotFoundError: there is no such box.
        """
        box = self._box(name)
        self._opened.pop(box.id, None)
        self._shown = tuple(each for each in self._shown if each != box.id)
        self._changed(box.id)

    def expand_all(self) -> None:
        """Open boxes from the outside in, as many as can be drawn."""
        limit = MAX_SHAPES
        while True:
            self._opened, self._drawing = dict.fromkeys(_first_open(self.tree, limit, modules_only=False)), None
            if limit < FIRST_VIEW or len(self.drawing.shapes) <= MAX_SHAPES:
                break
            limit = limit * 3 // 4
        self._changed("")

    def collapse_all(self) -> None:
        """Close every box."""
        self._opened, self._shown = {}, ()
        self._changed("")

    def open_only(self, boxes: Iterable[str]) -> None:
        """Open these boxes, by their ids, and close all others."""
        self._opened, self._shown = dict.fromkeys(boxes), ()
        self._changed("")

    def reveal(self, node: str) -> bool:
        """Open the boxes around a node, until another node is revealed; returns whether the picture changes."""
        position = self.drawn.position(node)
        path = [box.id for box in self.tree.path_to(position)] if position is not None else []
        before = set(self.opened)
        self._shown = tuple(each for each in path if each not in self._opened)
        self._make_room(keep=set(path))
        if set(self.opened) == before:
            return False
        self._changed("")
        return True

    def _box(self, name: str) -> Box:
        box = self.tree.find(name)
        if box is None:
            raise NotFoundError(f"{self.compile_id} {self.stage} has no box {name!r} to open or close")
        return box

    def _make_room(self, keep: set[str]) -> None:
        """Close the boxes that were opened longest ago until the rest can be drawn."""
        self._drawing = None
        for each in [each for each in self._opened if each not in keep]:
            if count_units(self.tree, set(self.opened)) < MAX_SHAPES and len(self.drawing.shapes) <= MAX_SHAPES:
                return
            del self._opened[each]
            self._drawing = None

    def _changed(self, anchor: str) -> None:
        self._drawing = None
        self.anchor = anchor
        self._observers.tell(self)

    # Colours ----------------------------------------------------------------------------------------------------

    @property
    def colours(self) -> list[str]:
        """The schemes that the graph can be coloured by."""
        return offered(self.lookup, self.compile_id, self.stage, self.measured)

    def colour(self, by: str) -> Row:
        """Colour by ``placement``, ``dtype``, ``memory``, ``error``, ``budget`` or ``time``.

        ``nothing`` shows findings only.

        Raises:
            UsageError: the graph does not offer that.
        """
        painted = self.colours_by(by)
        self.coloured_by = by
        self._observers.tell(self)
        return painted

    def paint(self) -> Row:
        """The colours of the current drawing."""
        return self.colours_by(self.coloured_by)

    def colours_by(self, by: str) -> Row:
        """The colours that the current drawing has by another scheme.

        Raises:
            UsageError: the graph does not offer that.
        """
        return paint(by, self.drawing, self.drawn, self.lookup, (self.compile_id, self.stage), self.measured)

    # Looking ----------------------------------------------------------------------------------------------------

    @property
    def drawing(self) -> Drawing:
        """The drawing with the current open boxes."""
        if self._drawing is None:
            severities: list[str] = [finding.severity for finding in self.lookup.record.findings]
            self._drawing = Painter(self.drawn, self.tree, set(self.opened), self.marks, severities).paint()
        return self._drawing

    def picture(self, *, timeout: float = SECONDS) -> Row:
        """The SVG, and the nodes of each of its shapes and frames by the ``<title>`` of their groups in it.

        ``anchor`` is the box that was opened or closed last, whose position a panel keeps; ``opened`` and ``closed``
        count boxes; ``colours`` has name and title of each colouring. Takes as long as the layout does.
        """
        key = self.opened
        if key not in self._pictures:
            drawing = self.drawing
            geometry, problem = place(drawing, timeout=timeout)
            self._pictures[key] = drawing, self._picture(drawing, to_svg(drawing, geometry), problem)
            while len(self._pictures) > _PICTURES_KEPT:
                del self._pictures[next(iter(self._pictures))]
        self._drawing, picture = self._pictures[key]
        return {**picture, "anchor": self.anchor}

    def lit(self, selection: Selection) -> list[str]:
        """The ids of the shapes that show the selection: a node, or all nodes of a line."""
        if selection["node"]:
            here = (selection["compile_id"], selection["stage"]) == (self.compile_id, self.stage)
            return self.drawing.drawn_as(selection["node"], self.drawn) if here else []
        positions = self._positions_of_line.get(f"{selection['label']}:{selection['line']}", [])
        return list(dict.fromkeys(self.drawing.unit_at(position).id for position in positions))

    def search(self, text: str) -> Row:
        """The nodes that every word of ``text`` names: how many, the names of the first, where drawn.

        A word may be of a node's name or op (also that which it is a part of), of its module's path or class, or of
        its line, as ``model.py:12``.

        ``of`` has the number of hits in each drawn shape that has any.
        """
        wanted = text.lower().split()
        found = [name for name, words_of in self.search_texts if all(word in words_of for word in wanted)]
        of: dict[str, int] = {}
        for name in found if wanted else ():
            for shape in self.drawing.drawn_as(name, self.drawn)[:1]:
                of[shape] = of.get(shape, 0) + 1
        return Row(text=text, count=len(found) if wanted else 0, names=found[:_NAMES_SENT] if wanted else [], of=of)

    def __str__(self) -> str:
        """The open boxes and drawn ops as an outline."""
        depth = {"": 0}
        lines = [f"{self.compile_id} {self.stage}: {self._note()}"]
        frames = {
            frame.start: [f for f in self.drawing.frames if f.start == frame.start] for frame in self.drawing.frames
        }
        for shape in self.drawing.shapes[: self.drawing.units]:
            for frame in frames.pop(shape.start, ()):
                lines.append("  " * depth[frame.frame] + f"  ▾ {frame.title}")
                depth[frame.id] = depth[frame.frame] + 1
            mark = "▸ " if shape.kind == "group" else ""
            lines.append("  " * depth[shape.frame] + f"  {mark}{' · '.join(shape.label)}")
        return "\n".join(lines)

    # Inside -----------------------------------------------------------------------------------------------------

    @cached_property
    def marks(self) -> dict[str, tuple[int, ...]]:
        """The findings on the graph's nodes."""
        return marks_of(self.lookup, self.compile_id, self.stage) if self._marked else {}

    @cached_property
    def search_texts(self) -> list[tuple[str, str]]:
        """Each node with all that a person may call it by."""
        return [(node.name, _names_of(node)) for node in self.drawn.graph.nodes if node.op != "output"]

    @property
    def positions(self) -> dict[str, int]:
        """Each node with the position of the op that it is drawn as."""
        return {**self.drawn.readers, **self.drawn.host}

    @cached_property
    def _positions_of_line(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for position, node in enumerate(self.drawn.ops):
            for key in _lines_of(node):
                found.setdefault(key, []).append(position)
        return found

    def _note(self) -> str:
        calls, units = len(self.drawn.graph.calls), self.drawing.units
        return f"{words.count(calls, 'op')} in {words.count(units, 'shape')}" if units < calls else ""

    def _picture(self, drawing: Drawing, svg: str, problem: str) -> Row:
        return Row(
            compile_id=self.compile_id,
            stage=self.stage,
            svg=svg,
            nodes={shape.id: self._node(shape) for shape in drawing.shapes},
            frames={frame.id: Row(box=frame.box, title=frame.title) for frame in drawing.frames},
            note=". ".join(filter(None, [self._note(), problem])),
            anchor="",
            opened=len(drawing.frames),
            closed=sum(shape.kind == "group" for shape in drawing.shapes),
            colours=[[by, TITLES[by]] for by in self.colours],
        )

    def _node(self, shape: Shape) -> Row:
        """One drawn shape: the nodes that it stands for (not those of a closed box), and what a click on it selects."""
        node = self._chosen_by(shape)
        chosen = self.lookup.of_node(self.compile_id, self.stage, node)
        return Row(
            kind="copy" if shape.kind == "input" else shape.kind,
            names=list(shape.names) if len(shape.names) <= _NAMES_SENT else [],
            title=self._title(shape, node),
            box=shape.box,
            findings=list(shape.findings),
            lines=_lines_of(node) if shape.kind == "node" else [],
            finding=chosen["finding"],
            node=chosen["node"],
            label=chosen["label"],
            line=chosen["line"],
        )

    def _chosen_by(self, shape: Shape) -> NodeRecord:
        """The node that a click on a shape selects: one with a finding if there is one, else the op itself."""
        by_name = self.drawn.graph.by_name
        names = shape.names or tuple(node.name for node in self.drawn.ops[shape.start : shape.end][-1:])
        if shape.findings and not shape.names:
            names = tuple(name for name in self.marks if shape.start <= self.drawn.host.get(name, -1) < shape.end)
        marked = next((name for name in names if name in self.marks), names[0])
        return by_name[marked]

    def _title(self, shape: Shape, node: NodeRecord) -> str:
        """The text of a shape's tooltip."""
        if shape.kind == "group":
            return "\n".join([*shape.label, "Click to open"])
        facts = [node.name, node.target if node.is_call else node.role, node.module_path or node.origin]
        more = f"and {len(shape.names) - 1:,} more" if len(shape.names) > 1 else ""
        return "\n".join(filter(None, [*map(plain, facts), *shape.label[1:2], more]))


_MEASURED = ("localization", "error_budget", "kernel_times")
"""The parts of a record that graphs are coloured by."""


class GraphViews:
    """The graph views of one session, each made at its first use."""

    def __init__(self, record: SessionRecord, *, lookup: Lookup | None = None) -> None:
        self.record = record
        self._lookup = lookup or Lookup(record)
        self.measured = Measured(
            errors_by_graph(record.localization, self._lookup.graphs),
            shares_by_graph(record.error_budget, self._lookup),
            times_by_graph(record.kernel_times, self._lookup),
        )
        self._views: dict[tuple[str, str], GraphView] = {}
        self._observers = Observers()

    def follow(self, record: SessionRecord) -> bool:
        """Show this record from now on, if it has these graphs, errors and shares, and maybe more stages."""
        own = self.record
        if any(getattr(own, each) is not getattr(record, each) for each in _MEASURED):
            return False
        if own.captures is not record.captures:
            lookup = Lookup(record)
            if any(lookup.graphs.get(key) is not graph for key, graph in self._lookup.graphs.items()):
                return False
            self._lookup = lookup
        self.record = record
        return True

    def of(self, compile_id: str = "", stage: str = "") -> GraphView:
        """The view of one graph; without a compile id the first that has the stage, without a stage its best one.

        Raises:
            NotFoundError: there is no such graph.
        """
        found = next(
            (
                (known, each)
                for each in ([stage] if stage else STAGE_PREFERENCE)
                for known, have in self._lookup.graphs
                if have == each and compile_id in ("", known)
            ),
            (compile_id, stage),
        )
        if found not in self._views:
            self._views[found] = GraphView(self._lookup, *found, measured=self.measured, observers=self._observers)
        return self._views[found]

    def on_change(self, observer: Callable[[GraphView], None]) -> Callable[[], None]:
        """Call ``observer`` with each view in which something was opened, closed or coloured; the answer ends that."""
        return self._observers.add(observer)


def _first_open(tree: Tree, limit: int, *, modules_only: bool = True) -> list[str]:
    """The boxes that are open at first: from the outside in, while at most ``limit`` shapes are drawn.

    Repeats and sections stay closed, because their point is to hide what repeats. A graph of few ops is fully open.
    """
    everything = len(tree.ops) <= (_ALL_OPS if limit >= FIRST_VIEW else limit)
    seen = len(tree.root.items)
    opened: list[str] = []
    waiting = [tree.root]
    for box in waiting:  # grows while it is walked
        for item in box.items:
            if not isinstance(item, Box) or (item.kind != "module" and modules_only and not everything):
                continue
            if seen - 1 + len(item.items) <= limit or everything:
                seen += len(item.items) - 1
                opened.append(item.id)
                waiting.append(item)
    return opened


def _lines_of(node: NodeRecord) -> list[str]:
    """The model's own line of a node and the cell's, each once."""
    return list(dict.fromkeys(line_key(line) for line in (node.source, node.cell) if line))


def _names_of(node: NodeRecord) -> str:
    """All that a person may call a node by, in lower case."""
    names = [node.name, node.target, node.module_path, node.module_type, node.origin, node.composite, *node.origins]
    names += [line_key(line) for line in (node.source, node.cell) if line]
    return " ".join(names).lower()
