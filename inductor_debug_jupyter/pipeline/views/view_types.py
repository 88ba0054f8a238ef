"""The types of the dicts that several views, panels and reports share. All of them are JSON."""

from __future__ import annotations

from typing import Any, TypedDict

from inductor_debug_jupyter.pipeline.harmless import plain

Row = dict[str, Any]
"""One part of a view, such as a row of a table; the function that makes it has its fields."""


def copied(record: object, *fields: str) -> Row:
    """The named fields of a record, for a row: texts without control characters, tuples as lists."""
    return {name: _copied(getattr(record, name)) for name in fields}


def _copied(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if not isinstance(value, tuple):
        return value
    return [_copied(each) for each in value] if value and isinstance(value[0], str | tuple) else list(value)


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
