"""GraphRecord → drawing → DOT.

Graphviz takes minutes on a real graph because of its long edges, so they are taken out first: the near end of an edge
that spans many ranks becomes a small *portal* that names the far node; inputs and attributes are drawn again beside
each consumer; edges into ``output`` are dropped. Graphs beyond :data:`MAX_CALLS` are collapsed by module.

Node ids in DOT are indices (``n12``), never names. A label is data: see :func:`_quoted`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord
from inductor_debug_jupyter.pipeline.views import words
from inductor_debug_jupyter.pipeline.views.collapse import Unit, collapse
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.shapes import PictureNode
from inductor_debug_jupyter.pipeline.views.words import ICONS, RANK, label_of, plain

MAX_CALLS = 400
LONG_EDGE = 5
"""An edge over more ranks than this gets a portal."""
_LABEL = 34
_GROUP_INPUTS = 2
"""A group with more inputs than this shows them as one shape."""
_CURVED = 150
"""Up to so many nodes edges are curved; beyond, straight ones are much faster to lay out."""

_SEVERITY_STYLE = {
    "error": 'shape=box, peripheries=2, color="#D55E00", penwidth=2',
    "warning": 'shape=box, style="filled,diagonals", color="#E69F00", penwidth=2',
    "info": 'shape=box, style="filled,dashed", color="#0072B2", penwidth=1.6',
}
_BESIDE = {"input", "copy", "portal"}
_KIND_STYLE = {
    "group": 'style="filled,rounded", penwidth=1.6',
    "copy": 'shape=ellipse, fillcolor="#F2F2F2", fontsize=8, margin="0.02,0.01", height=0.2',
    "portal": 'shape=cds, fillcolor="#F2F2F2", fontsize=8, margin="0.06,0.02", height=0.2',
}


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One shape of the picture, and the nodes of the record that it stands for.

    ``kind`` is as in :class:`~inductor_debug_jupyter.pipeline.views.shapes.PictureNode`, or ``input`` for the first
    drawing of an input or attribute.
    """

    id: str
    kind: str
    names: tuple[str, ...]
    label: tuple[str, ...]
    severity: str = ""
    findings: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes and arrows; ``note`` says what was simplified."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[tuple[str, str], ...]
    note: str = ""


Marks = dict[str, tuple[int, ...]]
"""Node name → indices of its findings, worst first."""


def marks_of(lookup: Lookup, compile_id: str, stage: str) -> Marks:
    """The findings on the nodes of one graph."""
    return {
        name: tuple(findings)
        for (of_compile, of_stage, name), findings in lookup.by_node.items()
        if of_compile == compile_id and of_stage == stage
    }


def draw(graph: GraphRecord, marks: Marks, severities: list[str], *, limit: int = MAX_CALLS) -> Drawing:
    """The decluttered picture of ``graph``.

    Args:
        graph: what to draw.
        marks: the findings on its nodes.
        severities: the severity of each finding, by index.
        limit: collapse by module when more nodes than this compute something.
    """
    return _Painter(graph, marks, severities, limit).paint()


