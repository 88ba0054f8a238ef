"""The panel in a page, without Python: all that it may ask for, made beforehand and packed in pieces.

The page runs the panel's own modules (``jupyter/static/panel``, from ``offline.js``). Where a notebook's panel asks
Python, this one unpacks a piece: the parts that it begins with, one graph, one document. A piece is JSON, gzipped, in
base64, so that nothing in it can be markup; it is unpacked when it is first needed.
"""

from __future__ import annotations

import json
import math
import re
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.comparing.graph_pairs import GraphPair
from inductor_debug_jupyter.pipeline.devices.memory import liveness_of
from inductor_debug_jupyter.pipeline.documentation import explain
from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphViews
from inductor_debug_jupyter.pipeline.drawing.saved_graph import saved_graph
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import GraphRecord, SessionRecord
from inductor_debug_jupyter.pipeline.views.code import document_view, documents_view, node_list_view
from inductor_debug_jupyter.pipeline.views.comparison import ROWS, difference_rows, pair_title
from inductor_debug_jupyter.pipeline.views.diff import diff_view
from inductor_debug_jupyter.pipeline.views.guards import guards_view
from inductor_debug_jupyter.pipeline.views.localization import error_curve, point_text, without_outputs
from inductor_debug_jupyter.pipeline.views.memory import alive_view, memory_view
from inductor_debug_jupyter.pipeline.views.numerics import budget_view
from inductor_debug_jupyter.pipeline.views.overview import overview_view
from inductor_debug_jupyter.pipeline.views.panel import findings_view, header_view, node_view, source_view
from inductor_debug_jupyter.pipeline.views.panel_parts import EMPTY
from inductor_debug_jupyter.pipeline.views.placement import placement_views
from inductor_debug_jupyter.pipeline.views.places import Lookup, graph_title
from inductor_debug_jupyter.pipeline.views.rule_page import page_view
from inductor_debug_jupyter.pipeline.views.text import header_line
from inductor_debug_jupyter.pipeline.views.timing import time_view
from inductor_debug_jupyter.pipeline.views.transfers import transfers_view
from inductor_debug_jupyter.pipeline.views.view_types import Row, TabView

SECONDS = 8.0
"""How long the pictures of opened boxes of one session may take."""
PLACES = 200
TRANSFERS = 2_000
SIDES = ("before", "after")
_PAIRS = 12
"""So many pairs of graphs are shown side by side."""
_ALIVE = 200
"""So many tensors, the largest, are listed beside a memory curve."""
_COLOURED = 1_000
"""So many lines of a document are coloured: Pygments takes a second for a few thousand."""
_LONGEST_TEXT = 10_000
_HUGE = re.compile(r'"[^"]{10001}')
_LONGEST = 400_000
"""Characters of a document that go into a page; the stored file has all."""


def packed(value: Any) -> str:
    """A value as a piece of the page; texts that no browser could lay out are cut."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:  # JSON has no NaN and no infinity
        text = ""
    if not text or _HUGE.search(text):
        text = json.dumps(_showable(value), separators=(",", ":"))
    packer = zlib.compressobj(9, wbits=31)
    return b64encode(packer.compress(text.encode()) + packer.flush()).decode()


def _showable(value: Any, name: str = "") -> Any:
    """With None for what is not finite, and no text longer than :data:`_LONGEST_TEXT` but a picture."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if name == "svg" else words.clip(value, _LONGEST_TEXT)
    if isinstance(value, dict):
        return {words.clip(key, _LONGEST_TEXT): _showable(each, key) for key, each in value.items()}
    return [_showable(each) for each in value] if isinstance(value, list | tuple) else value


def pieces(record: SessionRecord, trials: list[Row] | None = None) -> Iterator[tuple[str, str]]:
    """Name and packed data of everything that the panel of one session may show; ``parts`` comes first."""
    lookup = Lookup(record)
    yield "parts", packed(parts_of(record, lookup, trials or []))
    yield "sources", packed(source_view(record, lookup))
    views, until = GraphViews(record, lookup=lookup), time.monotonic() + SECONDS
    for compile_id, stage in lookup.graphs:
        graph = saved_graph(views.of(compile_id, stage), lambda: time.monotonic() < until)
        yield f"graph {compile_id} {stage}", packed(_with_nodes(graph, lookup))
    for entry in documents_view(record):
        yield f"document {entry['id']}", packed(_document(record, entry["id"]))


def _with_nodes(graph: Row, lookup: Lookup) -> Row:
    """A saved graph with the raw detail of its nodes, and their list for the Code tab."""
    key = graph["compile_id"], graph["stage"]
    return {**graph, "nodes": _nodes(lookup, *key), "code": node_list_view(lookup, *key)}


