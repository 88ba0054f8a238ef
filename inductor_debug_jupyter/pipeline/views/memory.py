"""Memory over time as dicts for the Memory tab and as text: the peak, its node, and the tensors alive there."""

from __future__ import annotations

from collections.abc import Iterator

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import LiveTensor, MemoryRecord
from inductor_debug_jupyter.pipeline.records.in_words import written_by
from inductor_debug_jupyter.pipeline.views.places import where_text
from inductor_debug_jupyter.pipeline.views.view_types import Row, copied

_POINTS = 400
_TENSORS = 8


def memory_view(record: MemoryRecord, limit: int | None = None) -> Row:
    """One graph's memory over time; ``points`` are (node number, bytes), thinned to what a picture shows."""
    return copied(record, "compile_id", "stage", "peak", "peak_node") | Row(
        title=f"{record.compile_id} {record.stage}".strip(),
        limit=limit,
        over=limit is not None and record.peak > limit,
        points=_thinned(record.timeline),
        alive=[alive_view(tensor, record.peak) for tensor in record.alive],
        assumed=", ".join(f"{name} = {value}" for name, value in (record.assumed or {}).items()),
    )


def _thinned(timeline: tuple[int, ...]) -> list[tuple[int, int]]:
    """The highest point of each of at most 400 stretches, so that thinning keeps the peak."""
    step = max(1, -(-len(timeline) // _POINTS))
    points = []
    for start in range(0, len(timeline), step):
        stretch = timeline[start : start + step]
        highest = max(range(len(stretch)), key=stretch.__getitem__)
        points.append((start + highest, stretch[highest]))
    return points


def alive_view(tensor: LiveTensor, total: int) -> Row:
    """One tensor, and its share of all that is alive with it."""
    return copied(tensor, "node", "bytes", "spec", "role", "module_path") | Row(
        name=plain(tensor.origin or tensor.node),
        size=words.size(tensor.bytes),
        share=tensor.bytes / total if total else 0.0,
        line=where_text(tensor.source or tensor.cell),
    )


def memory_lines(record: MemoryRecord, limit: int | None = None) -> Iterator[str]:
    """One graph's memory as text."""
    view = memory_view(record, limit)
    of = "" if limit is None else f" of {words.size(limit)}{' ✗ over the limit' if view['over'] else ''}"
    when = f" when {view['assumed']}" if view["assumed"] else ""
    yield f"{view['title']}: peak {words.size(record.peak)}{of} at {view['peak_node']}{when}"
    for tensor in view["alive"][:_TENSORS]:
        where = " · ".join(filter(None, [tensor["role"], tensor["module_path"], tensor["line"]]))
        yield f"  {tensor['size']:>9} ({tensor['share']:.0%})  {tensor['name']}  {tensor['spec']}  {where}".rstrip()
    rest = record.alive[_TENSORS:]
    if rest:
        yield f"  {words.size(sum(tensor.bytes for tensor in rest)):>9}  in {words.count(len(rest), 'more tensor')}"


written_by(MemoryRecord, lambda record: "\n".join(memory_lines(record)))
