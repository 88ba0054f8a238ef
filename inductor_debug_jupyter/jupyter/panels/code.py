"""The Code tab: the user's source, the graph's nodes, and the generated code side by side."""

from __future__ import annotations

from typing import Any

import traitlets

from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset
from inductor_debug_jupyter.pipeline.records import BACKWARD, SessionRecord
from inductor_debug_jupyter.pipeline.views.code import document_view, documents_view, node_list_view
from inductor_debug_jupyter.pipeline.views.panel import source_view
from inductor_debug_jupyter.pipeline.views.places import Lookup


class CodePanel(Pane):
    """``choices`` are set from the start, ``documents`` and ``sources`` when the tab is first opened.

    The browser sets ``wanted``, a graph (``compile_id``, ``stage``) or a document (``document``); Python answers with
    ``nodes`` or ``document``.
    """

    _esm = asset("code.js")
    _css = asset("code.css")
    sources = traitlets.Dict().tag(sync=True)
    choices = traitlets.List().tag(sync=True)
    documents = traitlets.List().tag(sync=True)
    nodes = traitlets.Dict(default_value={"compile_id": "", "stage": "", "rows": []}).tag(sync=True)
    document = traitlets.Dict(default_value={"id": "", "title": "", "lines": [], "note": ""}).tag(sync=True)
    wanted = traitlets.Dict().tag(sync=True)

    def __init__(self, record: SessionRecord, lookup: Lookup, **traits: Any) -> None:
        super().__init__(choices=lookup.choices, **traits)
        self._record = record
        self._lookup = lookup

    def answer(self, wanted: dict[str, Any]) -> None:
        """Show the graph or document that the user chose."""
        if "document" in wanted:
            self._show_document(wanted["document"])
        else:
            self._show_nodes(wanted["compile_id"], wanted["stage"])

    def show(self, chosen: dict[str, Any]) -> None:
        """Show the graph and the document of the selection; without one, nothing changes."""
        if not self.documents:
            self.documents = list(documents_view(self._record))
            self.sources = source_view(self._record, self._lookup)
        key = (chosen["compile_id"], chosen["stage"])
        if key in self._lookup.graphs or not self.nodes["rows"]:
            self._show_nodes(*(key if key in self._lookup.graphs else self._lookup.first_graph or ("", "")))
        if (document := self._document_of(chosen)) is not None:
            self._show_document(document)
        if chosen.get("kernel"):
            self._show_nodes_of(chosen["kernel"])

    def _document_of(self, chosen: dict[str, Any]) -> str | None:
        """The chosen kernel, or the first that the chosen node or line went into; at first, any."""
        if chosen.get("kernel"):
            return str(chosen["kernel"])
        line = f"{chosen['label']}:{chosen['line']}"
        for row in self.nodes["rows"]:
            if row["documents"] and (row["name"] == chosen["node"] or (not chosen["node"] and row["line"] == line)):
                return str(row["documents"][0])
        return None if self.document["id"] else next((each["id"] for each in self.documents), None)

    def _show_nodes(self, compile_id: str, stage: str) -> None:
        if (self.nodes["compile_id"], self.nodes["stage"]) != (compile_id, stage):
            self.nodes = dict(node_list_view(self._lookup, compile_id, stage))

    def _show_nodes_of(self, kernel: str) -> None:
        """Put a graph on show that has the kernel's nodes, unless the one on show does."""
        entry = next((each for each in self.documents if each["id"] == kernel), None)
        if entry is None or any(kernel in row["documents"] for row in self.nodes["rows"]):
            return
        stage = f"post_grad{BACKWARD}" if entry["backward"] else "post_grad"
        if (entry["compile_id"], stage) in self._lookup.graphs:
            self._show_nodes(entry["compile_id"], stage)

    def _show_document(self, document: str) -> None:
        if self.document["id"] != document:
            self.document = dict(document_view(self._record, document))
