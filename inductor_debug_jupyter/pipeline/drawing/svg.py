"""Drawing and geometry → SVG.

Fills, strokes and the font are attributes, mostly of a few groups, because a static image has no style sheet; what a
panel restyles has a class. The ``<title>`` of a node or frame is its id, by which a panel looks up its nodes. Labels
are escaped text.
"""

from __future__ import annotations

import math
import re
from xml.sax.saxutils import escape

from inductor_debug_jupyter.pipeline.drawing.geometry import FONT, LINE, SMALL, Geometry, Rect, is_beside
from inductor_debug_jupyter.pipeline.drawing.painter import Drawing, Frame, Shape
from inductor_debug_jupyter.pipeline.views.view_types import Row

_PAD = 6.0
_MARKS = {
    "error": ' stroke="#D55E00" stroke-width="2.5"',
    "warning": ' stroke="#B87700" stroke-width="2" stroke-dasharray="7 3"',
    "info": ' stroke="#0072B2" stroke-width="1.6" stroke-dasharray="2 2"',
}
"""Severities differ in the line too, not in colour alone; labels have an icon."""
_ARROW = 4.0
_DRAWN = re.compile(r'<title>(\w+)</title>((?:<rect [^>]*/>)?)(<rect x="([-\d.]+)" y="([-\d.]+)" [^>]*?)/>(?!<rect)')
"""A shape in the picture: its id, the rectangle behind it if it is a box, its own rectangle and where that begins."""


def to_svg(drawing: Drawing, geometry: Geometry) -> str:
    """The drawing at its places, as SVG."""
    width, height = geometry.width + 2 * _PAD, geometry.height + 2 * _PAD
    frames = "".join(_frame(frame, geometry.frames[frame.id]) for frame in drawing.frames)
    edges = "".join(_edge(*edge) for edge in geometry.edges)
    shapes = "".join(_shape(shape, geometry.shapes[shape.id]) for shape in drawing.shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-_PAD:g} {-_PAD:g} {width:.0f} {height:.0f}">'
        f'<g class="graph" font-family="Helvetica,Arial,sans-serif" font-size="{FONT:g}" text-anchor="middle">'
        f'<g class="frames" fill="none" stroke="#999" text-anchor="start">{frames}</g>'
        f'<g class="edges" fill="none" stroke="#888">{edges}</g>'
        f'<g class="nodes" fill="#fff" stroke="#666">{shapes}</g></g></svg>'
    )


def painted(svg: str, paint: Row) -> str:
    """The picture with the colour and the sign of each shape's class, for a page that has no script to draw them."""

    def coloured(found: re.Match[str]) -> str:
        number = paint["of"].get(found[1])
        if number is None:
            return found[0]
        entry = paint["legend"][number]
        x, y = float(found[4]) + 4, float(found[5]) + 10
        at = f'x="{x:.1f}" y="{y:.1f}" font-size="8" text-anchor="start"'
        sign = f'<text {at} fill="#222" stroke="none">{entry["sign"]}</text>'
        rect = f'{found[3]} fill="{entry["colour"]}" fill-opacity="0.4"/>'
        return f"<title>{found[1]}</title>{found[2]}{rect}{sign}"

    return _DRAWN.sub(coloured, svg)


def _frame(frame: Frame, rect: Rect) -> str:
    text = f'<text x="{rect.x + 7:.1f}" y="{rect.y + 14:.1f}" fill="#333" stroke="none">▾ {escape(frame.title)}</text>'
    return f'<g class="frame"><title>{frame.id}</title>{_rect(rect, 6)}{text}</g>'


def _edge(tail: str, head: str, points: list[tuple[float, float]]) -> str:
    """A curve with a small chevron at its end; ``class`` names both ends, so a panel can light a shape's arrows."""
    (x0, y0), rest = points[0], points[1:]
    curve = " ".join(f"{x:.0f},{y:.0f}" for x, y in rest)
    x2, y2 = points[-1]
    x1, y1 = next((point for point in reversed(points[:-1]) if point != points[-1]), (x2, y2 - 1))
    angle = math.atan2(y2 - y1, x2 - x1)
    sides = [(x2 - _ARROW * math.cos(angle + turn), y2 - _ARROW * math.sin(angle + turn)) for turn in (-0.5, 0.5)]
    (ax, ay), (bx, by) = sides
    arrow = f"M{ax:.0f},{ay:.0f}L{x2:.0f},{y2:.0f}L{bx:.0f},{by:.0f}"
    return f'<path class="edge {tail} {head}" d="M{x0:.0f},{y0:.0f}C{curve}{arrow}"/>'


def _shape(shape: Shape, rect: Rect) -> str:
    kind = "copy" if shape.kind == "input" else shape.kind
    classes = f"node idj-{kind}" + (f" idj-{shape.severity}" if shape.severity else "")
    mark = _MARKS.get(shape.severity, "")
    if is_beside(shape):
        body = _rect(rect, rect.height / 2, f'{mark} fill="#F2F2F2"' + (' stroke-dasharray="2 2"' * (kind == "portal")))
    elif kind == "group":
        behind = Rect(rect.x + 3, rect.y + 3, rect.width, rect.height)
        body = _rect(behind, 5, mark) + _rect(rect, 5, mark or ' stroke-width="1.4"')
    else:
        body = _rect(rect, 2, mark)
    return f'<g class="{classes}"><title>{shape.id}</title>{body}{_label(shape, rect)}</g>'


def _rect(rect: Rect, radius: float, more: str = "") -> str:
    return (
        f'<rect x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}" '
        f'rx="{radius:.0f}"{more}/>'
    )


def _label(shape: Shape, rect: Rect) -> str:
    small = is_beside(shape)
    step = LINE * (0.82 if small else 1.0)
    y = rect.y + (rect.height - step * len(shape.label)) / 2 + step * 0.76
    parts = []
    for at, part in enumerate(shape.label):
        sized = f' font-size="{SMALL:g}"' if small or at else ""
        quiet = ' class="quiet"' if at else ""
        head = "▸ " if shape.kind == "group" and not at else ""
        parts.append(
            f'<text x="{rect.middle:.1f}" y="{y + at * step:.1f}" fill="#222" stroke="none"{sized}{quiet}>'
            f"{head}{escape(part)}</text>"
        )
    return "".join(parts)
