"""How values look on a terminal: ages, tables, logs, and text that cannot steer the terminal."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from inductor_debug_jupyter.pipeline.harmless import Screen, ascii_json, one_line

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")


def wants_colour() -> bool:
    """Whether stdout is a terminal that may be coloured (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def without_colour(text: str) -> str:
    """Remove escape sequences."""
    return _ANSI.sub("", text)


def print_own(text: str) -> None:
    """Print a text that has our own colour codes and is harmless otherwise, with a newline at its end."""
    stream = sys.stdout
    write = stream.write_own if isinstance(stream, Screen) else stream.write
    write(text if text.endswith("\n") else f"{text}\n")


def print_json(data: Any) -> None:
    """Print data as indented JSON in ASCII: a script reads what was there, and no terminal is steered."""
    print(ascii_json(json.dumps(data, indent=2)))


def age_text(seconds: float) -> str:
    """``now``, ``5 min``, ``3 h``, ``2 d``."""
    if seconds < 60:
        return "now"
    for limit, length, unit in ((3600, 60, "min"), (86400, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds // 86400)} d"


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Iterable[str] = (),
    styles: Mapping[str, str] | None = None,
) -> None:
    """Print a table.

    Args:
        columns: the headings.
        rows: the cells.
        right: the columns to align right.
        styles: text of a cell → its style.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    numbers = set(right)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell), style=(styles or {}).get(cell, "")) for cell in row))
    console = Console(
        file=io.StringIO(),
        force_terminal=sys.stdout.isatty(),
        width=None if sys.stdout.isatty() else 10_000,  # as wide as needed when the output goes elsewhere
        color_system="auto" if wants_colour() else None,
        highlight=False,
        markup=False,
    )
    with console.capture() as drawn:
        console.print(table)
    print_own(drawn.get())


def print_markdown(text: str) -> None:
    """Print Markdown: drawn by rich on a terminal, as it is written where the output goes elsewhere."""
    if not sys.stdout.isatty():
        print_own(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    columns = os.get_terminal_size(sys.stdout.fileno()).columns or 100
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        width=min(columns, 110),
        color_system="auto" if wants_colour() else None,
    )
    with console.capture() as drawn:
        console.print(Markdown(text))
    print_own(drawn.get())


@contextlib.contextmanager
def logs_on_stderr(program: str, level: int) -> Iterator[None]:
    """Write this package's log records, from ``level`` on, to stderr as lines of ``program``."""
    logger = logging.getLogger("inductor_debug_jupyter")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"{program}: %(message)s"))
    previous = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(previous)
