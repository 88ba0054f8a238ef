"""Pictures that live inside the page, as ``data:`` addresses: graphs as SVG, errors as a small PNG.

A PNG is written by hand (zlib and a few headers), of one pixel a cell where the browser scales it up.
"""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from pathlib import Path

from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphView
from inductor_debug_jupyter.pipeline.records import Heatmap
from inductor_debug_jupyter.pipeline.views.places import Lookup

GRAPH_UNITS = 150
"""The largest number of shapes of a graph in a report; larger graphs are collapsed by module."""
MAX_IMAGE_BYTES = 300_000

Colour = tuple[int, int, int]

_NO_ERROR: Colour = (247, 247, 247)
_WRONG: tuple[Colour, ...] = ((254, 224, 144), (252, 141, 89), (215, 48, 39), (103, 0, 31))
_ROUNDING: tuple[Colour, ...] = ((222, 235, 247), (158, 202, 225), (66, 146, 198), (8, 81, 156))
"""From the smallest error to the largest: warm when an output does not match, cool when the errors are rounding."""
_NOT_FINITE: Colour = (123, 50, 148)
_DECADES = 6
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def graph_image(lookup: Lookup, compile_id: str, stage: str) -> tuple[str, str]:
    """A graph as a data address, and a note on what was simplified."""
    picture = GraphView(lookup, compile_id, stage, first=GRAPH_UNITS).picture()
    return _address("image/svg+xml", picture["svg"].encode()), picture["note"]


def heatmap_image(heatmap: Heatmap, *, passed: bool, scale: int = 1) -> str:
    """The errors as a PNG data address: white for none, violet for not finite, else a colour over six decades.

    A cell is ``scale × scale`` pixels: a viewer that strips styles blurs what it scales up itself.
    """
    finite = [value for value in heatmap.values if value is not None and value > 0]
    top = max(finite, default=0.0)
    colours = _ROUNDING if passed else _WRONG
    pixels: list[Colour] = []
    for row in range(heatmap.rows):
        values = heatmap.values[row * heatmap.columns : (row + 1) * heatmap.columns]
        pixels += [pixel for value in values for pixel in [_colour(value, top, colours)] * scale] * scale
    return _address("image/png", _png(heatmap.columns * scale, heatmap.rows * scale, pixels))


def stored_image(path: str, folder: Path) -> str:
    """A PNG of the artifact folder as a data address; empty when it is elsewhere, too large or not a PNG."""
    place = Path(path)
    try:
        inside = place.resolve().is_relative_to(folder.resolve())
        if not inside or not place.is_file() or place.stat().st_size > MAX_IMAGE_BYTES:
            return ""
        data = place.read_bytes()
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return ""
    return _address("image/png", data) if data.startswith(_PNG_SIGNATURE) else ""


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{b64encode(data).decode()}"


def _colour(value: float | None, top: float, scale: tuple[Colour, ...]) -> Colour:
    if value is None:
        return _NOT_FINITE
    if value <= 0:
        return _NO_ERROR
    share = max(0.0, 1 + math.log10(value / top) / _DECADES) * (len(scale) - 1)
    low = min(int(share), len(scale) - 2)
    red, green, blue = (round(a + (b - a) * (share - low)) for a, b in zip(scale[low], scale[low + 1], strict=True))
    return red, green, blue


def _png(width: int, height: int, pixels: list[Colour]) -> bytes:
    rows = (pixels[row * width : (row + 1) * width] for row in range(height))
    raw = b"".join(b"\0" + bytes(channel for pixel in row for channel in pixel) for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = (b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b"")
    return _PNG_SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in body
    )
