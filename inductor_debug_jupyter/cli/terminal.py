"""How values look on a terminal: sizes, ages, tables, and text that cannot steer the terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")


def wants_colour() -> bool:
    """Whether stdout is a terminal that may be coloured (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def without_colour(text: str) -> str:
    """Remove escape sequences."""
    return _ANSI.sub("", text)


def printable(text: str) -> str:
    """Make one line of any text, without control characters."""
    return "".join(character if character.isprintable() else "�" for character in " ".join(text.split()))


def size_text(size: int) -> str:
    """``482 B``, ``12.3 KiB``, ``4.0 MiB``."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def age_text(seconds: float) -> str:
    """``now``, ``5 min``, ``3 h``, ``2 d``."""
    if seconds < 60:
        return "now"
    for limit, length, unit in ((3600, 60, "min"), (86400, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds // 86400)} d"


def count_text(count: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def console() -> Console:
    """Make a rich console: the terminal's width, or as wide as needed when the output goes elsewhere."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 10_000, highlight=False, markup=False, soft_wrap=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str] = ()) -> None:
    """Print a table; ``right`` names the columns of numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    numbers = set(right)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console().print(table, soft_wrap=False)
