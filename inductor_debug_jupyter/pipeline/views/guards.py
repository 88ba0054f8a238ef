"""Guards as a table: the conditions of each compiled graph, the troublesome ones first.

A guard is troublesome when the value that it pins is likely to change: a number that is compiled in, the size of an
input, the identity of an object. A submodule's parameters and settings change rarely, so their guards come after those
of the arguments. Equal guards of several compiles, of several layers of one list, or of one value, are one row with a
count. Expressions are written as a user would (``self.layers.0.weight``), without addresses, which differ from run to
run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypedDict

import msgspec

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.harmless import one_line, plain
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphBreak, Guard, Recompile, SessionRecord
from inductor_debug_jupyter.pipeline.records.guards import TENSOR_CHECK, checked_value
from inductor_debug_jupyter.pipeline.views.places import at_line, code_text, where_text
from inductor_debug_jupyter.pipeline.views.recompile_advice import advice, readable_expression, varying
from inductor_debug_jupyter.pipeline.views.recompiles import (
    CompileBar,
    recompile_note,
    recompile_text,
    storms,
    symbol_line,
    symbol_rows,
    timeline,
)
from inductor_debug_jupyter.pipeline.views.text import NOTHING_CAPTURED
from inductor_debug_jupyter.pipeline.views.view_types import Row

TROUBLES: Final[dict[str, str]] = {
    "number": "A number is compiled in: another value compiles again. Where it varies, pass a 0-dim tensor instead.",
    "shape": "Sizes, dtype and strides are compiled in: another size compiles again. Where a dimension varies,"
    " torch._dynamo.mark_dynamic(tensor, dim) leaves it open.",
    "identity": "Only this very object will do: a new one compiles again, even an equal one. Keep using the same.",
    "value": "A flag, a string or None is compiled in: each value that occurs compiles once.",
    "structure": "The type, length or keys of something: it compiles again when they change.",
    "state": "Process-wide state such as grad mode, autocast or the default device.",
}
"""Kind of trouble, worst first → the hint for it."""

_RANK = {trouble: rank for rank, trouble in enumerate(TROUBLES)}
_VALUE_KINDS = {"EQUALS_MATCH", "CONSTANT_MATCH"}
_IDENTITY_KINDS = {"ID_MATCH", "CLOSURE_MATCH", "FUNCTION_MATCH", "NN_MODULE", "WEAKREF_ALIVE", "DICT_VERSION"}
_NUMBER = re.compile(r" == -?(?:\d|inf|nan)")
_HELD_ELSEWHERE = re.compile(r"\._(?:modules|parameters|buffers)\b|^G\['__import_|\['__builtins_dict")
_OBJECT = re.compile(r"^___check_(?P<what>obj|type)_id\((?P<of>.+), \d+\)(?:, type=(?P<type>.+))?$")
_LAYER = re.compile(r"(?<=[^\W\d]\.)\d+(?=\.|$)")
_UNMARKED = re.compile(r"^hasattr\(.+, '_dynamo_\w+_indices'\) == False$")
_GLOBAL_STATE = re.compile(r"^(___check_global_state\(\)) against .*$")
_WIDTH = 100


class GuardsView(TypedDict):
    """The Guards tab; ``hints`` has a sentence for each kind of trouble."""

    summary: str
    rows: list[Row]
    total: int
    breaks: list[Row]
    recompiles: list[Row]
    storms: list[Row]
    timeline: list[CompileBar]
    symbols: list[Row]
    graphs: dict[str, str]
    hints: dict[str, str]


def guards_view(record: SessionRecord) -> GuardsView:
    """The table and what stands above it."""
    return GuardsView(
        summary=_summary(record),
        rows=guard_rows(record.guards),
        total=len(record.guards),
        breaks=[_break_event(item) for item in record.graph_breaks],
        recompiles=[_recompile_event(item) for item in record.recompiles],
        storms=storms(record),
        timeline=timeline(record),
        symbols=symbol_rows(record),
        graphs={compile_id: _graph_title(capture) for compile_id, capture in _graphs(record).items()},
        hints=dict(TROUBLES),
    )


def guard_rows(guards: Iterable[Guard]) -> list[Row]:
    """One row for each distinct guard, the most troublesome first."""
    folded: dict[tuple[object, ...], list[Guard]] = {}
    for guard in guards:
        # EQUALS_MATCH and CONSTANT_MATCH of one value are the same check, made twice.
        kind = "EQUALS_MATCH" if guard.kind in _VALUE_KINDS and guard.checks else guard.kind
        folded.setdefault((kind, *_readable(guard, any_layer=True), guard.source), []).append(guard)
    ranked = sorted(folded.values(), key=lambda same: _rank(same[0]))
    return [_row(index, same) for index, same in enumerate(ranked)]


def _readable(guard: Guard, *, any_layer: bool) -> tuple[str, str]:
    """Expression and check; with ``any_layer``, ``self.layers.3.p == 0.1`` becomes ``self.layers.*.p == 0.1``."""
    expression = readable_expression(guard.expression)
    # not the check that no dimension of a tensor is marked as dynamic
    check = " and ".join(readable_check(check) for check in guard.checks if not _UNMARKED.match(check))
    if not any_layer or not _LAYER.search(expression):
        return expression, check
    pattern = _LAYER.sub("*", expression)
    return pattern, check.replace(expression, pattern)


def _with_name(expression: str, check: str) -> str:
    """The check, preceded by the guarded expression where the check does not contain it as a word."""
    named = re.search(rf"(?<!\w){re.escape(expression)}(?!\w)", check)
    return check if named else f"{expression} {check}".strip()


def trouble_of(guard: Guard) -> str:
    """The kind of trouble that a guard is likely to make: a key of :data:`TROUBLES`."""
    if guard.kind in _VALUE_KINDS:
        if any(_NUMBER.search(check) for check in guard.checks):
            return "number"
        return "identity" if any("___check_obj_id" in check for check in guard.checks) else "value"
    if guard.kind in ("TENSOR_MATCH", "SHAPE_ENV"):
        return "shape"
    if guard.kind in _IDENTITY_KINDS:
        return "identity"
    if not guard.expression:
        return "state"
    return "value" if guard.kind in ("BOOL_MATCH", "NONE_MATCH") else "structure"


def readable_check(check: str) -> str:
    """A check without addresses and dispatch keys: a tensor's dtype, sizes and strides, or which type it must be."""
    if match := TENSOR_CHECK.match(check):
        return checked_value(check) + ("" if match["device"] == "None" else f", device={match['device']}")
    if match := _OBJECT.match(check):
        type_name = re.sub(r"^<class '(.+)'>$", r"\1", match["type"] or "")
        if match["what"] == "type":
            return f"type is {type_name}" if type_name else "same type"
        return f"same object ({type_name})" if type_name else "same object"
    return readable_expression(_GLOBAL_STATE.sub(r"\1", check).strip())


