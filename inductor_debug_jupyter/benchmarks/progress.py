"""How far a benchmark is: a bar on a terminal, a line for each step elsewhere. Both go to stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress


class Progress:
    """Counts steps.

    Args:
        total: how many there will be.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self._start = time.perf_counter()
        console = Console(stderr=True, markup=False, highlight=False)
        self._bar = _bar(console) if sys.stderr.isatty() and console.is_terminal else None
        self._task = self._bar.add_task("", total=total) if self._bar else None

    def step(self, what: str) -> None:
        """The next step begins."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self.done, description=what)
        else:
            elapsed = time.perf_counter() - self._start
            sys.stderr.write(f"[{self.done + 1}/{self.total}] {elapsed:6.1f} s  {what}\n")
            sys.stderr.flush()
        self.done += 1

    def remark(self, text: str) -> None:
        """What a step found, at once: a long run may be interrupted. On a terminal the table at the end is enough."""
        if self._bar is None:
            sys.stderr.write(f"    {text}\n")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None and self._task is not None:
            if error is None:
                self._bar.update(self._task, completed=self.total, description="done")
            self._bar.stop()


def _bar(console: Console) -> RichProgress:
    return RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
