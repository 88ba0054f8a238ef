"""What the page does: ask a panel something."""

from __future__ import annotations

from typing import Any

from inductor_debug_jupyter.jupyter.panel import DebugPanel, wire


def ask(panel: DebugPanel, kind: str, **fields: Any) -> str:
    """Send a request; the line of the failure, empty when it was carried out."""
    answer = panel.answer({"ask": kind, "id": 7, **fields})
    assert answer.id == 7
    return answer.error if isinstance(answer, wire.Failed) else ""


def open_tab(panel: DebugPanel, tab: str) -> None:
    """Open a tab, which must succeed."""
    assert ask(panel, "open_tab", tab=tab) == ""
