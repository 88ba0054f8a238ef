"""The types of the dicts that several views, panels and reports share. All of them are JSON."""

from __future__ import annotations

from typing import TypedDict


class Selection(TypedDict):
    """What the user selected, shared by all panes. Empty strings, 0 and None mean "nothing"."""

    finding: int | None
    compile_id: str
    stage: str
    node: str
    label: str
    line: int
    kernel: str


class FigureView(TypedDict):
    """One figure of the header; clicking it opens ``tab`` (empty: not a link)."""

    text: str
    tab: str
    kind: str


class TabView(TypedDict):
    """One tab of the strip."""

    id: str
    title: str
    badge: str
    kind: str


class HeaderView(TypedDict):
    """The title, the figures and the tabs that have data; ``tab`` opens first."""

    title: str
    figures: list[FigureView]
    tabs: list[TabView]
    tab: str


class PlaceView(TypedDict):
    """One place of a finding. ``deeper`` is the library line behind the cell's own, if it is another one."""

    compile_id: str
    stage: str
    node: str
    op: str
    module_path: str
    label: str
    line: int
    text: str
    deeper: str


class FindingView(TypedDict):
    """One row of the Findings tab with its explanation; ``count`` counts places, also those left out.

    ``groups`` maps ``severity``, ``rule``, ``module`` and ``line`` to the group of the row.
    """

    index: int
    rule_id: str
    severity: str
    icon: str
    title: str
    where: str
    count: int
    observed: str
    allowed: str
    explanation: str
    hints: list[str]
    fixits: list[str]
    places: list[PlaceView]
    selection: Selection
    groups: dict[str, str]
    search: str


class LineView(TypedDict):
    """One line of a user's source; ``findings`` are indices, worst first; ``mark`` is the worst severity or a break."""

    number: int
    text: str
    findings: list[int]
    mark: str
    selection: Selection | None


class SourceView(TypedDict):
    """One cell or file."""

    label: str
    lines: list[LineView]


class StageView(TypedDict):
    """One captured stage; ``nodes`` is None for a stage that is text."""

    stage: str
    nodes: int | None
    calls: int | None


class MissingView(TypedDict):
    """A stage that was not captured, and why."""

    stage: str
    reason: str


class CaptureView(TypedDict):
    """One compile id."""

    compile_id: str
    name: str
    where: str
    stages: list[StageView]
    kernels: int
    missing: list[MissingView]


class ItemView(TypedDict):
    """A next step, graph break or recompile: the user's line, the message and hints; clicking opens ``tab``."""

    where: str
    code: str
    text: str
    hints: list[str]
    kind: str
    tab: str
    selection: Selection | None


class TileView(TypedDict):
    """One figure of the overview; clicking it opens ``tab`` (empty: not a link)."""

    title: str
    value: str
    note: str
    tab: str
    kind: str


class PhaseView(TypedDict):
    """A phase of the compiler and its time; ``share`` is that of all its time, from 0 to 1."""

    name: str
    seconds: str
    share: float


class CrashView(TypedDict):
    """A backend whose process ended: how and where, and the last lines that it wrote."""

    text: str
    stderr: list[str]


class OverviewView(TypedDict):
    """The first page. ``breaks`` and ``recompiles`` are the first of very many; ``counts`` has all."""

    verdict: str
    kind: str
    next: list[ItemView]
    tiles: list[TileView]
    phases: list[PhaseView]
    crashes: list[CrashView]
    counts: dict[str, int]
    captures: list[CaptureView]
    breaks: list[ItemView]
    recompiles: list[ItemView]
    notes: list[str]
    repros: list[str]


class GraphChoice(TypedDict):
    """One graph that can be drawn."""

    compile_id: str
    stage: str
    title: str


class PictureNode(TypedDict):
    """One drawn shape: the nodes of the record that it stands for, and the selection that a click makes.

    ``kind`` is ``node``, ``group`` (a closed box; it names no nodes, there may be thousands), ``copy`` (an input beside
    its consumer) or ``portal`` (the near end of a long edge). ``box`` is the id by which a group is opened.
    ``finding``, ``node``, ``label`` and ``line`` are those of the selection; ``lines`` are ``label:line`` of its nodes.
    """

    kind: str
    names: list[str]
    title: str
    box: str
    findings: list[int]
    lines: list[str]
    finding: int | None
    node: str
    label: str
    line: int


class FrameView(TypedDict):
    """The frame around the inside of an open box; ``box`` is the id by which it is closed."""

    box: str
    title: str


class PictureView(TypedDict):
    """A laid-out graph. Keys of ``nodes`` and ``frames`` are the ``<title>`` of the SVG's groups.

    ``anchor`` is the box that was opened or closed last: a panel keeps its position. ``opened`` is the number of open
    boxes, ``closed`` that of closed boxes that are drawn; ``colours`` has name and title of each colouring.
    """

    compile_id: str
    stage: str
    svg: str
    nodes: dict[str, PictureNode]
    frames: dict[str, FrameView]
    note: str
    anchor: str
    opened: int
    closed: int
    colours: list[list[str]]


class LegendEntry(TypedDict):
    """One class of a colouring: its text, the sign that is drawn on shapes, its colour."""

    text: str
    sign: str
    colour: str


class PaintView(TypedDict):
    """A colouring: the legend, and drawn id → index in it."""

    by: str
    title: str
    legend: list[LegendEntry]
    of: dict[str, int]


class SearchView(TypedDict):
    """The hits of a search: how many nodes, the names of the first, and drawn id → number of hits in it."""

    text: str
    count: int
    names: list[str]
    of: dict[str, int]


class NodeView(TypedDict):
    """Raw detail of one node, as name/value pairs."""

    compile_id: str
    stage: str
    node: str
    title: str
    label: str
    line: int
    text: str
    rows: list[list[str]]