def guards_data(record: SessionRecord) -> dict[str, Any]:
    """The guards tab as plain JSON values: records, each with the view's hints."""
    recompiles = [
        {**msgspec.to_builtins(item), "varies": varying(item), "kind": advice(item).kind, "hint": advice(item).text}
        if item.check
        else msgspec.to_builtins(item)
        for item in record.recompiles
    ]
    return {
        "total_graphs": len(record.captures),
        "graph_breaks": msgspec.to_builtins(record.graph_breaks),
        "recompiles": recompiles,
        "storms": storms(record),
        "timeline": [{key: value for key, value in bar.items() if key != "selection"} for bar in timeline(record)],
        "dynamic_shapes": [
            {key: value for key, value in row.items() if key != "selection"} for row in symbol_rows(record)
        ],
        "guards": [
            {**msgspec.to_builtins(guard), "value": guard.value, "trouble": trouble_of(guard)}
            for guard in record.guards
        ],
    }


def guards_text(record: SessionRecord, *, limit: int | None = 10) -> str:
    """Breaks, recompiles, then the guards of each graph, the troublesome ones first.

    Args:
        record: the session.
        limit: at most so many guards of each graph; the rest are counted. None for all.
    """
    lines = [_summary(record)]
    if not record.captures and not record.guards:
        lines.append(NOTHING_CAPTURED)
    lines += _events("Graph breaks", [_break_event(item) for item in record.graph_breaks])
    lines += _storm_lines(storms(record))
    lines += _events("Recompiles", [_recompile_event(item) for item in record.recompiles])
    if symbols := symbol_rows(record):
        lines += ["", f"Left open ({len(symbols):,})", *(f"  {symbol_line(row)}" for row in symbols[:limit])]
        if limit is not None and len(symbols) > limit:
            lines.append(f"  … and {len(symbols) - limit:,} more")
    graphs = _graphs(record)
    for compile_id, capture in graphs.items():
        of_graph = [guard for guard in record.guards if guard.compile_id == compile_id]
        lines += ["", f"{plain(compile_id)} {_graph_title(capture)}: {words.count(len(of_graph), 'guard')}"]
        lines += _row_lines(guard_rows(of_graph), limit)
    lines += ["", *(f"note: {plain(str(note))}" for note in record.notes)] if record.notes else []
    return "\n".join(lines)


def _storm_lines(found: Sequence[Row]) -> Iterator[str]:
    if found:
        yield ""
        yield f"Recompile storms ({len(found):,})"
    for storm in found:
        yield f"  {storm['text']}"
        yield f"    do: {storm['hint']}"


def _hint(guard: Guard) -> str:
    """The advice for one guard; empty where the hint for its kind of trouble has it all."""
    if _HELD_ELSEWHERE.search(guard.expression) or not guard.checks:
        return ""
    name, trouble = readable_expression(guard.expression), trouble_of(guard)
    if guard.kind == "TENSOR_MATCH":
        return (
            f"Another size, dtype or stride of {name} compiles again. Where dimension d varies,"
            f" torch._dynamo.mark_dynamic({name}, d) before the first call leaves it open."
        )
    if guard.kind == "SHAPE_ENV":
        return "A relation between sizes that this line made: sizes for which it does not hold compile once more."
    if trouble in ("number", "value"):
        # as if the check had failed, with no new value
        failed = Recompile("", (), check=guard.checks[0], expression=guard.expression, old=guard.value)
        return advice(failed).text
    return ""