def pair_pieces(pairs: Sequence[GraphPair], runs: tuple[SessionRecord, SessionRecord]) -> Iterator[tuple[str, str]]:
    """The pieces of graphs side by side: the pairs with what differs, and the graphs of both sides."""
    shown = pairs[:_PAIRS]
    titles = [f"{side}: {header_line(run)}" for side, run in zip(SIDES, runs, strict=True)]
    yield "pairs", packed({"pairs": [_pair(pair) for pair in shown], "titles": titles})
    until = time.monotonic() + SECONDS
    for side, record in enumerate(runs):
        for name, piece in _side(record, side, shown, lambda: time.monotonic() < until):
            yield name, packed(piece)


def _side(
    record: SessionRecord, side: int, pairs: Sequence[GraphPair], room: Callable[[], bool]
) -> Iterator[tuple[str, Row]]:
    lookup = Lookup(record)
    views = GraphViews(record, lookup=lookup)
    graphs: dict[tuple[str, str], dict[str, str]] = {}
    for pair in pairs:
        for key in pair.graphs[side]:
            graphs.setdefault(key, {})
        for (compile_id, stage, node), status in pair.status[side].items():
            graphs[compile_id, stage][node] = status
    choices = [choice for choice in lookup.choices if (choice["compile_id"], choice["stage"]) in graphs]
    blank = {"memory_of": [], "memory_first": 0, "histograms": {}, "pages": {}}
    yield f"parts {SIDES[side]}", {**EMPTY, **blank, "graph_choices": choices, "tab": "graph"}
    for key, status_of in graphs.items():
        graph = saved_graph(views.of(*key), room, status=status_of)
        yield f"{SIDES[side]} graph {' '.join(key)}", _with_nodes(graph, lookup)


def _pair(pair: GraphPair) -> Row:
    return Row(
        title=pair_title(pair),
        graphs=pair.graphs,
        links=pair.links,
        left_out=max(0, len(pair.comparison.nodes) - ROWS),
        rows=difference_rows(pair),
    )


def parts_of(record: SessionRecord, lookup: Lookup, trials: list[Row]) -> dict[str, Any]:
    """Every part of the panel's state, and what tabs and choosers show beyond it (``memory_of``, ``pages``)."""
    header = header_view(record)
    if trials:
        header["tabs"].append(TabView(id="what_if", title="What if", badge="", kind=""))
    memory = [_memory(lookup, at) for at in range(len(record.memory))]
    guards = guards_view(record)
    return {
        **EMPTY,
        "header": {**header, "variable": ""},
        "tab": header["tab"],
        "selection": lookup.first,
        "overview": overview_view(record, lookup),
        "findings": findings_view(record, lookup, max_places=PLACES),
        "graph_choices": lookup.choices,
        "guards": guards,
        "placement": placement_views(record.coverage, lookup),
        "transfers": transfers_view(record, lookup, limit=TRANSFERS),
        "code_documents": documents_view(record),
        "trials": trials,
        "trial_shown": len(trials) - 1,
        "charts": {"timeline": _timeline(guards["timeline"])} if len(guards["timeline"]) > 1 else {},
        **_diff(record, lookup),
        **_shares(record, lookup),
        "memory_of": memory,
        "memory_first": max(range(len(memory)), key=lambda at: record.memory[at].peak, default=0),
        "pages": {finding.rule_id: page for finding in record.findings if (page := _page(finding.rule_id))},
    }


def _shares(record: SessionRecord, lookup: Lookup) -> dict[str, Row]:
    """The Error budget and the Time tab, where there are such."""
    found = {}
    if record.error_budget is not None:
        found["budget"] = budget_view(record.error_budget, lookup, record.prescription)
    if record.kernel_times is not None:
        found["time"] = time_view(record.kernel_times, lookup)
    return found


def _page(rule_id: str) -> Row | None:
    try:
        return dict(page_view(explain(rule_id)))
    except NotFoundError:  # a rule of the user's own has no page
        return None


def _nodes(lookup: Lookup, compile_id: str, stage: str) -> dict[str, Row]:
    """Node → its raw detail, and the finding that choosing it chooses."""
    found = {}
    for node in lookup.graphs[compile_id, stage].nodes:
        if view := node_view(lookup, compile_id, stage, node.name):
            found[node.name] = {**view, "finding": lookup.of_node(compile_id, stage, node)["finding"]}
    return found


def _document(record: SessionRecord, name: str) -> Row:
    view, left = document_view(record, name, coloured=_COLOURED), _LONGEST
    for number, line in enumerate(view["lines"]):
        left -= sum(len(text) for _, text in line)
        if left < 0:
            note = f"the first {number:,} of {len(view['lines']):,} lines"
            return {**view, "lines": view["lines"][:number], "note": " · ".join(filter(None, [view["note"], note]))}
    return view


