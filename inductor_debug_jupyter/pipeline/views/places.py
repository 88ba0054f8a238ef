"""Source lines as text, which findings are on which node and line, and the selection that a click makes.

A :class:`Lookup` walks the record once; everything else is a dictionary access. A selection is always complete (that of
a finding has its node and line, too), so that every pane can highlight its part from the selection alone.
"""

from __future__ import annotations

from functools import cached_property

from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import (
    BACKWARD,
    GraphRecord,
    NodeRecord,
    Place,
    SessionRecord,
    SourceLine,
    Violation,
)
from inductor_debug_jupyter.pipeline.views.labels import label_of
from inductor_debug_jupyter.pipeline.views.view_types import Row, Selection
from inductor_debug_jupyter.pipeline.words import RANK, count

STAGE_PREFERENCE = ("forward", "post_grad", "joint", "dynamo", "backward")
"""Which graph of a compile opens first when nothing is selected: the one that a device is given, before fusion."""


def where_text(line: SourceLine | None) -> str:
    """``In [4], line 17``; empty without a line."""
    return f"{plain(label_of(line))}, line {line.line}" if line else ""


def model_text(place: Place) -> str:
    """``modeling_vit.py:547 · classifier``: the model's own line, and the module; the node where neither is known."""
    line = plain(short_line(place.line)) if place.line else ""
    return " · ".join(filter(None, [line, plain(place.module_path)])) or plain(place.node)


def called_text(place: Place) -> str:
    """``In [2], line 2``: the cell's line, where the model's own is another one; else empty."""
    return where_text(place.called_from)


def short_line(line: SourceLine) -> str:
    """``modeling_vit.py:547``, or ``In [4], line 17`` of a cell."""
    label = label_of(line)
    return f"{label}, line {line.line}" if label.startswith("In [") else f"{label}:{line.line}"


def code_text(line: SourceLine | None) -> str:
    """The code of a line without its indent; empty without a line."""
    return plain(line.text.strip()) if line else ""


def label_and_number(line: SourceLine | None) -> tuple[str, int]:
    """The two fields by which views name a line; ``("", 0)`` without a line."""
    return (label_of(line), line.line) if line else ("", 0)


def line_key(line: SourceLine) -> str:
    """``model.py:12``: the form in which views list lines."""
    return f"{label_of(line)}:{line.line}"


def at_line(line: SourceLine | None, compile_id: str = "", stage: str = "") -> Selection:
    """The selection of a line, and of a graph where one is given."""
    label, number = label_and_number(line)
    return {**nothing(), "compile_id": compile_id, "stage": stage, "label": label, "line": number}


def kernel_id(compile_id: str, number: int) -> str:
    """The id of a kernel in a selection; names can repeat between forward and backward."""
    return f"{compile_id}|kernel|{number}"


def nothing() -> Selection:
    """The empty selection."""
    return Selection(finding=None, compile_id="", stage="", node="", label="", line=0, kernel="")


def of_place(index: int, place: Place) -> Selection:
    """The selection of finding number ``index`` at one of its places."""
    return {**at_line(place.line, place.compile_id, place.stage), "finding": index, "node": place.node}


def worst_first(findings: tuple[Violation, ...]) -> list[tuple[int, Violation]]:
    """Index and finding: errors, warnings, infos; within one severity as found."""
    return sorted(enumerate(findings), key=lambda pair: (RANK[pair[1].severity], pair[0]))


