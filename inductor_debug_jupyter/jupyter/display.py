"""How a session is shown: a panel in a notebook, text in a terminal."""

from __future__ import annotations

import os
import sys
from typing import Any

from inductor_debug_jupyter.jupyter.panel_registry import panels
from inductor_debug_jupyter.pipeline.harmless import encodable
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.views.text import session_text


def make_panel(session: DebugSession) -> Any:
    """The widget of a session: a click in it is a call on the session, and the other way round."""
    from inductor_debug_jupyter.jupyter.panel.widget import DebugPanel

    return DebugPanel.of(session)


def show_session(shell: Any, session: DebugSession) -> None:
    """Show a session where the shell can: as a panel when there is a notebook, else as text."""
    if hasattr(shell, "kernel"):
        with panels.by_magic():
            make_panel(session).show()
        return
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    text = session_text(session.record, colour=colour, timings=True)
    sys.stdout.write(encodable(text, sys.stdout.encoding) + "\n")