# Charts --------------------------------------------------------------------------------


def _timeline(bars: list[Any]) -> Row:
    return Row(
        kind="bars",
        title="Compiles",
        x_title="",
        y_title="seconds",
        ys=[bar["seconds"] for bar in bars],
        names=[bar["compile_id"] for bar in bars],
        texts=[f"{bar['compile_id']} {bar['kind']}: {words.duration(bar['seconds'])} {bar['why']}" for bar in bars],
        tones=["bad" if bar["kind"] == "recompile" else "good" for bar in bars],
        selections=[bar["selection"] for bar in bars],
    )


def _diff(record: SessionRecord, lookup: Lookup) -> dict[str, Any]:
    """The parts of the KernelDiff tab; ``histograms`` by output."""
    found = record.localization
    diff = record.diff or (without_outputs(found) if found else None)
    if diff is None:
        return {"histograms": {}}
    view = diff_view(diff, localization=found)
    shapes = {plain(output.path): list(output.shape) for output in diff.outputs}
    view["outputs"] = [{**each, "shape": shapes[each["path"]]} for each in view["outputs"]]
    points = [] if found is None else error_curve(found)
    tones = {"introduced": "bad", "amplified": "warn", "rounding": "good", "not_compared": "none"}
    curve = Row(
        kind="dots",
        title="How the error grows along the graph",
        x_title="values, as they are computed",
        y_title="error / largest element",
        ys=[point["error"] for point in points],
        allowed=[point["allowed"] for point in points],
        logarithmic=True,
        texts=[point_text(point) for point in points],
        tones=[tones[point["status"]] for point in points],
        selections=[lookup.of_searched(point["graph"], point["node"]) for point in points],
    )
    return {
        "diff": {**view, "live": []},
        "diff_shown": view["outputs"][0]["path"] if view["outputs"] else "",
        "diff_point": "Each dot is a value; red brings an error in, dashed is what rounding explains."
        if points
        else "",
        "curve": curve if points else None,
        "histograms": {
            each["path"]: Row(
                kind="bars",
                title="How the errors are spread",
                x_title="error, from … up",
                y_title="elements",
                ys=[count for _, _, count in each["histogram"]],
                names=[f"{low:.0e}" for low, _, _ in each["histogram"]],
                texts=[
                    f"{low:.1e} to {high:.1e}: {words.count(count, 'element')}"
                    for low, high, count in each["histogram"]
                ],
                logarithmic=True,
            )
            for each in view["outputs"]
            if each["histogram"]
        },
    }


def _memory(lookup: Lookup, at: int) -> Row:
    """One curve, and the tensors with the steps between which they are alive."""
    record = lookup.record.memory[at]
    view = memory_view(record, lookup.record.memory_limit)
    graph = lookup.graphs.get((record.compile_id, record.stage))
    capture = next(each for each in lookup.record.captures if each.compile_id == record.compile_id)
    return Row(
        choice=graph_title(lookup, record.compile_id, record.stage, f"peak {words.size(record.peak)}"),
        peak_at=record.timeline.index(record.peak),
        chart=Row(
            kind="area",
            title="",
            x_title="nodes, as they run",
            y_title="bytes",
            xs=[at for at, _ in view["points"]],
            ys=[size for _, size in view["points"]],
            limit=view["limit"] if view["over"] else None,
            texts=[words.size(size) for _, size in view["points"]],
        ),
        totals=[words.size(size) for size in record.timeline],
        names=[node.name for node in graph.nodes] if graph else [],
        tensors=_alive(lookup, graph, capture, record.timeline, (record.compile_id, record.stage)) if graph else [],
    )


def _alive(
    lookup: Lookup, graph: GraphRecord, capture: Any, timeline: tuple[int, ...], key: tuple[str, str]
) -> list[Row]:
    """Each of the largest tensors with the first and last node while which it is alive."""
    liveness = liveness_of(graph, capture)
    peak, rows = max(timeline, default=0), []
    for storage in sorted(liveness.storages, key=lambda each: -each.tensor.bytes)[: 4 * _ALIVE]:
        steps = [at for at, step in enumerate(liveness.steps) if storage.first <= step <= storage.last]
        made = graph.node(storage.tensor.node)
        if steps and storage.tensor.bytes:
            row = {**alive_view(storage.tensor, peak), "first": steps[0], "last": steps[-1]}
            rows.append({**row, "selection": lookup.of_node(*key, made) if made else None})
    return rows