class Lookup:
    """The record's findings by node and by line."""

    def __init__(self, record: SessionRecord) -> None:
        self.record = record
        self.ordered = worst_first(record.findings)
        self.by_node: dict[tuple[str, str, str], list[int]] = {}
        self.by_line: dict[tuple[str, int], dict[int, Place]] = {}
        for index, finding in self.ordered:
            for place in finding.places:
                at_node = self.by_node.setdefault((place.compile_id, place.stage, place.node), [])
                if not at_node or at_node[-1] != index:
                    at_node.append(index)
                for line in filter(None, (place.line, place.called_from)):
                    self.by_line.setdefault((label_of(line), line.line), {}).setdefault(index, place)

    @cached_property
    def graphs(self) -> dict[tuple[str, str], GraphRecord]:
        """Every graph by compile id and stage, in the order of compilation."""
        return {
            (capture.compile_id, stage): graph
            for capture in self.record.captures
            for stage, graph in capture.graphs.items()
        }

    @cached_property
    def names(self) -> dict[str, str]:
        """Compile id → the name of what was compiled."""
        return {capture.compile_id: capture.name for capture in self.record.captures}

    @cached_property
    def choices(self) -> list[Row]:
        """Every graph, with a title to choose it by."""
        return [
            Row(
                compile_id=compile_id,
                stage=stage,
                title=graph_title(self, compile_id, stage, count(len(graph.calls), "op")),
            )
            for (compile_id, stage), graph in self.graphs.items()
        ]

    @cached_property
    def first_graph(self) -> tuple[str, str] | None:
        """The graph that opens first: that of the worst finding, else the first compile's best stage."""
        for _, finding in self.ordered:
            for place in finding.places:
                if (place.compile_id, place.stage) in self.graphs:
                    return place.compile_id, place.stage
        for capture in self.record.captures:
            for stage in STAGE_PREFERENCE:
                if (capture.compile_id, stage) in self.graphs:
                    return capture.compile_id, stage
        return None

    @cached_property
    def _nodes_of_line(self) -> dict[tuple[str, int], list[tuple[str, str, str]]]:
        """Line → every node that came from it."""
        nodes: dict[tuple[str, int], list[tuple[str, str, str]]] = {}
        for (compile_id, stage), graph in self.graphs.items():
            for node in graph.nodes:
                for key in dict.fromkeys(label_and_number(line) for line in (node.source, node.cell) if line):
                    nodes.setdefault(key, []).append((compile_id, stage, node.name))
        return nodes

    def has_nodes(self, label: str, line: int) -> bool:
        """Whether that line left any node in any graph."""
        return (label, line) in self._nodes_of_line

    def find(
        self,
        *,
        finding: int | None = None,
        node: str | None = None,
        line: int | None = None,
        kernel: str | None = None,
        label: str = "",
        near: tuple[str, str] | None = None,
    ) -> Selection:
        """The selection of a finding (by index), node, kernel (by name) or line; ``near`` is the graph to try first.

        Raises:
            UsageError: not exactly one of the four was given.
            NotFoundError: there is no such finding, node, line or kernel.
        """
        if [finding, node, line, kernel].count(None) != 3:
            raise UsageError("select() takes exactly one of finding=, node=, line= and kernel=")
        if finding is not None:
            return self.of_finding(finding)
        if node is not None:
            return self.find_node(node, near=near)
        if kernel is not None:
            return self.find_kernel(kernel)
        assert line is not None
        return self.find_line(line, label=label, near=near)

    @cached_property
    def first(self) -> Selection:
        """What is chosen before the user chose anything: the worst finding, the first culprit, or the first break."""
        if self.ordered:
            return self.of_finding(self.ordered[0][0])
        for culprit in self.record.localization.culprits if self.record.localization else ():
            if (found := self.of_searched(culprit.graph, culprit.node)) is not None:
                return found
        return next((at_line(item.source, item.compile_id) for item in self.record.graph_breaks), nothing())

    def of_searched(self, graph: str, name: str) -> Selection | None:
        """The node of a search for culprits (``forward`` or ``backward``), in the captured graph that has it."""
        suffix = BACKWARD if graph == "backward" else ""
        for stage in (f"post_grad{suffix}", graph):
            for (compile_id, at), found in self.graphs.items():
                if at == stage and (node := found.node(name)) is not None:
                    return self.of_node(compile_id, stage, node)
        return None

    def find_kernel(self, name: str) -> Selection:
        """The first kernel of that name.

        Raises:
            NotFoundError: there is none.
        """
        for capture in self.record.captures:
            for number, kernel in enumerate(capture.kernels):
                if name in {kernel.name, kernel_id(capture.compile_id, number)}:
                    chosen = kernel_id(capture.compile_id, number)
                    return {**nothing(), "compile_id": capture.compile_id, "kernel": chosen}
        raise NotFoundError(f"no captured kernel is called {name!r}")

    def of_finding(self, index: int) -> Selection:
        """The selection of a finding at its first place; the finding alone when it has none.

        Raises:
            NotFoundError: there is no finding of that number.
        """
        if not 0 <= index < len(self.record.findings):
            raise NotFoundError(f"there is no finding {index}: this session has {len(self.record.findings)}")
        places = self.record.findings[index].places
        return of_place(index, places[0]) if places else {**nothing(), "finding": index}

    def of_node(self, compile_id: str, stage: str, node: NodeRecord) -> Selection:
        """The selection of a node, with its line and its worst finding."""
        findings = self.by_node.get((compile_id, stage, node.name))
        chosen = at_line(node.source or node.cell, compile_id, stage)
        return {**chosen, "finding": findings[0] if findings else None, "node": node.name}

    def find_node(self, name: str, *, near: tuple[str, str] | None = None) -> Selection:
        """The node of that name: in the graph ``near`` if it has one, else in the first graph that has.

        Raises:
            NotFoundError: no graph has such a node.
        """
        keys = [near] if near in self.graphs and near is not None else []
        for key in (*keys, *self.graphs):
            if (node := self.graphs[key].node(name)) is not None:
                return self.of_node(*key, node)
        raise NotFoundError(f"no captured graph has a node {name!r}")

    def of_line(self, label: str, line: int) -> Selection:
        """The selection of a line with its worst finding, or the line alone (a graph then lights all of its nodes)."""
        for index, place in self.by_line.get((label, line), {}).items():
            return of_place(index, place)
        return {**nothing(), "label": label, "line": line}

    def find_line(self, line: int, *, label: str = "", near: tuple[str, str] | None = None) -> Selection:
        """Like :meth:`of_line`; ``label`` may be left out, and a graph is added when ``near`` has no node of the line.

        Raises:
            NotFoundError: no captured source has such a line.
        """
        labels = [label] if label else list(self.record.sources)
        known = [name for name in labels if self.has_nodes(name, line) or (name, line) in self.by_line]
        known += [name for name in labels if line <= len(self.record.sources.get(name, "").splitlines())]
        if not known or line < 1:
            raise NotFoundError(f"no captured source has a line {line}" + (f" in {label!r}" if label else ""))
        selection = self.of_line(known[0], line)
        homes = [(compile_id, stage) for compile_id, stage, _ in self._nodes_of_line.get((known[0], line), [])]
        if selection["finding"] is None and homes and near not in homes:
            selection["compile_id"], selection["stage"] = homes[0]
        return selection


def graph_title(lookup: Lookup | None, compile_id: str, stage: str, *facts: str) -> str:
    """What a graph is called where one is chosen: ``forward · Net · 12 ops · 0/0``."""
    name = plain(lookup.names.get(compile_id, "")) if lookup else ""
    return " · ".join(filter(None, [stage, name, *facts, compile_id]))
