"""The types of the dicts that several views, panels and reports share. All of them are JSON."""

from __future__ import annotations

from typing import Any, TypedDict

from inductor_debug_jupyter.pipeline.harmless import plain

Row = dict[str, Any]
"""One part of a view, such as a row of a table; the function that makes it has its fields."""


def copied(record: object, *fields: str) -> Row:
    """Those fields of a record, for a row: texts without control characters, tuples as lists."""
    return {name: _copied(getattr(record, name)) for name in fields}


def _copied(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    return [_copied(each) for each in value] if isinstance(value, tuple) else value


class Selection(TypedDict):
    """What the user selected, shared by all panes. Empty strings, 0 and None mean "nothing"."""

    finding: int | None
    compile_id: str
    stage: str
    node: str
    label: str
    line: int
    kernel: str


class TabView(TypedDict):
    """One tab of the strip."""

    id: str
    title: str
    badge: str
    kind: str


class HeaderView(TypedDict):
    """The title, the figures and the tabs that have data; ``tab`` opens first."""

    title: str
    figures: list[Row]
    tabs: list[TabView]
    tab: str


class PictureView(TypedDict):
    """A laid-out graph. Keys of ``nodes`` and ``frames`` are the ``<title>`` of the SVG's groups.

    ``anchor`` is the box that was opened or closed last: a panel keeps its position. ``opened`` is the number of open
    boxes, ``closed`` that of closed boxes that are drawn; ``colours`` has name and title of each colouring.
    """

    compile_id: str
    stage: str
    svg: str
    nodes: dict[str, Row]
    frames: dict[str, Row]
    note: str
    anchor: str
    opened: int
    closed: int
    colours: list[list[str]]
