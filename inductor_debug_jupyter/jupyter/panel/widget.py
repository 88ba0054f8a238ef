"""The panel: one widget, one wire.

A click in the page changes the selection or the tab there at once and asks Python (:mod:`wire`). The panel reads the
request, carries it out under one lock (ipykernel 7.3 calls on another thread while a cell is busy), sends the parts of
its state that changed, and answers. Whatever goes wrong on the way is the answer's one line, which the page shows in
the pane that asked; what goes wrong without a request (a session that changed in another cell, a click on a chart) is
the part ``trouble``.

A panel that is closed (its cell ran again, or the front end closed it) closes all its widgets and drops its references
to the session: IPython's ``Out`` may hold the empty panel for as long as the kernel lives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import RLock
from typing import Any, ClassVar, cast

import anywidget
import ipywidgets
import traitlets
from IPython.display import display

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.jupyter.panel.live_parts import NOT_LIVE, LiveParts
from inductor_debug_jupyter.jupyter.panel.panes import Panes
from inductor_debug_jupyter.jupyter.panel.widget_closing import close_all
from inductor_debug_jupyter.jupyter.panel_registry import panels
from inductor_debug_jupyter.pipeline.comparing import RunComparison
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.reports import panel_assets
from inductor_debug_jupyter.pipeline.reports.snapshot import Snapshot
from inductor_debug_jupyter.pipeline.views.panel_parts import EMPTY, Parts
from inductor_debug_jupyter.pipeline.views.short_text import short_text
from inductor_debug_jupyter.pipeline.views.view_types import Selection

STOPPED = "interrupted: what was asked is not done; ask again"
GONE = "this panel is gone: its cell ran again, or it was closed; session.panel() makes a new one"

_PARTS = {name: traitlets.Any(empty).tag(sync=True) for name, empty in EMPTY.items()}
_PARTS["widgets"] = traitlets.Dict().tag(sync=True, **ipywidgets.widget_serialization)
_StateWidget: Any = type("_StateWidget", (anywidget.AnyWidget,), _PARTS)
"""A widget with a trait for each part."""


class DebugPanel(_StateWidget):  # type: ignore[misc]  # anywidget has no type information
    """What appears under the cell. Each part of the state (see :data:`EMPTY`) is an attribute, to be read only.

    Args:
        record: the session to show.
        live: what a living session has besides its record.
    """

    _esm = panel_assets.esm()
    _css = panel_assets.css()
    _room: ClassVar[dict[str, Any]] = {}
    """The sizes that the user chose in any panel of this kernel: new ones begin with them."""

    def __init__(self, record: SessionRecord, live: LiveParts = NOT_LIVE) -> None:
        self._lock = RLock()
        self._panes: Panes | None = None
        self._form: Any = None
        self._snapshot: Any = None
        self._unlisten: list[Callable[[], None]] = []
        super().__init__()
        self.load(record, live)
        self.open()
        self.on_msg(lambda _, content, __: self.send(wire.written(self.answer(content))))
        if self.comm is not None:
            self.comm.on_close(lambda _: self.close())

    def open(self) -> None:
        """Open the comm once there is something to show, so that its first message has all of it."""
        if self._panes is not None:
            super().open()

    @classmethod
    def of(cls, session: Any) -> DebugPanel:
        """The panel of a session: a click in it is a call on the session, and the other way round."""
        panel = cls(session.record, LiveParts.of(session))
        panel._listen_to(session)
        return panel

    @classmethod
    def of_comparison(cls, comparison: RunComparison) -> DebugPanel:
        """The panel of a comparison: the later run's, which opens on the Compare tab.

        Raises:
            UsageError: the comparison has its runs no more.
        """
        if comparison.runs is None:
            raise UsageError("this comparison has its runs no more: compare the sessions again")
        return cls(comparison.runs[1], replace(NOT_LIVE, comparison=comparison))

    @property
    def is_closed(self) -> bool:
        """Whether it is gone from the page."""
        return self._panes is None

    @property
    def panes(self) -> Panes:
        """The Python half of its panes.

        Raises:
            UsageError: the panel is gone.
        """
        if self._panes is None:
            raise UsageError(GONE)
        return self._panes

    @property
    def record(self) -> SessionRecord:
        """The session that it shows."""
        return self.panes.record

    def __repr__(self) -> str:
        return GONE if self.is_closed else str(super().__repr__())

    def close(self) -> None:
        """Close it with all its widgets, and let go of the session. Safe to call twice."""
        if self._panes is None:
            return
        panels.gone(self)
        self._stop_listening()
        self._panes.leave()
        close_all(self)
        self._panes = self._form = self._snapshot = None
        for name, empty in EMPTY.items():
            setattr(self, name, empty)

    # What the page asks

    def answer(self, content: object) -> wire.Answer:
        """Carry out what a message of the page asks; every error is an answer, and so is an interrupt of the kernel."""
        number = wire.id_of(content)
        try:
            with self._lock:
                self._carry_out(wire.read(content))
        except KeyboardInterrupt:  # it was meant for this request: no cell is running
            return wire.Failed(number, STOPPED)
        except Exception as error:
            return wire.Failed(number, wire.error_text(error))
        return wire.Done(number)

    def _carry_out(self, request: wire.Request) -> None:
        try:
            if isinstance(request, wire.ToggleQuickRun):
                self._toggle_form()
            elif isinstance(request, wire.RememberRoom):
                DebugPanel._room = {"height": request.height, "widths": request.widths, "hidden": request.hidden}
                self.panes.parts["room"] = DebugPanel._room
            elif isinstance(request, wire.Dismiss):
                self.panes.parts["trouble"] = ""
            else:
                self.panes.answer(request)
        finally:
            if isinstance(request, wire.FixitRequest):
                self.panes.show_fixes()
            if self._panes is not None:
                self._panes.parts.flush()

    def _changed(self, action: Callable[[], None]) -> None:
        """Run what no request of the page caused; an error is shown, not raised in the user's cell."""
        with self._lock:
            try:
                action()
            except Exception as error:
                self.panes.parts["trouble"] = wire.error_text(error)
            finally:
                if self._panes is not None:
                    self._panes.parts.flush()

    def _report(self, request: wire.Request, text: str) -> None:
        self.send(wire.written(wire.Progress(request.id, text)))

    def _send_parts(self, changed: dict[str, Any]) -> None:
        with self.hold_sync():
            for name, value in changed.items():
                setattr(self, name, value)

    # What it shows

    def load(
        self, record: SessionRecord, live: LiveParts = NOT_LIVE, *, tab: str = "", chosen: Selection | None = None
    ) -> None:
        """Show another record in this one's place, and in its snapshot's: on ``tab``, or where the worst news are."""
        before = [widget for name, widget in self.widgets.items() if name != "quick_run"]
        if self._panes is not None:
            self._panes.leave()
        parts = Parts(self._send_parts)
        options: dict[str, Any] = {"changed": self._changed, "report": self._report, "tab": tab, "chosen": chosen}
        self._panes = panes = Panes(record, live, parts, **options)
        parts["room"] = DebugPanel._room
        self._show_form()
        self._changed(lambda: panes.open_tab(parts["tab"]))
        close_all(*before)
        self._update_snapshot()

    def _update_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.update(Snapshot(self.record))

    def show(self) -> None:
        """Display the panel and, as an output of its own, the snapshot that stays when there is no kernel."""
        display(self)
        self._snapshot = display(Snapshot(self.record), display_id=True)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget and, for front ends without widgets, a few lines of text: the snapshot tells the rest."""
        if self.is_closed:
            return {"text/plain": GONE}
        panels.shown(self)
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**(data or {}), "text/plain": short_text(self.record)}, metadata

    # The selection

    def select(
        self,
        *,
        finding: int | None = None,
        node: str | None = None,
        line: int | None = None,
        label: str = "",
    ) -> dict[str, Any]:
        """Choose a finding (its index in ``record.findings``), a node by name, or a source line; answers the selection.

        Raises:
            UsageError: not exactly one of the three was given, or the panel is gone.
            NotFoundError: there is no such finding, node or line.
        """
        panes = self.panes
        chosen = panes.lookup.find(finding=finding, node=node, line=line, label=label, near=panes.graph.shown)
        self._changed(lambda: panes.select(chosen))
        return dict(chosen)

    def follow(self, selection: dict[str, Any]) -> None:
        """Take over a whole selection that the session or another panel of it made.

        What the panel has already is not sent again: by now the user may have clicked on something newer.
        """
        panes = self.panes
        if selection != panes.parts["selection"]:
            self._changed(lambda: panes.select(selection))

    # The session, and the form of a quick run

    def _listen_to(self, session: Any) -> None:
        self._stop_listening()
        follow = [session.on_select(self.follow), session.on_change(lambda: self._changed(lambda: self._news(session)))]
        self._unlisten = follow

    def _stop_listening(self) -> None:
        while self._unlisten:
            self._unlisten.pop()()

    def _news(self, session: Any) -> None:
        """Show the session's new record or what-if, on the same tab."""
        panes = self.panes
        before, record = panes.record, session.record
        if record is before:
            if panes.what_if is not None:
                panes.what_if.follow()
        elif record == replace(before, findings=record.findings) and len(record.findings) == len(before.findings):
            panes.show_findings(record)  # they name fix-its now, and nothing else is new
            self._update_snapshot()
        elif record == replace(before, captures=record.captures, notes=record.notes) and _has_more(before, record):
            panes.show_completed(record)
        else:
            live = replace(LiveParts.of(session), fixes=panes.live.fixes)
            kept = cast(Selection, panes.parts["selection"]) if record.captures is before.captures else None
            self.load(record, live, tab=panes.parts["tab"], chosen=kept)

    def _show_session(self, session: Any) -> None:
        """Show another one: the one before has nothing to say here any more."""
        self.load(session.record, LiveParts.of(session))
        self._listen_to(session)

    def _toggle_form(self) -> None:
        """The quick run's form between header and body; what it ran is shown here."""
        from inductor_debug_jupyter.jupyter.quick_run import QuickRunForm

        form, self._form = self._form, None
        if form is None:
            self._form = QuickRunForm(target=self.record.target, on_session=self._show_session)
        self._show_form()
        if form is not None:
            self.panes.parts.flush()
            close_all(form)

    def _show_form(self) -> None:
        parts = self.panes.parts
        others = {name: widget for name, widget in parts["widgets"].items() if name != "quick_run"}
        parts["widgets"] = {**others, "quick_run": self._form} if self._form is not None else others


def _has_more(before: SessionRecord, record: SessionRecord) -> bool:
    """Whether the record has the captures from before, with stages that were made since."""
    ids = [[capture.compile_id for capture in each.captures] for each in (before, record)]
    return ids[0] == ids[1] and any(capture.rest is not None for capture in before.captures)
