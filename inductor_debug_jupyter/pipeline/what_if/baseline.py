"""The part of a session that a run with changed inputs can be compared with.

Only the first call of each model is kept, so only the graphs of that call count: a session may also have graphs of
later calls with other sizes, and of models that are gone or whose inputs were too large to keep. A run with changed
inputs has fixed sizes: if the session's are symbolic, the unchanged call has to run again, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from inductor_debug_jupyter.pipeline.devices import JudgingContext
from inductor_debug_jupyter.pipeline.devices.checker import checked_graphs
from inductor_debug_jupyter.pipeline.devices.judge import judge_again
from inductor_debug_jupyter.pipeline.fixits.fixit import finding_key
from inductor_debug_jupyter.pipeline.options import ON_DEMAND
from inductor_debug_jupyter.pipeline.records import CompileCapture, SessionRecord
from inductor_debug_jupyter.pipeline.words import RANK, count

_INDUCTOR = {"post_grad", "ir_pre_fusion", "ir_post_fusion", "code", "kernel"}
_FAILED = "lowering failed"


def first_calls(
    record: SessionRecord,
    context: JudgingContext,
    was_kept: Callable[[CompileCapture], bool] = lambda capture: True,
) -> tuple[SessionRecord, tuple[str, ...]]:
    """The record with the graphs of kept calls only, and notes on what was left out.

    ``was_kept`` decides whether a call of a capture's model was kept.
    """
    there = [capture for capture in record.captures if was_kept(capture)]
    kept = tuple(capture for capture in there if capture.call <= 1)
    if len(kept) == len(record.captures) or not kept:
        return record, ()
    ids = {capture.compile_id for capture in kept}
    memory = tuple(each for each in record.memory if each.compile_id in ids)
    narrowed = replace(
        record,
        captures=kept,
        graph_breaks=tuple(each for each in record.graph_breaks if each.compile_id in ids),
        recompiles=(),
        memory=memory,
        peak_memory=max((each.peak for each in memory), default=None),
    )
    notes = []
    if later := len(there) - len(kept):
        left_out = f"{count(later, 'graph')} of later calls left out on both sides"
        notes.append(f"only the first call of each model is kept: {left_out}")
    if gone := len(record.captures) - len(there):
        left_out = f"{count(gone, 'graph')} left out on both sides"
        notes.append(f"of some models no call was kept (they are gone, or their inputs too large): {left_out}")
    return judge_again(narrowed, context), tuple(notes)


def with_left_out(record: SessionRecord, original: SessionRecord, tried: SessionRecord) -> SessionRecord:
    """The record with the original's graphs that were not tried, as they are, and what was found in them."""
    ids = {capture.compile_id for capture in original.captures} - {capture.compile_id for capture in tried.captures}
    if not ids:
        return record
    findings = {finding_key(each): each for each in record.findings}
    for each in original.findings:
        if places := tuple(place for place in each.places if place.compile_id in ids):
            there = findings.get(finding_key(each), replace(each, places=()))
            findings[finding_key(each)] = replace(there, places=(*there.places, *places))
    return replace(
        record,
        captures=(*record.captures, *(each for each in original.captures if each.compile_id in ids)),
        memory=(*record.memory, *(each for each in original.memory if each.compile_id in ids)),
        findings=tuple(sorted(findings.values(), key=lambda each: RANK[each.severity])),
    )


def is_symbolic(captures: Sequence[CompileCapture]) -> bool:
    """Whether a judged graph has sizes that are not numbers."""
    return any(
        isinstance(size, str)
        for capture in captures
        for graph in checked_graphs(capture)
        for node in graph.nodes
        for spec in node.outputs
        for size in spec.shape
    )


def lowering_of(captures: Sequence[CompileCapture], chosen: str) -> str:
    """How far the captures were lowered; if lowering failed, how far it should have gone: ``chosen``."""
    if any(reason.startswith(_FAILED) for capture in captures for reason in capture.missing.values()):
        return chosen
    if any(capture.rest is not None for capture in captures):
        return ON_DEMAND
    stages = {stage for capture in captures for stage in capture.stages}
    if stages & _INDUCTOR:
        return "inductor"
    return "aot" if stages & {"forward", "backward"} else "dynamo"


def has_backward(captures: Sequence[CompileCapture]) -> bool:
    """Whether a capture has a backward graph."""
    return any(capture.graph("backward") is not None for capture in captures)
