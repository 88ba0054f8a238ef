"""A graph with some boxes open → a drawing: shapes, frames around open boxes, and arrows.

Graphviz takes minutes on a real graph because of its long edges, so they are taken out first: the near end of an edge
that spans many ranks becomes a small *portal* that names the far shape; inputs are drawn again beside each consumer;
parameters and constants are only named in the box that reads them; edges into ``output`` are dropped.

Ids of shapes and frames are indices (``n12``, ``c3``), never names.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.drawing.declutter import Drawn, kept_by_model
from inductor_debug_jupyter.pipeline.drawing.folding import Box, Tree, shared_length
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import NodeRecord
from inductor_debug_jupyter.pipeline.views import labels
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.words import ICONS, RANK, clip

LONG_EDGE = 5
"""An edge over more ranks than this gets a portal."""
LABEL = 40
_GROUP_INPUTS = 2
"""A group with more inputs than this shows them as one shape."""
_NAMED = 2
"""So many parameters of an op are named; more are counted."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of the picture, and the nodes of the record that it stands for.

    ``kind`` is ``node``, ``group`` (a closed box), ``input``, ``copy`` (an input that is drawn again beside another
    consumer) or ``portal`` (the near end of a long edge). A group has no ``names``, but the id of its ``box`` and the
    range of its ops.
    """

    id: str
    kind: str
    label: tuple[str, ...]
    names: tuple[str, ...] = ()
    box: str = ""
    start: int = 0
    end: int = 0
    frame: str = ""
    severity: str = ""
    findings: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame around the inside of an open box; ``frame`` is the id of the frame around it."""

    id: str
    box: str
    title: str
    start: int
    end: int
    frame: str = ""


@dataclass(frozen=True)
class Drawing:
    """Shapes and arrows; the first ``units`` shapes are the ops and closed boxes, in execution order."""

    shapes: tuple[Shape, ...]
    frames: tuple[Frame, ...]
    edges: tuple[tuple[str, str], ...]
    units: int
    _starts: list[int] = field(repr=False, default_factory=list)
    _of_input: dict[str, list[str]] = field(repr=False, default_factory=dict)

    def unit_at(self, position: int) -> Shape:
        """The op or closed box that an op is drawn as."""
        return self.shapes[bisect_right(self._starts, position) - 1]

    @property
    def inputs(self) -> dict[str, list[str]]:
        """Each input that has shapes of its own, with their ids."""
        return self._of_input

    def drawn_as(self, name: str, drawn: Drawn) -> list[str]:
        """The ids of the shapes that show a node: its own, its box's, its host's, or that of its first reader."""
        if name in self._of_input:
            return self._of_input[name]
        position = drawn.position(name)
        return [] if position is None else [self.unit_at(position).id]


Marks = dict[str, tuple[int, ...]]
"""Node name → indices of its findings, worst first."""


def marks_of(lookup: Lookup, compile_id: str, stage: str) -> Marks:
    """The findings on the nodes of one graph."""
    return {
        name: tuple(findings)
        for (of_compile, of_stage, name), findings in lookup.by_node.items()
        if of_compile == compile_id and of_stage == stage
    }


def count_units(tree: Tree, opened: Collection[str]) -> int:
    """How many ops and closed boxes are drawn when those boxes are open."""
    total = 0
    waiting = [tree.root]
    while waiting:
        for item in waiting.pop().items:
            if isinstance(item, Box) and item.id in opened:
                waiting.append(item)
            else:
                total += 1
    return total


