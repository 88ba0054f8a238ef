"""The What if tab: a form of what can be changed, and before and after side by side.

The browser sets ``asked``; Python calls ``session.try_out`` with it and answers with ``trials``. While a model runs
again ``busy`` says what the compiler is doing. Whatever goes wrong is one line in ``error``.
"""

from __future__ import annotations

from typing import Any, Protocol

import traitlets

from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset, error_text
from inductor_debug_jupyter.pipeline.capture.structured_trace import CompileStep
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.what_if import WhatIfTrial
from inductor_debug_jupyter.pipeline.what_if.trial import trial_view

TAB = "what_if"
_SIZES = ("batch", "sequence")
_NODE = {"cpu": {"fallback": True}, "parts": {"decompose": True}, "whole": {"decompose": False}}
"""Button beside the chosen node → arguments of ``try_out``."""


class WhatIfRunner(Protocol):
    """Runs what-ifs: a :class:`~inductor_debug_jupyter.pipeline.session.DebugSession`."""

    @property
    def trials(self) -> tuple[WhatIfTrial, ...]: ...  # noqa: D102

    def tryable(self) -> dict[str, Any]: ...  # noqa: D102

    def try_out(self, **changes: Any) -> WhatIfTrial: ...  # noqa: D102


class WhatIfPanel(Pane):
    """``form`` is a ``form_view``, ``trials`` are ``trial_view``s, ``shown`` is the number of the one on show.

    The browser sets ``asked`` (``changes``, or ``node`` with what to ``do``) and ``wanted`` (``save``: a number).
    """

    _esm = asset("what_if.js")
    _css = asset("what_if.css")
    form = traitlets.Dict().tag(sync=True)
    asked = traitlets.Dict().tag(sync=True)
    wanted = traitlets.Dict().tag(sync=True)
    trials = traitlets.List().tag(sync=True)
    shown = traitlets.Int(-1).tag(sync=True)
    busy = traitlets.Unicode("").tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)

    def __init__(self, trier: WhatIfRunner, **traits: Any) -> None:
        super().__init__(**traits)
        self._trier = trier
        self.observe(lambda change: self._on_asked(change["new"]), names="asked")
        self.observe(lambda change: self._on_wanted(change["new"]), names="wanted")

    def fill(self) -> None:
        """Show what can be changed, and what was tried already; when the tab is first opened."""
        self.form = dict(self._trier.tryable())
        self._show(len(self._trier.trials) - 1)

    def follow(self) -> None:
        """Show what was tried elsewhere, such as in a cell; once the tab was opened."""
        if self.form and len(self._trier.trials) != len(self.trials):
            self._show(len(self._trier.trials) - 1)

    def _on_asked(self, asked: dict[str, Any]) -> None:
        if not asked or self.busy:
            return
        self.error, self.busy = "", "Trying …"
        try:
            self._trier.try_out(**changes_of(asked), on_step=self._notify)
            self._show(len(self._trier.trials) - 1)
        except Exception as error:
            self.error = error_text(error)
        finally:
            self.busy = ""

    def _on_wanted(self, wanted: dict[str, Any]) -> None:
        at = wanted.get("save")
        if at is None:
            return
        try:
            self.error = ""
            self._trier.trials[at].save()
            self._show(at)
        except Exception as error:
            self.error = error_text(error)

    def _show(self, at: int) -> None:
        self.trials = [trial_view(trial) for trial in self._trier.trials]
        self.shown = at

    def _notify(self, step: CompileStep) -> None:
        self.busy = plain(str(step))


def changes_of(request: dict[str, Any]) -> dict[str, Any]:
    """The form's fields as arguments of ``try_out``; empty fields are left out."""
    if node := request.get("node"):
        return {"node": node["node"], "graph": (node["compile_id"], node["stage"]), **_NODE[node["do"]]}
    changes = {name: value for name, value in request.get("changes", {}).items() if value}
    for name in _SIZES:
        text = str(changes.get(name, "")).strip()
        if text.isdecimal():
            changes[name] = int(text)
    return changes
