"""The What if tab: a form of what can be changed, and before and after side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.views.panel_parts import Parts
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


class WhatIfPane:
    """Writes ``what_if`` (the form), ``trials`` and ``trial_shown``.

    Args:
        parts: the panel's state.
        runner: runs what-ifs.
        report: called with the request and what the compiler is doing for it.
    """

    def __init__(self, parts: Parts, runner: WhatIfRunner, report: Callable[[wire.Request, str], None]) -> None:
        self._parts, self._runner, self._report = parts, runner, report

    def answers(self) -> wire.Handlers:
        """The requests of the page that this pane answers, each with its handler."""
        return {wire.TryOut: self._try_out, wire.SaveTrial: self._save, wire.ShowTrial: self._choose}

    def fill(self) -> None:
        """Show what can be changed, and what was tried already; when the tab is first opened."""
        self._parts["what_if"] = dict(self._runner.tryable())
        self._show(len(self._runner.trials) - 1)

    def follow(self) -> None:
        """Show what was tried elsewhere, such as in a cell; once the tab was opened."""
        if self._parts["what_if"] and len(self._runner.trials) != len(self._parts["trials"]):
            self._show(len(self._runner.trials) - 1)

    def _try_out(self, request: wire.TryOut) -> None:
        self._runner.try_out(**changes_of(request), on_step=lambda step: self._report(request, str(step)))
        self._show(len(self._runner.trials) - 1)

    def _save(self, request: wire.SaveTrial) -> None:
        self._trial(request.trial).save()
        self._show(request.trial)

    def _choose(self, request: wire.ShowTrial) -> None:
        self._trial(request.trial)
        self._parts["trial_shown"] = request.trial

    def _trial(self, at: int) -> WhatIfTrial:
        if not 0 <= at < len(self._runner.trials):
            raise NotFoundError(f"there is no what-if number {at}; there are {len(self._runner.trials)}")
        return self._runner.trials[at]

    def _show(self, at: int) -> None:
        self._parts["trials"] = [dict(trial_view(trial)) for trial in self._runner.trials]
        self._parts["trial_shown"] = at


def changes_of(request: wire.TryOut) -> dict[str, Any]:
    """The form's fields as arguments of ``try_out``; empty fields are left out."""
    if node := request.node:
        return {"node": node.node, "graph": (node.compile_id, node.stage), **_NODE[node.do]}
    changes = {name: value for name, value in request.changes.items() if value}
    for name in _SIZES:
        text = str(changes.get(name, "")).strip()
        if text.isdecimal():
            changes[name] = int(text)
    return changes
