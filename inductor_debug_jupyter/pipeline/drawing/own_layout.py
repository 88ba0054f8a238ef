"""Drawing → geometry: a layered layout, linear apart from sorting rows.

Frames are laid out from the inside out: what is in a frame becomes rows, and the finished frame is one large shape of
the frame around it. Within one frame a shape's row is its longest path from the top, an input or portal stands in the
row above its consumer, rows are ordered by where their neighbours stand (a few sweeps), and each shape is then moved
towards them as far as the row allows. An arrow that passes a row has a narrow place of its own there (a *lane*), so
that no shape hides it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise

from inductor_debug_jupyter.pipeline.drawing.geometry import FRAME_TITLE, Geometry, Rect, is_beside, size_of, text_width
from inductor_debug_jupyter.pipeline.drawing.painter import Drawing

_GAP = 12.0
_ROW_GAP = 22.0
_MARGIN = 8.0
_SWEEPS = 4
_MAX_ROW = 2_400.0
"""A row that would become wider than this is broken into several."""
_LANE = 6.0
_LIGHT = 0.05
"""How much a small shape counts against a large one for a place in the row."""

_Sizes = dict[str, tuple[float, float]]
_Ends = tuple[str, str]


@dataclass(slots=True)
class _Level:
    """The members of one frame: ids of its shapes and of the frames in it, with the arrows between them.

    ``lanes`` has the lanes of an arrow that passes rows, from the top down; they are members then.
    """

    members: list[str] = field(default_factory=list)
    before: dict[str, dict[str, None]] = field(default_factory=dict)
    after: dict[str, dict[str, None]] = field(default_factory=dict)
    lanes: dict[_Ends, list[str]] = field(default_factory=dict)


def layered(drawing: Drawing) -> Geometry:
    """The geometry of a drawing."""
    sizes = {shape.id: size_of(shape) for shape in drawing.shapes}
    levels, inside = _levels(drawing)
    beside = {shape.id for shape in drawing.shapes if is_beside(shape)}
    places: dict[str, dict[str, tuple[float, float]]] = {}
    for frame in reversed(drawing.frames):
        places[frame.id], (width, height) = _arrange(levels[frame.id], sizes, beside)
        width = max(width, text_width(frame.title, 10.0) + 34)
        sizes[frame.id] = (width + 2 * _MARGIN, height + 2 * _MARGIN + FRAME_TITLE)
    places[""], (width, height) = _arrange(levels[""], sizes, beside)
    rects = {"": Rect(-_MARGIN, -_MARGIN - FRAME_TITLE, width, height)}
    for name in ("", *(frame.id for frame in drawing.frames)):
        left, top = rects[name].x + _MARGIN, rects[name].y + _MARGIN + FRAME_TITLE
        for member, (x, y) in places[name].items():
            rects[member] = Rect(left + x, top + y, *sizes[member])
    frames = {frame.id: rects[frame.id] for frame in drawing.frames}
    shapes = {name: rect for name, rect in rects.items() if name and name not in frames}
    stops = {(tail, head): (tail, *levels[at].lanes.get(ends, ()), head) for (tail, head), (at, ends) in inside.items()}
    edges = [(tail, head, _curve([shapes[name] for name in names])) for (tail, head), names in stops.items()]
    return Geometry(width, height, shapes, frames, edges)


def _levels(drawing: Drawing) -> tuple[dict[str, _Level], dict[_Ends, tuple[str, _Ends]]]:
    """Frame → its level, and for each arrow the innermost frame that holds both of its ends, with its members there."""
    around: dict[str, str] = {frame.id: frame.frame for frame in drawing.frames}
    around |= {shape.id: shape.frame for shape in drawing.shapes}
    levels = {"": _Level()} | {frame.id: _Level() for frame in drawing.frames}
    for name, frame in around.items():
        levels[frame].members.append(name)
    inside = {edge: _parting(*edge, around) for edge in drawing.edges}
    for frame, (source, target) in inside.values():
        if source != target:
            levels[frame].before.setdefault(target, {})[source] = None
            levels[frame].after.setdefault(source, {})[target] = None
    return levels, inside


def _parting(tail: str, head: str, around: dict[str, str]) -> tuple[str, _Ends]:
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
    level: _Level, sizes: _Sizes, beside: set[str]
) -> tuple[dict[str, tuple[float, float]], tuple[float, float]]:
    """The upper left corner of each member, and the size of the whole level."""
    rows, steady = _rows(level, beside)
    sizes |= {lane: (_LANE, 0.0) for lanes in level.lanes.values() for lane in lanes}
    _order(rows, steady)
    rows = [part for row in rows for part in _broken(row, sizes)]
    middles = _spread(rows, steady, sizes, beside)
    left = min((middles[name] - sizes[name][0] / 2 for name in middles), default=0.0)
    corners: dict[str, tuple[float, float]] = {}
    y = 0.0
    for row in rows:
        height = max(sizes[name][1] for name in row)
        for name in row:
            if sizes[name] == (_LANE, 0.0):
                sizes[name] = (_LANE, height)
            width, own = sizes[name]
            corners[name] = (middles[name] - width / 2 - left, y + (height - own) / (1 if name in beside else 2))
        y += height + _ROW_GAP
    right = max((corners[name][0] + sizes[name][0] for name in corners), default=0.0)
    return corners, (right, max(0.0, y - _ROW_GAP))


def _rows(level: _Level, beside: set[str]) -> tuple[list[list[str]], _Level]:
    """Members and lanes by rank, and the neighbours in the next rows by which they are placed.

    A shape is placed by its large sources where it has any.
    """
    rank, rows, steady = _ranks(level, beside), defaultdict[int, list[str]](list), _Level()
    for name in level.members:
        rows[rank[name]].append(name)
    for source, target in [(source, target) for target, sources in level.before.items() for source in sources]:
        lanes = {f"{source}>{target}>{at}": at for at in range(rank[source] + 1, rank[target])}
        level.lanes[source, target] = list(lanes)
        for lane, at in lanes.items():
            rows[at].append(lane)
        for one, other in pairwise([source, *lanes, target]):
            steady.after.setdefault(one, {})[other] = None
            if source not in beside or beside.issuperset(level.before[target]):
                steady.before.setdefault(other, {})[one] = None
    return [rows[at] for at in sorted(rows)], steady


def _ranks(level: _Level, beside: set[str]) -> dict[str, int]:
    """Each member as high as its sources allow; small ones move down to just above their consumer."""
    rank: dict[str, int] = {}
    order = [*TopologicalSorter({name: level.before.get(name, ()) for name in level.members}).static_order()]
    for name in order:
        rank[name] = max((rank[source] + 1 for source in level.before.get(name, ())), default=0)
    for name in reversed(order):
        targets = level.after.get(name, ())
        if targets and (name in beside or not level.before.get(name)):
            rank[name] = min(rank[target] for target in targets) - 1
    return rank


def _order(rows: list[list[str]], level: _Level) -> None:
    """Sort each row by the mean place of its members' neighbours in the row before, then after, and so on."""
    at = {name: float(number) for row in rows for number, name in enumerate(row)}
    for sweep in range(_SWEEPS):
        neighbours = level.before if sweep % 2 == 0 else level.after
        for row in rows if sweep % 2 == 0 else reversed(rows):
            row.sort(key=lambda name: _mean(neighbours.get(name, ()), at, at[name]))
            for number, name in enumerate(row):
                at[name] = number - (len(row) - 1) / 2


