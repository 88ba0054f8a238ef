"""The right pane: details of the selection; its node can be bound to variables of the user."""

from __future__ import annotations

from typing import Any

import traitlets

from inductor_debug_jupyter.jupyter.panels.node_binder import NodeBinder
from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset

NO_NODE = {"compile_id": "", "stage": "", "node": "", "title": "", "label": "", "line": 0, "text": "", "rows": []}


class DetailPanel(Pane):
    """``rows`` are set from the start; ``node`` and further ``sources`` are Python's answers to a selection.

    Where nodes can be bound (``can_bind``; their kernels too in the compiles ``compiled``), the browser sets ``asked``
    (``compile_id, stage, node, kernel, at``) and Python answers with ``bound``: the same, and what was bound.
    """

    _esm = asset("detail.js")
    _css = asset("detail.css")
    sources = traitlets.Dict().tag(sync=True)
    rows = traitlets.List().tag(sync=True)
    node = traitlets.Dict(default_value=NO_NODE).tag(sync=True)
    can_bind = traitlets.Bool(False).tag(sync=True)
    compiled = traitlets.List(traitlets.Unicode()).tag(sync=True)
    asked = traitlets.Dict().tag(sync=True)
    bound = traitlets.Dict().tag(sync=True)

    def __init__(self, binder: NodeBinder | None = None, **traits: Any) -> None:
        super().__init__(can_bind=binder is not None, compiled=binder.compiled if binder else [], **traits)
        self._binder = binder
        self.observe(self._on_asked, names="asked")

    def _on_asked(self, change: dict[str, Any]) -> None:
        if self._binder is not None and change["new"]:
            self.bound = {**change["new"], **self._binder.bind(change["new"])}
