"""Op coverage and partition as dicts for the Placement tab, and the ledger's entries as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import (
    OP_STATUSES,
    CoverageRecord,
    Fallback,
    GraphCoverage,
    Place,
    PlannedTransfer,
)
from inductor_debug_jupyter.pipeline.views.places import Lookup, graph_title, of_place, where_text
from inductor_debug_jupyter.pipeline.views.view_types import Row, Selection, copied

_MOVED = {
    "border": ("between", "transfer between device and CPU", "transfers between device and CPU"),
    "input": ("input", "input to the device", "inputs to the device"),
    "resident": ("parameter", "parameter to the device, once", "parameters to the device, once"),
    "output": ("output", "output back", "outputs back"),
    "written": ("written", "written input back", "written inputs back"),
}
"""Kind of transfer → its word in a row, and what one and several are."""
_ICONS = {"supported": "✓", "decomposable": "✓", "fallback": "⚠", "refused": "✗"}


def placement_views(coverage: CoverageRecord | None, lookup: Lookup | None = None) -> list[Row]:
    """One view for each graph; none when nothing was checked against a target.

    With ``lookup`` the selection of an op includes its finding.
    """
    return [_graph_view(graph, lookup) for graph in coverage.graphs] if coverage else []


def _graph_view(graph: GraphCoverage, lookup: Lookup | None) -> Row:
    """One graph on the target; ``moved`` has one line for each kind of transfer."""
    return Row(
        title=graph_title(lookup, graph.compile_id, graph.stage),
        compile_id=graph.compile_id,
        stage=graph.stage,
        counts={status: graph.count(status) for status in OP_STATUSES},
        rows=[
            copied(row, "op", "status", "count", "reason", "parts")
            | Row(icon=_ICONS[row.status], lines=_lines(row.places), selection=_selection(row.places, lookup))
            for row in graph.rows
        ],
        segments=[copied(segment, "index", "side", "nodes") for segment in graph.segments],
        ledger=[_ledger_view(entry, lookup) for entry in graph.fallbacks],
        transfers=[_transfer_view(each, graph, lookup) for each in graph.transfers],
        moved=list(_moved(graph)),
        narrowed=[f"{number:,} tensors of {dtype} are kept as {kept}" for dtype, kept, number in graph.narrowed],
    )


def _transfer_view(transfer: PlannedTransfer, graph: GraphCoverage, lookup: Lookup | None) -> Row:
    """One transfer; a parameter goes by its own name.

    ``size`` and ``seconds`` are text, empty when they are not known.
    """
    captured = lookup.graphs.get((graph.compile_id, graph.stage)) if lookup else None
    node = captured.node(transfer.value) if captured else None
    return copied(transfer, "value", "to", "kind", "segment", "spec") | Row(
        words=_MOVED[transfer.kind][0] if transfer.kind in _MOVED else plain(transfer.kind),
        name=plain((node.origin if node else "") or transfer.value),
        size="" if transfer.bytes is None else words.size(transfer.bytes),
        seconds="" if transfer.seconds is None else _short(transfer.seconds),
        selection=lookup.of_node(graph.compile_id, graph.stage, node) if lookup and node else None,
    )


def _ledger_view(entry: Fallback, lookup: Lookup | None) -> Row:
    """One op that leaves the target: how often, why, and the bytes that move for it (empty: none, or not known)."""
    return copied(entry, "op", "status") | Row(
        icon=_ICONS[entry.status],
        text=fallback_line(entry),
        size=words.size(entry.bytes_moved) if entry.bytes_moved else "",
        selection=_selection(entry.places, lookup),
    )


def _selection(places: tuple[Place, ...], lookup: Lookup | None) -> Selection | None:
    """The selection of an op: its first place."""
    if not places:
        return None
    first = places[0]
    graph = lookup.graphs.get((first.compile_id, first.stage)) if lookup else None
    if lookup and graph and (node := graph.node(first.node)) is not None:
        return lookup.of_node(first.compile_id, first.stage, node)
    return {**of_place(0, first), "finding": None}


def _lines(places: tuple[Place, ...]) -> list[str]:
    """``model.py, line 12``, each once."""
    return list(dict.fromkeys(where_text(place.line) for place in places if place.line))


def _moved(graph: GraphCoverage) -> Iterator[str]:
    """One line for each kind of transfer: ``2 transfers between device and CPU: 256 KiB, about 12 µs``."""
    for kind, (_, one, several) in _MOVED.items():
        seconds = [each.seconds for each in graph.transfers if each.kind == kind]
        if not seconds:
            continue
        moved = graph.moved(kind)
        total = "symbolic sizes" if moved is None else words.size(moved)
        known = [each for each in seconds if each is not None]
        cost = f", about {_short(sum(known))}" if len(known) == len(seconds) else ""
        yield f"{len(seconds):,} {one if len(seconds) == 1 else several}: {total}{cost}"


def fallback_line(entry: Fallback) -> str:
    """One entry of the ledger: ``sort ×2 runs on the CPU: … (model.py, line 12)``."""
    what = "runs on the CPU" if entry.status == "fallback" else "cannot run"
    why = f": {plain(entry.reason)}" if entry.reason else ""
    moved = f"; {words.size(entry.bytes_moved)} moved for it" if entry.bytes_moved else ""
    lines = _lines(entry.places)
    where = f" ({lines[0]}{f' and {len(lines) - 1} more' if len(lines) > 1 else ''})" if lines else ""
    return f"{plain(entry.op)} ×{entry.count:,} {what}{why}{moved}{where}"


def _short(seconds: float) -> str:
    """``12 µs``, ``3.4 ms``, ``1.2 s``."""
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"
