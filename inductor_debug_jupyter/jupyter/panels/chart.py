"""What every chart of the panel has in common: bqplot in the colours and fonts of the notebook.

bqplot takes a while to load, so it is imported when the first chart is made.
"""

from __future__ import annotations

from typing import Any, Final

INK: Final = {"fill": "var(--jp-ui-font-color1, #212121)", "font-size": "11px"}
BLUE: Final = "#0072b2"
ORANGE: Final = "#d55e00"
GREY: Final = "#999999"


def chart(marks: list[Any], x: dict[str, Any], y: dict[str, Any], *, height: int, **figure: Any) -> Any:
    """A figure as wide as its tab.

    Args:
        marks: lines, bars and points.
        x: what bqplot's axis is given: its scale, its label.
        y: likewise.
        height: in pixels.
        figure: what else bqplot's figure is given.
    """
    import bqplot

    axes = [bqplot.Axis(**axis, grid_lines="none", tick_style=INK) for axis in (x, {**y, "orientation": "vertical"})]
    for axis in axes:
        axis.label_color = "var(--jp-ui-font-color2, #616161)"
    made = bqplot.Figure(marks=marks, axes=axes, background_style={"fill": "transparent"}, **figure)
    made.layout.height, made.layout.width = f"{height}px", "100%"
    return made
