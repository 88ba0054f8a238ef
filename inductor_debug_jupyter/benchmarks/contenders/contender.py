"""What a contender is, and how it is found out what it gives.

A contender runs in a child process of its own. ``environment`` is asked in the parent, everything else in the child.
What it gives is read from the files that it left in its folder, never from a list of promises.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

FRAME = 1
"""Dynamo's number of the measured frame: the child compiles one other function first (see ``child.py``)."""

CODE = r"def call\("
"""Inductor's wrapper code."""
KERNEL = r'extern\s+"C"'
"""The source of a C++ kernel, wherever it stands."""
GRAPH = r"def forward\(\s*self"
"""An FX graph as Python."""
IR = r": \w*SchedulerNode\("
"""Inductor's IR."""

Pattern = tuple[str, str, str]
"""Stage, glob below the contender's folder, and a regular expression that the file must contain."""


class Contender(Protocol):
    """One way to see a compile. Importing its module is cheap: torch is imported in the child only."""

    TITLE: str
    """What the table calls it."""
    WARM_CACHES: bool
    """Whether torch may use its FX and AOT caches; they are off for everything that is compared."""

    def environment(self, folder: Path) -> Mapping[str, str]:
        """Variables that must be set before torch is imported."""

    def unavailable(self) -> str:
        """Why it cannot run here, or an empty string. What it needs is imported here, so that this is not counted."""

    def watching(self, folder: Path) -> AbstractContextManager[Any]:
        """What is around the compile; leaving it is counted apart from the compile."""

    def finish(self, folder: Path, watched: Any) -> None:
        """What its user still has to do to see something; counted too."""

    def found(self, folder: Path) -> dict[str, str]:
        """Which stages it gave → the file that shows it."""


def search(folder: Path, patterns: Iterable[Pattern]) -> dict[str, str]:
    """The stages for which a file of the right name has the right content, and that file."""
    found: dict[str, str] = {}
    for stage, glob, content in patterns:
        for path in sorted(folder.glob(glob)):
            if stage not in found and path.is_file() and re.search(content, _text(path), re.MULTILINE):
                found[stage] = path.relative_to(folder).as_posix()
    return found


def _text(path: Path) -> str:
    """A file's text; of a web page, what a reader sees."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return html.unescape(re.sub(r"<[^>]+>", "", text)) if path.suffix == ".html" else text