class Painter:
    """Builds one drawing; every shape gets the next index as its id.

    Args:
        drawn: the ops.
        tree: their boxes.
        opened: ids of the boxes that are open; one inside a closed box is not drawn.
        marks: the findings on the graph's nodes.
        severities: the severity of each finding, by index.
    """

    def __init__(self, drawn: Drawn, tree: Tree, opened: Collection[str], marks: Marks, severities: list[str]) -> None:
        self.drawn, self.tree, self.opened = drawn, tree, opened
        self.marks, self.severities = marks, severities
        self.marked_at: dict[int, list[str]] = {}
        for name in marks:
            if (position := drawn.host.get(name)) is not None:
                self.marked_at.setdefault(position, []).append(name)
        self.marked_positions = sorted(self.marked_at)
        self.shapes: list[Shape] = []
        self.frames: list[Frame] = []
        self.edges: dict[tuple[str, str], None] = {}
        self.of_input: dict[str, list[str]] = {}

    def paint(self) -> Drawing:
        """The picture of the graph."""
        self._add_items(self.tree.root, "")
        units = len(self.shapes)
        unit_of: list[int] = []
        for number, shape in enumerate(self.shapes):
            unit_of += [number] * (shape.end - shape.start)
        before = self._before(unit_of, units)
        ranks = _ranks(before)
        for number, sources in enumerate(before):
            for source in sources:
                self._connect(source, number, ranks)
            self._add_inputs(self.shapes[number])
        self._add_unread()
        starts = [shape.start for shape in self.shapes[:units]]
        return Drawing(tuple(self.shapes), tuple(self.frames), tuple(self.edges), units, starts, self.of_input)

    # Ops, boxes and frames --------------------------------------------------------------------------------------

    def _add_items(self, box: Box, frame: str) -> None:
        for item in box.items:
            if not isinstance(item, Box):
                self._add(self._op_shape(item, frame))
            elif item.id not in self.opened:
                self._add(self._group_shape(item, frame))
            else:
                name = f"c{len(self.frames)}"
                self.frames.append(Frame(name, item.id, self._frame_title(item), item.start, item.end, frame))
                self._add_items(item, name)

    def _frame_title(self, box: Box) -> str:
        where = "" if box.kind == "section" else plain(box.path)
        return " · ".join(filter(None, [box.title, where if where != box.title else ""]))

    def _op_shape(self, position: int, frame: str) -> Shape:
        node = self.drawn.ops[position]
        kept = [each for each in self.drawn.reads[position] if kept_by_model(each) and each.name not in self.marks]
        module = self.tree.alone_in_module(position)
        op = labels.op_of(node)
        head = f"{module}: {op}" if module and module != op else op
        label = (head, labels.short_tensor(node.tensor) if node.tensor else "", _kept_text(kept))
        names = (node.name, *self.drawn.members.get(position, ()))
        return self._marked(Shape("", "node", label, names, "", position, position + 1, frame))

    def _group_shape(self, box: Box, frame: str) -> Shape:
        last = self.drawn.ops[box.end - 1].tensor
        kept = {each.name for nodes in self.drawn.reads[box.start : box.end] for each in nodes if kept_by_model(each)}
        counts = [words.count(box.ops, "op"), words.count(len(kept), "parameter") if kept else ""]
        out = f"→ {labels.short_tensor(last)}" if last else ""
        where = _tail(_where(box))
        label = (box.title, where if where != box.title else "", " · ".join(filter(None, counts)), out)
        return self._marked(Shape("", "group", label, (), box.id, box.start, box.end, frame))

    def _marked(self, shape: Shape, names: Collection[str] = ()) -> Shape:
        if not names and self.marked_positions:
            first = bisect_right(self.marked_positions, shape.start - 1)
            last = bisect_right(self.marked_positions, shape.end - 1)
            names = [name for at in self.marked_positions[first:last] for name in self.marked_at[at]]
        found = {index for name in names for index in self.marks.get(name, ())}
        if not found:
            return shape
        ordered = tuple(sorted(found, key=lambda index: (RANK[self.severities[index]], index)))
        severity = self.severities[ordered[0]]
        label = (f"{ICONS[severity]} {shape.label[0]}", *shape.label[1:])
        return replace(shape, label=label, severity=severity, findings=ordered)

    def _add(self, shape: Shape) -> str:
        named = replace(
            shape, id=f"n{len(self.shapes)}", label=tuple(clip(plain(part), LABEL) for part in shape.label if part)
        )
        self.shapes.append(named)
        return named.id

    # Arrows -----------------------------------------------------------------------------------------------------

    def _before(self, unit_of: list[int], units: int) -> list[list[int]]:
        """For each unit the units that it reads from, each once."""
        before: list[dict[int, None]] = [{} for _ in range(units)]
        for position, sources in enumerate(self.drawn.before):
            unit = unit_of[position]
            for source in sources:
                if unit_of[source] != unit:
                    before[unit][unit_of[source]] = None
        return [list(sources) for sources in before]

    def _connect(self, source: int, number: int, ranks: list[int]) -> None:
        far, near = self.shapes[source], self.shapes[number]
        if ranks[number] - ranks[source] <= LONG_EDGE:
            self.edges[far.id, near.id] = None
            return
        label = (f"↥ {clip(far.label[0], 24)}",)
        names = far.names[:1] or (self.drawn.ops[far.end - 1].name,)
        portal = Shape("", "portal", label, names, far.box, far.start, far.end, near.frame)
        self.edges[self._add(portal), near.id] = None

    # Inputs -----------------------------------------------------------------------------------------------------

    def _add_inputs(self, unit: Shape) -> None:
        """Draw the inputs of a unit, one shape each; more than two of a group share one, except those with findings."""
        nodes = {
            node.name: node
            for some in self.drawn.reads[unit.start : unit.end]
            for node in some
            if node.name in self.marks or not kept_by_model(node)
        }
        if unit.kind == "node" or len(nodes) <= _GROUP_INPUTS:
            for node in nodes.values():
                self._add_input(unit, node)
            return
        quiet = [node for name, node in nodes.items() if name not in self.marks]
        for name, node in nodes.items():
            if name in self.marks:
                self._add_input(unit, node)
        if quiet:
            self._add_input(unit, *quiet)

    def _add_input(self, unit: Shape, *nodes: NodeRecord) -> None:
        names = tuple(node.name for node in nodes)
        kind = "copy" if all(name in self.of_input for name in names) else "input"
        if len(nodes) > 1:
            label: tuple[str, ...] = (words.count(len(names), "input"),)
        else:
            tensor = labels.short_tensor(nodes[0].tensor) if nodes[0].tensor else ""
            label = (_short_origin(nodes[0]), tensor)
        shape = self._marked(Shape("", kind, label, names, frame=unit.frame), names)
        made = self._add(shape)
        for name in names:
            self.of_input.setdefault(name, []).append(made)
        self.edges[made, unit.id] = None

    def _add_unread(self) -> None:
        """Draw inputs that no op reads: one shape for each with findings, one for all others."""
        quiet: list[str] = []
        for node in self.drawn.graph.nodes:
            if node.is_call or node.name in self.drawn.readers:
                continue
            if node.name in self.marks:
                label = (_short_origin(node),)
                made = self._add(self._marked(Shape("", "input", label, (node.name,)), (node.name,)))
                self.of_input[node.name] = [made]
            elif node.op != "output":
                quiet.append(node.name)
        if quiet:
            made = self._add(Shape("", "input", (words.count(len(quiet), "unused input"),), tuple(quiet)))
            self.of_input |= {name: [made] for name in quiet}


