"""The search for the op that introduces an error: as text, as rows for the KernelDiff tab, and as errors by node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypedDict

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import (
    BACKWARD,
    Culprit,
    DiffRecord,
    GraphRecord,
    LocalizationRecord,
)
from inductor_debug_jupyter.pipeline.records.in_words import written_by
from inductor_debug_jupyter.pipeline.records.localization import STATUS_WORDS
from inductor_debug_jupyter.pipeline.records.transfers import spec_lines
from inductor_debug_jupyter.pipeline.views.crash import closing_lines
from inductor_debug_jupyter.pipeline.views.labels import short_op
from inductor_debug_jupyter.pipeline.views.places import code_text, where_text
from inductor_debug_jupyter.pipeline.words import count, duration

_SHOWN = 20
_SEARCHED: Final = {
    "forward": "forward",
    "post_grad": "forward",
    "backward": "backward",
    f"post_grad{BACKWARD}": "backward",
}
"""Stage of a captured graph → the graph of the search that it is: ``forward`` or ``backward``."""


class CurvePoint(TypedDict):
    """One node of the error curve; ``error`` is the free-running error, or the node's own when there is none."""

    at: int
    graph: str
    node: str
    op: str
    status: str
    words: str
    error: float | None
    allowed: float | None
    place: str


def localization_text(record: LocalizationRecord, *, timings: bool = False) -> str:
    """The culprits, each with op, kernel, module and line; then crashes, notes and pictures of the search."""
    lines = [_headline(record)]
    for culprit in record.culprits[:_SHOWN]:
        lines += ["", *_culprit_lines(culprit)]
    if len(record.culprits) > _SHOWN:
        lines += ["", f"… and {len(record.culprits) - _SHOWN} more"]
    lines += closing_lines(record)
    if timings:
        kept = f"{record.peak_bytes / 2**20:.1f} MiB kept at most"
        lines += ["", f"Took {duration(record.seconds)}, {count(record.compiles, 'compile')}, {kept}"]
    return "\n".join(lines)


written_by(LocalizationRecord, localization_text)


def _headline(record: LocalizationRecord) -> str:
    of_all = f"{record.compared} of {count(len(record.nodes), 'value')} looked at"
    name = f"{plain(record.model) or 'model'} on {plain(record.candidate)}"
    if record.culprits:
        amplified = sum(node.status == "amplified" for node in record.nodes)
        more = f", {count(amplified, 'value')} made worse later" if amplified else ""
        return f"✗ {name}: {count(len(record.culprits), 'culprit')} ({of_all}{more})"
    if not record.compared:
        return f"? {name}: NOTHING WAS COMPARED"
    if record.verdict == "mismatch":
        return f"✗ {name}: outputs differ, and no op was found that explains it ({of_all})"
    if record.crashes:
        return f"? {name}: its process ended, and no op alone does that ({of_all})"
    if record.compared < len(record.nodes):
        return f"? {name}: no culprit among the values that could be looked at ({of_all})"
    if record.verdict == "not_compared":
        return f"? {name}: rounding explains every value, but the outputs were not compared ({of_all})"
    return f"✓ {name}: rounding explains every value ({of_all})"


def _culprit_lines(culprit: Culprit) -> list[str]:
    lines = [f"✗ {plain(culprit.op)} · {culprit.graph} node {plain(culprit.node)}"]
    if culprit.source is not None:
        lines.append(f"  {where_text(culprit.source)}: {code_text(culprit.source)}")
    if culprit.module_path:
        lines.append(f"  module {plain(culprit.module_path)}")
    if culprit.kernel:
        lines.append(f"  kernel {plain(culprit.kernel)}")
    if culprit.allowed is not None:  # None for a culprit that ended its process: there is no value
        error = "not finite" if culprit.error is None else f"{culprit.error:.2e} of the element"
        lines.append(f"  error {error}; rounding explains {culprit.allowed:.2e}")
    if culprit.expected is not None or culprit.found is not None:
        expected, found = (
            "not finite" if value is None else f"{value:.9g}" for value in (culprit.expected, culprit.found)
        )
        lines.append(f"  worst at {list(culprit.index)}: {expected} expected, {found} found")
    if culprit.reason:
        lines.append(f"  {plain(culprit.reason)}")
    if culprit.spec:
        lines += ["  kernel spec", *(f"    {line}" for line in spec_lines(culprit.spec))]
    return lines


