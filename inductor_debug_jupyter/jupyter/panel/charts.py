"""The look of bqplot's charts: axes and figures in the colours of the notebook's theme."""

from __future__ import annotations

from typing import Any

INK = {"fill": "var(--jp-ui-font-color1, #212121)", "font-size": "11px"}


def axis(scale: Any, label: str = "", **options: Any) -> Any:
    """An axis without grid lines."""
    import bqplot  # slow: charts are made when their tab is first opened

    made = bqplot.Axis(scale=scale, label=label, grid_lines="none", tick_style=INK, **options)
    made.label_color = "var(--jp-ui-font-color2, #616161)"
    return made


def whole_ticks(last: int) -> list[int]:
    """At most ten whole numbers from 0 on, for an axis that counts: bqplot's own have halves where there are few."""
    step = next(factor * 10**power for power in range(20) for factor in (1, 2, 5) if last < 10 * factor * 10**power)
    return list(range(0, last + 1, step))


def figure(marks: list[Any], axes: list[Any], *, height: int, margin: tuple[int, int, int, int], **options: Any) -> Any:
    """A transparent figure; ``height`` and ``margin`` (top, right, bottom, left) in pixels."""
    import bqplot

    margins = dict(zip(("top", "right", "bottom", "left"), margin, strict=True))
    made = bqplot.Figure(
        marks=marks, axes=axes, background_style={"fill": "transparent"}, fig_margin=margins, **options
    )
    made.layout.height, made.layout.width = f"{height}px", "100%"
    return made