def _ranks(before: list[list[int]]) -> list[int]:
    """The longest path from the top to each unit, which is how dot ranks them; edges only go forward.

    A unit that reads inputs only (a weight's transpose) is then moved down to its first consumer, as dot does.
    """
    ranks = [0] * len(before)
    light = [True] * len(before)
    consumers: list[list[int]] = [[] for _ in before]
    for number, sources in enumerate(before):
        for source in sources:
            consumers[source].append(number)
        ranks[number] = max((ranks[source] + 1 for source in sources), default=0)
        light[number] = len(sources) <= 1 and all(light[source] for source in sources)
    for number in reversed(range(len(before))):
        if light[number] and consumers[number]:
            ranks[number] = min(ranks[consumer] for consumer in consumers[number]) - 1
    return ranks


def _kept_text(nodes: list[NodeRecord]) -> str:
    """The parameters of an op: a few by name, many as a count."""
    if len(nodes) > _NAMED:
        return words.count(len(nodes), "parameter")
    names = [
        node.origin.rpartition(".")[2] or ("constant" if node.op != "placeholder" else node.name) for node in nodes
    ]
    return ", ".join(dict.fromkeys(names))


def _where(box: Box) -> str:
    """The module path of a box; for a repeat, from the first to the last module."""
    if box.kind != "repeat":
        return plain(box.path) if box.kind == "module" else ""
    first, last = box.items[0], box.items[-1]
    while isinstance(first, Box) and first.kind == "section":
        first = first.items[0]
    while isinstance(last, Box) and last.kind == "section":
        last = last.items[-1]
    if not isinstance(first, Box) or not isinstance(last, Box):
        return plain(box.path)
    return plain(_from_to(first.path, last.path))


def _from_to(first: str, last: str) -> str:
    """``encoder.layer.0.attention`` to ``encoder.layer.11.attention`` → ``encoder.layer.0…11.attention``."""
    one, other = first.split("."), last.split(".")
    at = shared_length(one, other)
    if at == len(one) or len(one) != len(other):
        return first
    return ".".join([*one[:at], f"{one[at]}…{other[at]}", *one[at + 1 :]])


def _tail(text: str) -> str:
    """The end of a long path, which says more than its beginning."""
    return text if len(text) <= LABEL else "…" + text[1 - LABEL :]


def _short_origin(node: NodeRecord) -> str:
    """``encoder.layer.0.output.dense.weight`` → ``…dense.weight``: the boxes around it show the rest."""
    parts = node.origin.split(".")
    return f"…{'.'.join(parts[-2:])}" if len(parts) > 2 else node.origin or node.name
