"""What a suite prints: tables and lines on stdout; how far it is, as a bar or in lines, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from inductor_debug_jupyter.pipeline.harmless import plain


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str] = ()) -> None:
    """Print a table to stdout: as wide as the terminal, or as wide as needed when the output goes elsewhere."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    numbers = set(right)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False).print(table)


def print_line(text: str) -> None:
    """One line on stdout; suites are programs, so they may print."""
    print(text)  # noqa: T201 - the program's own output


class Progress:
    """Counts steps.

    Args:
        total: how many there will be.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self._start = time.perf_counter()
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        console = Console(stderr=True, markup=False, highlight=False)
        self._in_lines = not (sys.stderr.isatty() and console.is_terminal)
        self._bar = RichProgress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=self._in_lines)
        self._task = self._bar.add_task("", total=total)

    def step(self, what: str) -> None:
        """The next step begins."""
        self._bar.update(self._task, completed=self.done, description=what)
        self.done += 1
        self._write(f"[{self.done}/{self.total}] {time.perf_counter() - self._start:6.1f} s  {what}")

    def remark(self, text: str) -> None:
        """What a step found, at once: a long run may be interrupted. On a terminal the table at the end is enough."""
        self._write(f"    {text}")

    def _write(self, line: str) -> None:
        if self._in_lines:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()


def error_line(error: BaseException) -> str:
    """The exception in one line; where torch says ``backend='…' raised:``, with the line after it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return " ".join([f"{type(error).__name__}: {lines[0]}", *(lines[1:2] if lines[0].endswith(":") else ())])