class _Painter:
    """Builds one drawing; every shape gets the next index as its id."""

    def __init__(self, graph: GraphRecord, marks: Marks, severities: list[str], limit: int) -> None:
        self.graph, self.marks, self.severities = graph, marks, severities
        self.units = collapse(graph.calls, limit)
        self.unit_of = {node.name: number for number, unit in enumerate(self.units) for node in unit.nodes}
        self.nodes: list[DrawnNode] = []
        self.edges: dict[tuple[str, str], None] = {}
        self.drawn_inputs: set[str] = set()
        self.portals: dict[tuple[int, int], None] = {}

    def paint(self) -> Drawing:
        ids = [self._add(self._unit_shape(unit)) for unit in self.units]
        ranks = self._ranks()
        for number, unit in enumerate(self.units):
            for source in self._units_before(number, unit):
                self._connect(source, number, ids, ranks)
            for inputs in self._inputs_before(unit):
                self.edges[self._add(self._input_shape(*inputs)), ids[number]] = None
        for node in self.graph.nodes:
            unused = not node.is_call and node.op != "output" and node.name not in self.drawn_inputs
            if unused or (node.op == "output" and node.name in self.marks):
                self._add(self._input_shape(node))
        return Drawing(tuple(self.nodes), tuple(self.edges), self._note())

    def _note(self) -> str:
        calls = len(self.graph.calls)
        return f"{calls:,} ops drawn as {len(self.units):,} groups, by module" if len(self.units) < calls else ""

    def _units_before(self, number: int, unit: Unit) -> list[int]:
        """The other units that flow into this one, each once."""
        found = (self.unit_of.get(name, number) for node in unit.nodes for name in node.inputs)
        return [source for source in dict.fromkeys(found) if source != number]

    def _inputs_before(self, unit: Unit) -> list[tuple[NodeRecord, ...]]:
        """The inputs of a unit, each to be drawn by itself; the many of a group as one, except those with findings."""
        names = dict.fromkeys(name for node in unit.nodes for name in node.inputs if name not in self.unit_of)
        inputs = [node for name in names if (node := self.graph.node(name)) is not None]
        if len(unit.nodes) == 1 or len(inputs) <= _GROUP_INPUTS:
            return [(node,) for node in inputs]
        quiet = tuple(node for node in inputs if node.name not in self.marks)
        return [*((node,) for node in inputs if node.name in self.marks), *([quiet] if quiet else [])]

    def _connect(self, source: int, number: int, ids: list[str], ranks: list[int]) -> None:
        if ranks[number] - ranks[source] <= LONG_EDGE:
            self.edges[ids[source], ids[number]] = None
        elif (source, number) not in self.portals:
            self.portals[source, number] = None
            far = self.nodes[source]  # units were added first, so a unit's number is its shape's
            shape = DrawnNode("", "portal", far.names[-1:], (f"↥ {words.clip(far.label[0], 22)}",))
            self.edges[self._add(shape), ids[number]] = None

    def _ranks(self) -> list[int]:
        """Longest path from the top, as dot will rank them; edges only go forward.

        What hangs on inputs alone (a weight's transpose) is then moved down to its first consumer, where dot puts it
        too.
        """
        ranks = [0] * len(self.units)
        light = [True] * len(self.units)
        consumers: list[list[int]] = [[] for _ in self.units]
        for number, unit in enumerate(self.units):
            inputs = {self.unit_of[name] for node in unit.nodes for name in node.inputs if name in self.unit_of}
            before = [source for source in inputs if source < number]
            for source in before:
                consumers[source].append(number)
            ranks[number] = max((ranks[source] + 1 for source in before), default=0)
            light[number] = all(light[source] for source in before) and len(before) <= 1
        for number in reversed(range(len(self.units))):
            if light[number] and consumers[number]:
                ranks[number] = min(ranks[consumer] for consumer in consumers[number]) - 1
        return ranks

    def _add(self, shape: DrawnNode) -> str:
        named = replace(shape, id=f"n{len(self.nodes)}")
        self.nodes.append(named)
        return named.id

    def _marked(self, kind: str, names: tuple[str, ...], label: tuple[str, ...]) -> DrawnNode:
        found = {index for name in names for index in self.marks.get(name, ())}
        ordered = sorted(found, key=lambda index: (RANK[self.severities[index]], index))
        severity = self.severities[ordered[0]] if ordered else ""
        icon = f"{ICONS[severity]} " if severity else ""
        return DrawnNode("", kind, names, (icon + label[0], *label[1:]), severity, tuple(ordered))

    def _unit_shape(self, unit: Unit) -> DrawnNode:
        last = unit.nodes[-1]
        tensor = words.short_tensor(last.tensor) if last.tensor else ""
        names = tuple(node.name for node in unit.nodes)
        if len(unit.nodes) == 1:
            return self._marked("node", names, (plain(words.op_of(last)), tensor))
        path = plain(unit.path) or "outside modules"
        head = path if len(path) <= _LABEL else "…" + path[1 - _LABEL :]
        return self._marked("group", names, (head, f"{words.count(len(names), 'op')} → {tensor}" if tensor else ""))

    def _input_shape(self, *nodes: NodeRecord) -> DrawnNode:
        names = tuple(node.name for node in nodes)
        kind = "copy" if self.drawn_inputs.issuperset(names) else "input"
        self.drawn_inputs.update(names)
        if len(nodes) > 1:
            return self._marked(kind, names, (words.count(len(names), "input"), ""))
        tensor = words.short_tensor(nodes[0].tensor) if nodes[0].tensor else ""
        return self._marked(kind, names, (plain(_short_origin(nodes[0])), tensor))


