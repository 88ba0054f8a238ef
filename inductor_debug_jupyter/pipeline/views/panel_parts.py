"""The state of a panel that the page shows, part by part.

Panes write parts (``parts["node"] = {…}``); :meth:`Parts.flush` hands all that changed to the widget at once, which
sends them as one message. The page draws whatever is in the parts, so a page that is loaded anew shows the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inductor_debug_jupyter.pipeline.views.places import nothing

NO_NODE = {
    "compile_id": "",
    "stage": "",
    "node": "",
    "title": "",
    "label": "",
    "line": 0,
    "text": "",
    "wrong": "",
    "rows": [],
}
NO_DOCUMENT = {"id": "", "title": "", "lines": [], "note": ""}
NO_GRAPH = {
    "compile_id": "", "stage": "", "svg": "", "nodes": {}, "frames": {}, "note": "", "anchor": "", "opened": 0,
    "closed": 0, "colours": [],
}  # fmt: skip
NO_PAINT = {"by": "nothing", "title": "", "legend": [], "of": {}}
NOTHING_FOUND = {"text": "", "count": 0, "names": [], "of": {}}
NO_COMPARISON: dict[str, Any] = {
    "pairs": [], "shown": 0, "heads": ["", ""], "choices": {"before": [], "after": []}, "counts": "", "rows": [],
    "left_out": 0, "changes": {},
}  # fmt: skip
NOTHING_LIT: dict[str, Any] = {"selection": None, "ids": [], "near": []}

EMPTY: dict[str, Any] = {
    "header": {"title": "", "figures": [], "tabs": [], "tab": "overview"},
    "trouble": "",  # an error that no request caused
    "tab": "overview",
    "selection": nothing(),
    "overview": {},
    "findings": [],
    "sources": {},  # label → the cell or file; a library's files come when something on them is chosen
    "graph_choices": [],
    "graphs_to_come": {},  # compile id → stages that are made when they are asked for
    "graph": NO_GRAPH,
    "graph_paint": NO_PAINT,
    "graph_found": NOTHING_FOUND,
    "graph_lit": {"node": "", "line": "", "ids": []},  # the shapes that show the selection that it names
    "comparison": NO_COMPARISON,
    "comparison_graphs": {"before": NO_GRAPH, "after": NO_GRAPH},
    "comparison_paints": {"before": NO_PAINT, "after": NO_PAINT},
    "comparison_found": {"before": NOTHING_FOUND, "after": NOTHING_FOUND},
    "comparison_lit": {"before": NOTHING_LIT, "after": NOTHING_LIT, "told": "", "row": -1, "acting": ""},
    "node": NO_NODE,
    "binding": {"can_bind": False, "compiled": []},
    "bound": {},
    "page": {"name": "", "title": "", "blocks": []},  # the page of a rule
    "report": {},  # where it was written, and the page itself
    "guards": {
        "summary": "", "rows": [], "total": 0, "breaks": [], "recompiles": [], "storms": [], "timeline": [],
        "symbols": [], "graphs": {}, "hints": {},
    },
    "guard_inputs": {},
    "guard_answer": {},
    "code_documents": [],
    "code_nodes": {"compile_id": "", "stage": "", "rows": []},
    "code_document": NO_DOCUMENT,
    "placement": [],
    "transfers": {"summary": "", "transfers": [], "kernels": [], "left_out": 0},
    "memory": {"choices": [], "shown": 0, "title": "", "rows": []},
    "diff": {"outputs": [], "live": [], "title": "", "summary": "", "icon": "", "kind": ""},
    "diff_shown": "",
    "diff_place": {},
    "diff_slice": {},
    "diff_point": "",
    "budget": {"head": [], "keys": "", "rows": [], "prescription": [], "notes": []},
    "time": {"head": [], "rows": [], "modules": [], "roofs": None, "total": 0, "notes": []},
    "what_if": {},
    "trials": [],
    "trial_shown": -1,
    "fixes": {},
    "charts": {},  # the data of charts, where there are no widgets: in a report
    "widgets": {},  # charts and the form of a quick run, which are widgets of their own
    "room": {},  # the height and the widths of columns that the user chose
}  # fmt: skip
"""Every part, as it is when there is nothing to show."""


class Parts:
    """The parts as panes see them. Without ``send``, as in tests, it is a dict with all parts."""

    def __init__(self, send: Callable[[dict[str, Any]], None] | None = None) -> None:
        self._values = dict(EMPTY)
        self._changed = set(EMPTY)
        self._send = send

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in EMPTY:
            raise KeyError(name)
        self._values[name] = value
        self._changed.add(name)

    def flush(self) -> None:
        """Send what changed since the last time."""
        changed = {name: self._values[name] for name in EMPTY if name in self._changed}
        self._changed.clear()
        if self._send is not None and changed:
            self._send(changed)
