"""Which panel is under which cell, so that a replaced panel is closed and frees its session and its widgets.

A front end does not report that it dropped an output. But when a cell runs again its outputs are cleared. A cell is
recognised by the id that the front end sends (``cellId`` in the metadata of the execute request; JupyterLab, Notebook
and VS Code do), or else by its text.

A panel that the magic made is closed before its cell runs again, since no variable holds it. One that the user made
(``session.panel()``, ``quick_run()``) may be in a variable: it is closed after the cell, unless the cell showed it
again or another cell shows it too. ``clear_output()`` in a cell is the same for what the cell showed so far, unless it
is called in the block of an ``ipywidgets.Output``: then it clears that widget. A front end that closes the comm of a
panel has it closed as well. Outputs that the user clears or deletes in the page are not noticed: there they
cannot be told from those of a notebook that is closed and opened again, whose panels must go on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from inductor_debug_jupyter.pipeline.errors import in_a_line

log = logging.getLogger("inductor_debug_jupyter")


class PanelRegistry:
    """The panels of one kernel, by cell."""

    def __init__(self) -> None:
        self._by_cell: dict[str, list[Any]] = {}
        self._running: list[tuple[str, list[Any]]] = []
        """Of the cells that run now, innermost last: the cell, and what it showed so far."""
        self._to_clear: list[Any] = []
        """What goes from the page at the next output, after ``clear_output(wait=True)``."""
        self._in_output_widget: list[Any] = []
        """What the running cells showed in the block of an Output widget, which may be under any cell."""
        self._made_by_magic: list[Any] = []
        self._is_magic = False

    def before_cell(self, info: Any) -> None:
        """IPython's ``pre_run_cell``: close what the magic showed under this cell."""
        cell = getattr(info, "cell_id", None) or f"text {info.raw_cell}"
        ours = [panel for panel in self._by_cell.get(cell, ()) if _is_in(panel, self._made_by_magic)]
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
            if not _is_in(panel, elsewhere):
                panel.close()
        if not self._running:
            self._to_clear.clear()
            self._in_output_widget.clear()

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
        self._clear(self._to_clear)
        if self._running and not _is_in(panel, self._running[-1][1]):
            self._running[-1][1].append(panel)
            if self._is_magic:
                self._made_by_magic.append(panel)
            if _an_output_widget_captures():
                self._in_output_widget.append(panel)

    def published(self, message: dict[str, Any]) -> dict[str, Any]:
        """A hook of ipykernel's display publisher: notice ``clear_output``; the message goes on as it is."""
        try:
            kind = message["header"]["msg_type"]
            if kind == "clear_output" and not _an_output_widget_captures():
                shown = [panel for _, panels in self._running for panel in panels]
                self._to_clear = [panel for panel in shown if not _is_in(panel, self._in_output_widget)]
                if not message["content"].get("wait"):
                    self._clear(self._to_clear)
            elif kind == "display_data":
                self._clear(self._to_clear)
        except Exception as error:  # it would end the user's own output
            log.warning("%%%%inductor_debug: a cleared panel could not be closed (%s)", in_a_line(error))
        return message

    def _clear(self, gone: list[Any]) -> None:
        """Forget panels that are gone from the page: close the magic's own, and the user's when the cell ends."""
        self._to_clear = []
        for cell, panels in self._running:
            cleared = [panel for panel in panels if _is_in(panel, gone)]
            panels[:] = [panel for panel in panels if not _is_in(panel, gone)]
            self._by_cell.setdefault(cell, []).extend(cleared)
        for panel in [panel for panel in gone if _is_in(panel, self._made_by_magic)]:
            panel.close()

    def gone(self, panel: Any) -> None:
        """Unregister a closed panel."""
        self._made_by_magic = [each for each in self._made_by_magic if each is not panel]
        for cell, panels in list(self._by_cell.items()):
            self._by_cell[cell] = [each for each in panels if each is not panel]
            if not self._by_cell[cell]:
                del self._by_cell[cell]
        for _, panels in self._running:
            panels[:] = [each for each in panels if each is not panel]


def _is_in(panel: Any, several: list[Any]) -> bool:
    return any(panel is each for each in several)


def _an_output_widget_captures() -> bool:
    """Whether what is displayed now goes into an ``ipywidgets.Output``."""
    from ipywidgets import Output
    from ipywidgets.widgets.widget import _instances

    return any(isinstance(each, Output) and each.msg_id for each in list(_instances.values()))


panels = PanelRegistry()
"""Those of this kernel."""
