"""The Code tab: the user's source, the graph's nodes, and the generated code side by side."""

from __future__ import annotations

from typing import Any

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.pipeline.records import BACKWARD, SessionRecord
from inductor_debug_jupyter.pipeline.views.code import document_view, documents_view, node_list_view
from inductor_debug_jupyter.pipeline.views.panel import source_view
from inductor_debug_jupyter.pipeline.views.panel_parts import NO_DOCUMENT, Parts
from inductor_debug_jupyter.pipeline.views.places import Lookup

TAB = "code"
BEING_MADE = "Inductor is making the generated code now…"
NOT_MADE = "the generated code was not made; open another tab and this one again"


class CodePane:
    """Writes ``code_documents`` and all ``sources`` when the tab is first opened, then what is on show."""

    def __init__(self, parts: Parts, record: SessionRecord, lookup: Lookup) -> None:
        self._parts, self._record, self._lookup = parts, record, lookup

    def answers(self) -> wire.Handlers:
        """What may be asked of it."""
        return {
            wire.ShowNodes: lambda request: self._show_nodes(request.compile_id, request.stage),
            wire.ShowDocument: lambda request: self._show_document(request.document),
        }

    def follow(self, record: SessionRecord, lookup: Lookup) -> None:
        """Show this record from now on, which has stages that the one before did not have."""
        self._record, self._lookup = record, lookup
        self._parts["code_documents"] = []
        self._parts["code_document"] = NO_DOCUMENT
        if self._nodes["rows"]:  # they name the documents that they went into
            self._parts["code_nodes"] = dict(node_list_view(lookup, self._nodes["compile_id"], self._nodes["stage"]))

    def say_being_made(self) -> None:
        """Say that the generated code is being made."""
        self._parts["code_document"] = {**NO_DOCUMENT, "note": BEING_MADE}

    def say_not_made(self) -> None:
        """Say that making it was stopped."""
        self._parts["code_document"] = {**NO_DOCUMENT, "note": NOT_MADE}

    def show(self, chosen: dict[str, Any]) -> None:
        """Show the graph and the document of the selection; without one, nothing changes."""
        if not self._parts["code_documents"]:
            self._parts["code_documents"] = list(documents_view(self._record))
            self._parts["sources"] = source_view(self._record, self._lookup)
        key = (chosen["compile_id"], chosen["stage"])
        if key in self._lookup.graphs or not self._nodes["rows"]:
            self._show_nodes(*(key if key in self._lookup.graphs else self._lookup.first_graph or ("", "")))
        if (document := self._document_of(chosen)) is not None:
            self._show_document(document)
        if chosen.get("kernel"):
            self._show_nodes_of(chosen["kernel"])

    @property
    def _nodes(self) -> dict[str, Any]:
        nodes: dict[str, Any] = self._parts["code_nodes"]
        return nodes

    def _document_of(self, chosen: dict[str, Any]) -> str | None:
        """The chosen kernel, or the first that the chosen node or line went into; at first, any."""
        if chosen.get("kernel"):
            return str(chosen["kernel"])
        line = f"{chosen['label']}:{chosen['line']}"
        for row in self._nodes["rows"]:
            if row["documents"] and (row["name"] == chosen["node"] or (not chosen["node"] and line in row["lines"])):
                return str(row["documents"][0])
        return (
            None
            if self._parts["code_document"]["id"]
            else next((each["id"] for each in self._parts["code_documents"]), None)
        )

    def _show_nodes(self, compile_id: str, stage: str) -> None:
        if (self._nodes["compile_id"], self._nodes["stage"]) != (compile_id, stage):
            self._parts["code_nodes"] = dict(node_list_view(self._lookup, compile_id, stage))

    def _show_nodes_of(self, kernel: str) -> None:
        """Put a graph on show that has the kernel's nodes, unless the one on show does."""
        entry = next((each for each in self._parts["code_documents"] if each["id"] == kernel), None)
        if entry is None or any(kernel in row["documents"] for row in self._nodes["rows"]):
            return
        stage = f"post_grad{BACKWARD}" if entry["backward"] else "post_grad"
        if (entry["compile_id"], stage) in self._lookup.graphs:
            self._show_nodes(entry["compile_id"], stage)

    def _show_document(self, document: str) -> None:
        if self._parts["code_document"]["id"] != document:
            self._parts["code_document"] = dict(document_view(self._record, document))