def without_outputs(record: LocalizationRecord) -> DiffRecord:
    """An empty comparison for a session that only searched: no output was compared."""
    note = "outputs were not compared, only the values on the way to them; session.diff() compares outputs"
    return DiffRecord(record.model, "eager", record.candidate, "not_compared", notes=(note,))


def node_errors(record: LocalizationRecord | None) -> dict[tuple[str, str], float]:
    """(graph, node) → its error as a multiple of what rounding explains, to colour a graph by.

    ``graph`` is ``forward`` or ``backward``; nodes are those of the post-grad graph on Inductor and of the AOT graph
    elsewhere, which share most names. Nodes that were not compared are left out; an infinite error is 1e30.
    """
    found: dict[tuple[str, str], float] = {}
    for node in record.nodes if record is not None else ():
        if node.status == "not_compared":
            continue
        error, allowed = node.in_sequence
        found[node.graph, node.node] = 1e30 if error is None else error / allowed if allowed else 1e30 if error else 0.0
    return found


def errors_by_graph(
    record: LocalizationRecord | None, graphs: Mapping[tuple[str, str], GraphRecord]
) -> dict[tuple[str, str], dict[str, float]]:
    """(compile id, stage) → node → its error (:func:`node_errors`), in the graphs of the search.

    A search has no compile ids: of several graphs of a stage, the one that has most of the search's nodes is taken.
    """
    errors = node_errors(record)
    found: dict[tuple[str, str], dict[str, float]] = {}
    for stage, side in _SEARCHED.items():
        named = {node: error for (graph, node), error in errors.items() if graph == side}
        matches = [
            (key, {node.name: named[node.name] for node in graph.nodes if node.name in named})
            for key, graph in graphs.items()
            if key[1] == stage
        ]
        if matches and (best := max(matches, key=lambda match: len(match[1])))[1]:
            found[best[0]] = best[1]
    return found


def error_curve(record: LocalizationRecord) -> list[CurvePoint]:
    """One point for each node of the search, in the order of execution."""
    return [
        CurvePoint(
            at=at,
            graph=node.graph,
            node=plain(node.node),
            op=plain(node.op),
            status=node.status,
            words=STATUS_WORDS[node.status],
            error=node.in_sequence[0],
            allowed=node.in_sequence[1],
            place=where_text(node.source) or plain(node.module_path),
        )
        for at, node in enumerate(record.nodes)
    ]


def search_lines(record: LocalizationRecord) -> list[str]:
    """The search's headline, notes and pictures, for the tab."""
    return [_headline(record), *(plain(each) for each in (*record.notes, *record.images))]


def culprit_rows(record: LocalizationRecord) -> list[dict[str, Any]]:
    """The culprits for the tab: text only."""
    return [
        {
            "op": plain(culprit.op),
            "name": short_op(plain(culprit.op)),
            "where": " · ".join(filter(None, [where_text(culprit.source), plain(culprit.module_path)])),
            "code": code_text(culprit.source),
            "spec": spec_lines(culprit.spec),
            "node": plain(culprit.node),
            "graph": culprit.graph,
            "lines": [plain(line) for line in _culprit_lines(replace(culprit, spec={}))[1:]],
        }
        for culprit in record.culprits
    ]


def point_text(point: CurvePoint) -> str:
    """What a point of the curve is, in one line."""
    error = "not finite" if point["error"] is None else f"{point['error']:.2e}"
    where = f" · {point['place']}" if point["place"] else ""
    return f"{point['graph']} {point['node']} ({point['op']}): {error}, {point['words']}{where}"