def _mean(names: dict[str, None] | tuple[()], at: dict[str, float], default: float) -> float:
    return sum(at[name] for name in names) / len(names) if names else default


def _broken(row: list[str], sizes: _Sizes) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    width = 0.0
    for name in row:
        if parts[-1] and width + sizes[name][0] > _MAX_ROW:
            parts.append([])
            width = 0.0
        parts[-1].append(name)
        width += sizes[name][0] + _GAP
    return parts


def _spread(rows: list[list[str]], level: _Level, sizes: _Sizes, beside: set[str]) -> dict[str, float]:
    """The x of each member's middle: as near to its neighbours as the other members of its row allow."""
    middles = _centred(rows, sizes)
    for sweep in range(2 * _SWEEPS):
        neighbours = level.before if sweep % 2 == 0 else level.after
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [_mean(neighbours.get(name, ()), middles, middles[name]) for name in row]
            for name, x in zip(row, _apart(row, wanted, sizes, beside), strict=True):
                middles[name] = x
    return middles


def _centred(rows: list[list[str]], sizes: _Sizes) -> dict[str, float]:
    """The x of each member's middle when every row is centred around 0, without spare room."""
    middles: dict[str, float] = {}
    for row in rows:
        x = -(sum(sizes[name][0] + _GAP for name in row) - _GAP) / 2
        for name in row:
            middles[name] = x + sizes[name][0] / 2
            x += sizes[name][0] + _GAP
    return middles


def _apart(row: list[str], wanted: list[float], sizes: _Sizes, beside: set[str]) -> list[float]:
    """The positions nearest to the wanted ones that keep order and distance; small shapes give way to large ones.

    Least squares by pooling: without the room that shapes need, positions must not decrease, so neighbours that would
    overlap become one block, which stands at the weighted mean of its members.
    """
    blocks: list[tuple[float, float, int]] = []
    offsets: list[float] = []
    for number, name in enumerate(row):
        room = (sizes[row[number - 1]][0] + sizes[name][0]) / 2 + _GAP if number else 0.0
        offsets.append(offsets[-1] + room if offsets else 0.0)
        mean, weight, members = wanted[number] - offsets[-1], _LIGHT if name in beside else 1.0, 1
        while blocks and blocks[-1][0] > mean:
            other, heavy, count = blocks.pop()
            mean = (other * heavy + mean * weight) / (heavy + weight)
            weight, members = weight + heavy, members + count
        blocks.append((mean, weight, members))
    places = [mean for mean, _, members in blocks for _ in range(members)]
    return [place + offset for place, offset in zip(places, offsets, strict=True)]


def _curve(stops: list[Rect]) -> list[tuple[float, float]]:
    """A gentle curve from the bottom of the first shape to the top of the last, straight down the lanes between."""
    points = [(stops[0].middle, stops[0].y + stops[0].height)]
    for at, stop in enumerate(stops[1:], 2):
        (x1, y1), x2 = points[-1], stop.middle
        bend = max(8.0, (stop.y - y1) / 2)
        points += [(x1, y1 + bend), (x2, stop.y - bend), (x2, stop.y)]
        if at < len(stops):
            points += [(x2, stop.y), (x2, stop.y + stop.height), (x2, stop.y + stop.height)]
    return points
