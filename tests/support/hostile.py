"""Records with hostile text in every place that can hold text, made from the records' own types."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

from inductor_debug_jupyter.pipeline.records import Heatmap, SessionRecord

EVIL = "\x1b[31mRED\x1b]0;title\x07\x1b[2J\x9b5m\x85\u202egnorw\u2066\x00\x08\x7f\rOVER\x0c\u2028END"
"""Escape sequences, C1 controls, bidirectional overrides, NUL, backspace, carriage return, other line ends."""

SURROGATES = "\ud800 and \udc9b"
"""What no UTF-8 can hold; the second becomes the byte 0x9b (a CSI) on a stream with surrogateescape."""


def control_characters(text: str) -> set[str]:
    """What must not reach a terminal: all but newlines, tabs and printable characters."""
    return {char for char in text if not char.isprintable() and char not in "\n\t"}


def filled(kind: Any, text: str = EVIL, number: int = 3) -> Any:
    """A value of that type with ``text`` in every string and ``number`` in every number, nested ones too."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is str:
        return text
    if kind in (bool, int, float):
        return kind(number)
    if origin is typing.Literal:
        return arguments[0]
    if origin in (typing.Union, types.UnionType):
        return filled(arguments[0], text, number)
    if origin is tuple:
        inner = arguments[:1] * 2 if arguments[1:] == (...,) else arguments
        return tuple(filled(each, text, number) for each in inner)
    if origin is dict or str(origin).endswith("Mapping'>"):
        return {filled(arguments[0], text, number): filled(arguments[1], text, number)}
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        values = {field.name: filled(hints[field.name], text, number) for field in dataclasses.fields(kind)}
        if kind is Heatmap:
            values |= {"rows": 1, "columns": len(values["values"])}
        return kind(**values)  # type: ignore[operator]
    raise AssertionError(f"nobody said how to fill a {kind}")


def hostile_session(text: str = EVIL, session_id: str | None = None) -> SessionRecord:
    """A session in which everything says ``text``, the verdicts of its comparisons aside."""
    record: SessionRecord = filled(SessionRecord, text)
    return record if session_id is None else dataclasses.replace(record, id=session_id)
