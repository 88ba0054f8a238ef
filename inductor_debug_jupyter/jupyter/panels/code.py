"""The Code tab: the user's source, the graph's nodes, and the generated code side by side."""

from __future__ import annotations

import traitlets

from inductor_debug_jupyter.jupyter.panels.asset import Pane, asset


class CodePanel(Pane):
    """``choices`` are known from the start, ``documents`` and ``sources`` when the tab is first opened.

    ``nodes`` and ``document`` are Python's answers.

    ``wanted`` is what the choosers were set to: a graph (``compile_id``, ``stage``) or a document (``document``).
    """

    _esm = asset("code.js")
    _css = asset("code.css")
    sources = traitlets.Dict().tag(sync=True)
    choices = traitlets.List().tag(sync=True)
    documents = traitlets.List().tag(sync=True)
    nodes = traitlets.Dict(default_value={"compile_id": "", "stage": "", "rows": []}).tag(sync=True)
    document = traitlets.Dict(default_value={"id": "", "title": "", "lines": [], "note": ""}).tag(sync=True)
    wanted = traitlets.Dict().tag(sync=True)
