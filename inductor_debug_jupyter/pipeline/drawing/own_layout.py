"""Our own layered layout: for machines without graphviz, and for drawings that are too large for it.

Frames are laid out from the inside out: what is in a frame becomes rows, and the finished frame is one large shape of
the frame around it. Within one frame a shape's row is its longest path from the top, an input or portal stands in the
row above its consumer, rows are ordered by where their neighbours stand (a few sweeps), and each shape is then moved
towards them as far as the row allows. Linear, apart from sorting rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from inductor_debug_jupyter.pipeline.drawing.drawing import Drawing
from inductor_debug_jupyter.pipeline.drawing.geometry import FRAME_TITLE, Geometry, Rect, is_beside, size_of, text_width

_GAP = 12.0
_ROW_GAP = 22.0
_MARGIN = 8.0
_SWEEPS = 4
_MAX_ROW = 2_400.0
"""A row that would become wider than this is broken into several."""


@dataclass(slots=True)
class _Level:
    """The members of one frame: ids of its shapes and of the frames in it, with the arrows between them."""

    members: list[str] = field(default_factory=list)
    before: dict[str, dict[str, None]] = field(default_factory=dict)
    after: dict[str, dict[str, None]] = field(default_factory=dict)


def layered(drawing: Drawing) -> Geometry:
    """The geometry of a drawing."""
    sizes = {shape.id: size_of(shape) for shape in drawing.shapes}
    levels = _levels(drawing)
    beside = {shape.id for shape in drawing.shapes if is_beside(shape)}
    places: dict[str, dict[str, tuple[float, float]]] = {}
    for frame in reversed(drawing.frames):
        places[frame.id], (width, height) = _arrange(levels[frame.id], sizes, beside)
        width = max(width, text_width(frame.title, 10.0) + 34)
        sizes[frame.id] = (width + 2 * _MARGIN, height + 2 * _MARGIN + FRAME_TITLE)
    places[""], (width, height) = _arrange(levels[""], sizes, beside)
    corners = {"": (0.0, -FRAME_TITLE)}
    shapes: dict[str, Rect] = {}
    frames: dict[str, Rect] = {}
    known = {frame.id for frame in drawing.frames}
    for name in ("", *(frame.id for frame in drawing.frames)):
        left, top = corners[name]
        inset = _MARGIN if name else 0.0
        for member, (x, y) in places[name].items():
            rect = Rect(left + inset + x, top + inset + FRAME_TITLE + y, *sizes[member])
            if member in known:
                frames[member], corners[member] = rect, (rect.x, rect.y)
            else:
                shapes[member] = rect
    edges = [(tail, head, _line(shapes[tail], shapes[head])) for tail, head in drawing.edges]
    return Geometry(width, height, shapes, frames, edges)


def _levels(drawing: Drawing) -> dict[str, _Level]:
    """Frame → its level; an arrow between frames counts in the innermost frame that holds both of its ends."""
    around: dict[str, str] = {frame.id: frame.frame for frame in drawing.frames}
    around |= {shape.id: shape.frame for shape in drawing.shapes}
    levels = {"": _Level()} | {frame.id: _Level() for frame in drawing.frames}
    for name, frame in around.items():
        levels[frame].members.append(name)
    for tail, head in drawing.edges:
        frame, (source, target) = _parting(tail, head, around)
        if source != target:
            levels[frame].before.setdefault(target, {})[source] = None
            levels[frame].after.setdefault(source, {})[target] = None
    return levels


def _parting(tail: str, head: str, around: dict[str, str]) -> tuple[str, tuple[str, str]]:
    """The innermost frame that holds both ends, and the member of that frame in which each end is."""
    above_tail = {"": tail}
    name = tail
    while around[name]:
        above_tail[around[name]] = name
        name = around[name]
    above_tail[""] = name
    name = head
    while around[name] not in above_tail:
        name = around[name]
    return around[name], (above_tail[around[name]], name)


def _arrange(
    level: _Level, sizes: dict[str, tuple[float, float]], beside: set[str]
) -> tuple[dict[str, tuple[float, float]], tuple[float, float]]:
    """The upper left corner of each member, and the size of the whole level."""
    rows = _ordered(_rows(level, beside), level)
    rows = [part for row in rows for part in _broken(row, sizes)]
    middles = _spread(rows, level, sizes)
    left = min((middles[name] - sizes[name][0] / 2 for name in level.members), default=0.0)
    corners: dict[str, tuple[float, float]] = {}
    y = 0.0
    for row in rows:
        height = max(sizes[name][1] for name in row)
        for name in row:
            width, own = sizes[name]
            corners[name] = (middles[name] - width / 2 - left, y + (height - own) / 2)
        y += height + _ROW_GAP
    right = max((corners[name][0] + sizes[name][0] for name in level.members), default=0.0)
    return corners, (right, max(0.0, y - _ROW_GAP))


def _rows(level: _Level, beside: set[str]) -> list[list[str]]:
    """Members by rank, each as high as its sources allow; small ones move down to just above their consumer."""
    rank: dict[str, int] = {}
    order = [*TopologicalSorter({name: level.before.get(name, ()) for name in level.members}).static_order()]
    for name in order:
        rank[name] = max((rank[source] + 1 for source in level.before.get(name, ())), default=0)
    for name in reversed(order):
        targets = level.after.get(name, ())
        if targets and (name in beside or not level.before.get(name)):
            rank[name] = min(rank[target] for target in targets) - 1
    lowest = min(rank.values(), default=0)
    rows: dict[int, list[str]] = {}
    for name in level.members:
        rows.setdefault(rank[name] - lowest, []).append(name)
    return [rows[at] for at in sorted(rows)]


def _ordered(rows: list[list[str]], level: _Level) -> list[list[str]]:
    """The rows, sorted by the mean place of each shape's neighbours in the row before, then after, and so on."""
    at = {name: float(number) for row in rows for number, name in enumerate(row)}
    for sweep in range(_SWEEPS):
        neighbours = level.before if sweep % 2 == 0 else level.after
        for row in rows if sweep % 2 == 0 else reversed(rows):
            row.sort(key=lambda name: _mean(neighbours.get(name, ()), at, at[name]))
            for number, name in enumerate(row):
                at[name] = number - (len(row) - 1) / 2
    return rows


