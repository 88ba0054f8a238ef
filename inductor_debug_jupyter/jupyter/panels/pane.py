"""The base of all panes: their static files, the traits that are linked in the browser, and the text of an error.

An anywidget module stands alone, so the shared JavaScript and CSS are put in front of each panel's own as text.
"""

from __future__ import annotations

from importlib.resources import files

import anywidget
import traitlets

from inductor_debug_jupyter.pipeline.errors import InductorDebugError, in_a_line
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.views.places import nothing


def asset(name: str) -> str:
    """The shared file and the panel's own, joined: ``asset("graph.js")``."""
    static = files("inductor_debug_jupyter.jupyter") / "static"
    _, _, kind = name.rpartition(".")
    return "\n".join((static / each).read_text(encoding="utf-8") for each in (f"shared.{kind}", name))


def error_text(error: Exception) -> str:
    """The first line of an error in a pane; one that is not ours with its class.

    An exception of a comm handler is shown nowhere, so every handler catches it and shows this text.
    """
    lines = str(error).strip().splitlines()
    return plain(lines[0] if lines and isinstance(error, InductorDebugError) else in_a_line(error))


class Pane(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget's base has no type information
    """A widget that shares the selection and the tab with its siblings.

    ``selection`` (see :class:`~inductor_debug_jupyter.pipeline.views.view_types.Selection`) and ``tab`` are linked in
    the browser, so that highlighting never waits for Python. ``tabs`` are those in which the pane is visible.
    """

    _esm = "export default {}"
    selection = traitlets.Dict(default_value=nothing()).tag(sync=True)
    tab = traitlets.Unicode("overview").tag(sync=True)
    tabs = traitlets.List(traitlets.Unicode()).tag(sync=True)