def _short_origin(node: NodeRecord) -> str:
    """``encoder.layer.0.output.dense.weight`` → ``…dense.weight``: the graph around it says the rest."""
    parts = node.origin.split(".")
    return f"…{'.'.join(parts[-2:])}" if len(parts) > 2 else node.origin or node.name


def to_dot(drawing: Drawing) -> str:
    """The drawing in graphviz's language."""
    splines = "true" if len(drawing.nodes) <= _CURVED else "line"
    lines = [
        "digraph {",
        f"graph [rankdir=TB, splines={splines}, nodesep=0.18, ranksep=0.28, bgcolor=transparent, pad=0.1];",
        'node [shape=box, style=filled, fillcolor=white, color="#666666", margin="0.09,0.04", height=0.3];',
        'node [fontname="Helvetica,Arial,sans-serif", fontsize=10];',
        'edge [color="#888888", arrowsize=0.5];',
    ]
    for node in drawing.nodes:
        kind = "copy" if node.kind == "input" else node.kind
        style = [_KIND_STYLE.get(kind, ""), _SEVERITY_STYLE.get(node.severity, "")]
        classes = " ".join(filter(None, [f"idj-{kind}", node.severity and f"idj-{node.severity}"]))
        attributes = ", ".join(filter(None, [f"label={_quoted(node.label)}", f'class="{classes}"', *style]))
        lines.append(f"{node.id} [{attributes}];")
    inputs = {node.id for node in drawing.nodes if node.kind in _BESIDE}
    for tail, head in drawing.edges:
        lines.append(f"{tail} -> {head}{'' if tail in inputs else ' [weight=6]'};")  # heavy edges are drawn straight
    return "\n".join([*lines, "}"])


def _quoted(label: tuple[str, ...]) -> str:
    r"""A label as a DOT string in which nothing is special.

    Inside quotes DOT knows ``\"``, escapes such as ``\N`` and ``\n``, and HTML entities; so backslashes, quotes and
    ampersands are doubled or spelled out, and unprintable characters were replaced by :func:`words.plain` before.
    """
    escaped = (
        words.clip(plain(part), _LABEL).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
        for part in label
        if part
    )
    return '"' + "\\n".join(escaped) + '"'


def picture_nodes(drawing: Drawing, lookup: Lookup, compile_id: str, stage: str) -> dict[str, PictureNode]:
    """Drawn id → what it stands for and what choosing it selects."""
    graph = lookup.graphs[compile_id, stage]
    return {shape.id: _picture_node(shape, graph, lookup, compile_id, stage) for shape in drawing.nodes}


def _picture_node(shape: DrawnNode, graph: GraphRecord, lookup: Lookup, compile_id: str, stage: str) -> PictureNode:
    nodes = [graph.by_name[name] for name in shape.names]
    marked = next((node for node in nodes if (compile_id, stage, node.name) in lookup.by_node), nodes[-1])
    lines = dict.fromkeys(f"{label_of(line)}:{line.line}" for node in nodes if (line := node.cell or node.source))
    first = nodes[0]
    told = [first.target if first.is_call else "", first.module_path]
    if len(nodes) > 1:
        told = [shape.label[0], f"{nodes[0].name} … {nodes[-1].name}"]
    search = [shape.label[0], *(f"{node.name} {node.target} {node.module_path}" for node in nodes[:50])]
    return PictureNode(
        names=list(shape.names),
        kind="node" if shape.kind == "input" else shape.kind,
        title="\n".join(
            filter(None, [plain(first.name) if len(nodes) == 1 else "", *map(plain, told), *shape.label[1:]])
        ),
        findings=list(shape.findings),
        lines=list(lines),
        selection=lookup.of_node(compile_id, stage, marked),
        search=" ".join(search).lower(),
    )
