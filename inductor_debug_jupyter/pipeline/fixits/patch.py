"""Edits of cells and files as a unified diff, with the reasons for edits that could not be written."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Patch:
    """``diff`` is a unified diff of the ``texts`` (label → new text); ``unwritten`` has what is not in it, and why."""

    diff: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    unwritten: tuple[str, ...] = ()


@dataclass(frozen=True, order=True)
class Edit:
    """Bytes ``start`` to ``end`` become ``text``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Source:
    """The text of a cell or a file."""

    label: str
    text: str

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree, with magics and shell commands as comments; None when the text is no Python."""
        lines = ("#" + line[1:] if line.startswith(("%", "!")) else line for line in self.text.split("\n"))
        try:
            return ast.parse("\n".join(lines))
        except SyntaxError:
            return None

    def at(self, line: int, column: int = 0) -> int:
        """The offset in bytes of a line (from 1) and a column (from 0, in bytes)."""
        return self._starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The offsets of a node's first byte and of the first byte behind it."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.at(node.lineno, node.col_offset), self.at(end_line, end_column)

    def before(self, node: ast.stmt) -> str:
        """The text before a statement in its line."""
        return self.text.encode()[self.at(node.lineno) : self.at(node.lineno, node.col_offset)].decode()

    def edited(self, edits: Iterable[Edit]) -> str:
        """The text with the edits made."""
        data = self.text.encode()
        for edit in sorted(edits, reverse=True):
            data = data[: edit.start] + edit.text.encode() + data[edit.end :]
        return data.decode()

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.text.split("\n"):
            starts.append(starts[-1] + len(line.encode()) + 1)
        return starts


def patch_of(edits: Mapping[Source, Iterable[Edit]], unwritten: Iterable[str] = ()) -> Patch:
    """The edits of some sources as a patch."""
    changed = {source: source.edited(each) for source, each in edits.items() if each}
    diff = "".join(_diff(source.label, source.text, text) for source, text in changed.items())
    return Patch(diff, {source.label: text for source, text in changed.items()}, tuple(unwritten))


def _diff(label: str, before: str, after: str) -> str:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, f"a/{label}", f"b/{label}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
