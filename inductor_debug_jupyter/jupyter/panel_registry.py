"""Which panel is under which cell, so that a replaced panel is closed and frees its session and its widgets.

A front end does not report that it dropped an output. But when a cell runs again its outputs are cleared. A cell is
recognised by the id that the front end sends (``cellId`` in the metadata of the execute request; JupyterLab, Notebook
and VS Code do), or else by its text.

A panel that the magic made is closed before its cell runs again, since no variable holds it. One that the user made
(``session.panel()``, ``quick_run()``) may be in a variable: it is closed after the cell, unless the cell showed it
again or another cell shows it too. A front end that closes the comm of a panel has it closed as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class PanelRegistry:
    """The panels of one kernel, by cell."""

    def __init__(self) -> None:
        self._by_cell: dict[str, list[Any]] = {}
        self._running: list[tuple[str, list[Any]]] = []
        """Of the cells that run now, innermost last: the cell, and what it showed so far."""
        self._made_by_magic: list[Any] = []
        self._is_magic = False

    def before_cell(self, info: Any) -> None:
        """IPython's ``pre_run_cell``: close what the magic showed under this cell."""
        cell = getattr(info, "cell_id", None) or f"text {info.raw_cell}"
        ours = [panel for panel in self._by_cell.get(cell, ()) if any(panel is each for each in self._made_by_magic)]
        for panel in ours:
            panel.close()
        self._running.append((cell, []))

    def after_cell(self, _: Any) -> None:
        """IPython's ``post_run_cell``: close what was shown under this cell before, and is shown nowhere now."""
        if not self._running:
            return
        cell, shown = self._running.pop()
        before = self._by_cell.pop(cell, [])
        if shown:
            self._by_cell[cell] = shown
        elsewhere = [panel for panels in self._by_cell.values() for panel in panels]
        for panel in before:
            if not any(panel is each for each in elsewhere):
                panel.close()

    @contextmanager
    def by_magic(self) -> Iterator[None]:
        """Panels displayed inside are the magic's: no variable holds them."""
        self._is_magic = True
        try:
            yield
        finally:
            self._is_magic = False

    def shown(self, panel: Any) -> None:
        """Register a panel that is displayed; outside a cell (a click) it belongs to none."""
        if self._running and not any(panel is each for each in self._running[-1][1]):
            self._running[-1][1].append(panel)
            if self._is_magic:
                self._made_by_magic.append(panel)

    def gone(self, panel: Any) -> None:
        """Unregister a closed panel."""
        self._made_by_magic = [each for each in self._made_by_magic if each is not panel]
        for cell, panels in list(self._by_cell.items()):
            self._by_cell[cell] = [each for each in panels if each is not panel]
            if not self._by_cell[cell]:
                del self._by_cell[cell]
        for _, panels in self._running:
            panels[:] = [each for each in panels if each is not panel]


panels = PanelRegistry()
"""Those of this kernel."""