def _mean(names: dict[str, None] | tuple[()], at: dict[str, float], default: float) -> float:
    return sum(at[name] for name in names) / len(names) if names else default


def _broken(row: list[str], sizes: dict[str, tuple[float, float]]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    width = 0.0
    for name in row:
        if parts[-1] and width + sizes[name][0] > _MAX_ROW:
            parts.append([])
            width = 0.0
        parts[-1].append(name)
        width += sizes[name][0] + _GAP
    return parts


def _spread(rows: list[list[str]], level: _Level, sizes: dict[str, tuple[float, float]]) -> dict[str, float]:
    """The x of each member's middle: as near to its neighbours as the other members of its row allow."""
    middles = _centred(rows, sizes)
    for sweep in range(2 * _SWEEPS):
        neighbours = level.before if sweep % 2 == 0 else level.after
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [_mean(neighbours.get(name, ()), middles, middles[name]) for name in row]
            for name, x in zip(row, _apart(row, wanted, sizes), strict=True):
                middles[name] = x
    return middles


def _centred(rows: list[list[str]], sizes: dict[str, tuple[float, float]]) -> dict[str, float]:
    """The x of each member's middle when every row is centred around 0, without spare room."""
    middles: dict[str, float] = {}
    for row in rows:
        x = -(sum(sizes[name][0] + _GAP for name in row) - _GAP) / 2
        for name in row:
            middles[name] = x + sizes[name][0] / 2
            x += sizes[name][0] + _GAP
    return middles


def _apart(row: list[str], wanted: list[float], sizes: dict[str, tuple[float, float]]) -> list[float]:
    """Positions near the wanted ones that keep order and distance: the mean of a push to the right and to the left."""
    right: list[float] = []
    for number, x in enumerate(wanted):
        if number:
            x = max(x, right[-1] + (sizes[row[number - 1]][0] + sizes[row[number]][0]) / 2 + _GAP)
        right.append(x)
    left = list(wanted)
    for number in range(len(row) - 2, -1, -1):
        room = (sizes[row[number]][0] + sizes[row[number + 1]][0]) / 2 + _GAP
        left[number] = min(left[number], left[number + 1] - room)
    return [(a + b) / 2 for a, b in zip(left, right, strict=True)]


def _line(tail: Rect, head: Rect) -> list[tuple[float, float]]:
    """A gentle curve from the bottom of one shape to the top of the other."""
    x1, y1, x2, y2 = tail.middle, tail.y + tail.height, head.middle, head.y
    bend = max(8.0, (y2 - y1) / 2)
    return [(x1, y1), (x1, y1 + bend), (x2, y2 - bend), (x2, y2)]
