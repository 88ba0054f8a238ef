"""From torch's stack traces to the user's own lines.

The deepest frame outside torch is the line to show. A notebook cell has no file on disk: its text is in
:mod:`linecache`, and only the notebook knows that its file is ``In [4]``, so the jupyter package registers a lookup.
"""

from __future__ import annotations

import itertools
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType

import torch

from inductor_debug_jupyter.pipeline.records import SourceLine

RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")
"""Dynamo's name of the function that resumes after a graph break: the user's name, and the line."""
_FRAME = re.compile(r'  File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>[^\n]*)')


def spellings(folder: Path) -> tuple[str, ...]:
    """How the name of a file in that folder begins: as Python came there, and as it is on disk.

    They differ when a link is in between (an environment may be one); code objects have the former.
    """
    return tuple(dict.fromkeys(f"{place}{os.sep}" for place in (folder.absolute(), folder.resolve())))


_OWN = Path(__file__).parents[2]
_LIBRARIES = (
    *spellings(Path(torch.__file__).parent),
    *(name for room in ("pipeline", "jupyter", "cli") for name in spellings(_OWN / room)),
)
"""Torch, and our own code; but a model of the benchmarks is a model like any other."""
_PYTHON = spellings(Path(os.__file__).parent)
"""Python's own modules; what is installed may lie in a folder among them."""

_LEFT_BY_US = "  # (a comment while inductor_debug_jupyter runs the cell)"

_cell_labels: list[Callable[[str], str | None]] = []


def register_cell_labels(lookup: Callable[[str], str | None]) -> None:
    """Ask ``lookup`` from now on which files are notebook cells; it answers ``In [4]`` or None."""
    if lookup not in _cell_labels:
        _cell_labels.append(lookup)


def cell_label(file: str) -> str | None:
    """``In [4]`` when the file is a notebook cell, else None."""
    for lookup in _cell_labels:
        if label := lookup(file):
            return label
    return None


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether a frame of this file is torch's, Python's or ours, and so never the user's line."""
    if file.startswith(_PYTHON) and "-packages" not in file:
        return True
    return file.startswith((*_LIBRARIES, "<eval_with_key>", "<frozen ", "<string>")) or file == "<unknown>"


def source_line(file: str, line: int, function: str = "") -> SourceLine:
    """The line as a record, with its text and the name that a person gives the file."""
    label = cell_label(file) or Path(file).name
    return SourceLine(file, line, linecache.getline(file, line).rstrip("\n"), function, label)


@lru_cache(maxsize=8192)
def user_frames(stack_trace: str) -> tuple[tuple[str, int, str], ...]:
    """File, line and function of each frame outside torch, outermost first."""
    frames = (
        (match["file"], int(match["line"]), RESUMED.sub(r"\1", match["function"]))
        for match in _FRAME.finditer(stack_trace)
    )
    return tuple(frame for frame in frames if not is_library(frame[0]))


Callers = tuple[SourceLine | None, SourceLine | None]


def running_lines() -> Callers:
    """From the running stack: the deepest line outside torch, and the deepest one in a notebook cell.

    Asked in the middle of a compile, it is the line that called what is being compiled.
    """
    deepest: SourceLine | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_library(file):
            if cell_label(file):
                cell = source_line(file, frame.f_lineno, frame.f_code.co_name)
                return deepest or cell, cell
            deepest = deepest or source_line(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return deepest, None


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call as it stands in a source: its file, and the first and last line and column of the expression.

    Lines count from 1, columns from 0 and in bytes of UTF-8, as :mod:`ast` counts them.
    """

    file: str
    start: tuple[int, int]
    end: tuple[int, int]

    @property
    def label(self) -> str:
        """What a person calls the file."""
        return cell_label(self.file) or Path(self.file).name


def running_call() -> CallSite | None:
    """The call in the user's source, or in a library's, that led into torch or into us."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    at = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, end_line, column, end_column = at
    if line is None or end_line is None or column is None or end_column is None:  # python -X no_debug_ranges
        return None
    return CallSite(frame.f_code.co_filename, (line, column), (end_line, end_column))


def magic_as_comment(line: str) -> str:
    """The line of a cell magic as a marked comment, which :func:`source_text` turns back."""
    text = line.removesuffix("\n")
    return f"# {text}{_LEFT_BY_US}{line[len(text) :]}"


def source_text(file: str) -> str:
    """A file as the user has it, as far as Python still knows it; Python has a cell's magic as a comment."""
    first, newline, rest = "".join(linecache.getlines(file)).partition("\n")
    if first.startswith("# ") and first.endswith(_LEFT_BY_US):
        first = first.removeprefix("# ").removesuffix(_LEFT_BY_US)
    return first + newline + rest


def texts_of(lines: Iterable[SourceLine | None]) -> dict[str, str]:
    """Label → whole text of every file that one of the lines stands in, as far as Python still knows it."""
    texts: dict[str, str] = {}
    for line in lines:
        if line is not None and line.label not in texts and (text := source_text(line.file)):
            texts[line.label] = text
    return texts
