"""The geometry of a drawing, which a layout returns, and the sizes of shapes, which a layout needs.

Labels are measured here and not by graphviz, and only numbers go to the layout. So one SVG writer serves both layouts,
and no label can be misread as DOT.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from inductor_debug_jupyter.pipeline.drawing.painter import Shape

FONT = 10.0
SMALL = 8.5
LINE = 12.5
FRAME_TITLE = 18.0
"""Room for a frame's title, at its top."""

_NARROW = frozenset("fijlrtI.,:;'|!()[]{}/ \"`-1")
_BROAD = frozenset("mwMW@%×…→↥✗⚠ℹ")
_PADDING = (26.0, 8.0)
"""Width and height around a label; the width leaves room for a colouring's sign."""
_SMALL_PADDING = (12.0, 5.0)
_BESIDE = frozenset({"input", "copy", "portal"})


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle by its upper left corner; y grows downwards."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The x in the middle."""
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class Geometry:
    """Rectangles of shapes and frames by id, and each edge as the points of a Bézier curve."""

    width: float
    height: float
    shapes: dict[str, Rect]
    frames: dict[str, Rect]
    edges: list[tuple[str, str, list[tuple[float, float]]]]


def is_beside(shape: Shape) -> bool:
    """Whether the shape is one of the small ones beside an op: an input or a portal."""
    return shape.kind in _BESIDE


def size_of(shape: Shape) -> tuple[float, float]:
    """Width and height that the shape's label needs."""
    small = is_beside(shape)
    across, down = _SMALL_PADDING if small else _PADDING
    across += 12.0 if shape.kind == "group" else 0.0  # its head has a triangle in front
    widest = max((text_width(part, SMALL if small or at else FONT) for at, part in enumerate(shape.label)), default=0)
    lines = LINE * (0.82 if small else 1.0)
    return max(30.0, widest + across), lines * max(1, len(shape.label)) + down


@lru_cache(maxsize=4096)
def text_width(text: str, size: float) -> float:
    """About how wide a text is in DejaVu Sans, the widest font that replaces Helvetica on Linux."""
    units = sum(0.36 if char in _NARROW else 0.95 if char in _BROAD or ord(char) > 0x2FFF else 0.62 for char in text)
    capitals = sum(char.isupper() for char in text)
    return size * (units + 0.07 * capitals)