def _graphs(record: SessionRecord) -> dict[str, CompileCapture | None]:
    """Compile ids in order; one that has guards but no ops has no capture."""
    captures = {capture.compile_id: capture for capture in record.captures}
    ids = {*captures, *(guard.compile_id for guard in record.guards)}
    parts = {each: [(int(part) if part.isdigit() else -1, part) for part in each.split("/")] for each in ids}
    return {compile_id: captures.get(compile_id) for compile_id in sorted(ids, key=parts.__getitem__)}


def _graph_title(capture: CompileCapture | None) -> str:
    if capture is None:
        return "(no ops)"
    graph = capture.graph("dynamo")
    ops = f" ({words.count(len(graph.calls), 'op')})" if graph else ""
    return f"{plain(capture.name) or 'graph'}{ops}"


def _summary(record: SessionRecord) -> str:
    return " · ".join(
        [
            plain(record.name) or "Session",
            words.count(len(record.captures), "graph"),
            words.count(len(record.graph_breaks), "break"),
            words.count(len(record.recompiles), "recompile"),
            words.count(len(record.guards), "guard"),
        ]
    )


def _rank(guard: Guard) -> tuple[int, int, bool]:
    """Sort key: arguments that are likely to change, then the same of what modules hold, then the rest.

    Guards that torch lists but does not check come last of their kind.
    """
    trouble = trouble_of(guard)
    tier = 2 if trouble in ("structure", "state") else int(bool(_HELD_ELSEWHERE.search(guard.expression)))
    return tier, _RANK[trouble], not guard.checks


def _row(index: int, same: Sequence[Guard]) -> Row:
    """One row for equal guards; ``graphs`` are the compile ids that have the guard.

    ``value`` is the value that the guard demands. ``hint`` is the advice for this guard; where it is empty, the view's
    hint for its kind of trouble holds.
    """
    first = same[0]
    line = first.source
    expression, check = _readable(first, any_layer=len({guard.expression for guard in same}) > 1)
    return Row(
        index=index,
        trouble=trouble_of(first),
        kind=plain(first.kind),
        expression=expression,
        check=check,
        condition=_with_name(expression, check),
        value=readable_check(f"_ == {value}").removeprefix("_ == ") if (value := first.value) else "",
        hint=_hint(first),
        graphs=list(dict.fromkeys(plain(guard.compile_id) for guard in same)),
        count=len(same),
        where=where_text(line),
        code=code_text(line),
        selection=at_line(line, first.compile_id, "dynamo"),
    )


def _break_event(item: GraphBreak) -> Row:
    note = plain(item.torch_id)
    return _event(item, one_line(item.reason), [], [plain(hint) for hint in item.hints], item.count, note)


def _recompile_event(item: Recompile) -> Row:
    hints = [advice(item).text] if item.check else []
    more = [one_line(reason) for reason in item.reasons[1:]]
    return _event(item, recompile_text(item), more, hints, 1, recompile_note(item))


def _event(item: GraphBreak | Recompile, message: str, more: list[str], hints: list[str], count: int, note: str) -> Row:
    """A graph break or a recompile; ``note`` is torch's id of a break, or call and cost of a recompile."""
    line = item.source
    return Row(
        compile_id=plain(item.compile_id),
        text=message,
        more=more,
        hints=hints,
        note=note,
        count=count,
        where=where_text(line),
        code=code_text(line),
        selection=at_line(line, item.compile_id, "dynamo") if line else None,
    )


def _events(title: str, events: Sequence[Row]) -> Iterator[str]:
    if not events:
        return
    yield ""
    yield f"{title} ({len(events):,})"
    for event in events:
        place = event["where"] + (f": {event['code']}" if event["code"] else "")
        times = f" ×{event['count']}" if event["count"] > 1 else ""
        note = f" · {event['note']}" if event["note"] else ""
        yield f"  {event['compile_id']} · {place or 'no line known'}{times}{note}"
        yield f"    {event['text']}"
        yield from (f"    also {reason}" for reason in event["more"])
        yield from (f"    do: {hint}" for hint in event["hints"])


def _row_lines(rows: Sequence[Row], limit: int | None) -> Iterator[str]:
    for row in rows[:limit]:
        times = f" ×{row['count']}" if row["count"] > 1 else ""
        where = f"  [{row['where']}]" if row["where"] else ""
        yield f"  {row['trouble']:<9} {row['kind']:<14} {words.clip(row['condition'], _WIDTH)}{times}{where}"
    if limit is not None and len(rows) > limit:
        yield f"  … and {len(rows) - limit:,} more"
