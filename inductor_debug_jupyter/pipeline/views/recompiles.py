"""Recompiles as a timeline of compiles with cost and reason, recompile storms, and the sizes that torch left open.

A storm is one function that compiled again and again because of one value. It is shown as one entry: the value that
varies, every value that it took, and one fix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypedDict

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.harmless import one_line, plain
from inductor_debug_jupyter.pipeline.records import CompileCapture, Guard, Recompile, SessionRecord, SymbolRecord
from inductor_debug_jupyter.pipeline.views.places import at_line, code_text, where_text
from inductor_debug_jupyter.pipeline.views.recompile_advice import advice, as_written, readable_expression, varying
from inductor_debug_jupyter.pipeline.views.view_types import Row, Selection

STORM: Final = 3
"""The number of recompiles because of one value that make a storm."""

_VALUES = 8


class CompileBar(TypedDict):
    """One compile: ``kind`` is first, recompile, resumed (after a graph break) or refused (torch compiled nothing)."""

    compile_id: str
    name: str
    kind: str
    call: int
    seconds: float
    why: str
    selection: Selection


def recompile_text(item: Recompile) -> str:
    """``n was 2, now 3``; torch's own reason where the values are not known."""
    reason = one_line(item.reasons[0] if item.reasons else "no reason recorded")
    if not item.check or not (item.old or item.new):
        return reason
    if item.aspect == "relation":
        are = "are" if " and " in varying(item) else "is"
        return f"{varying(item)} {are} now {plain(item.new)}, but {as_written(item.old)} must hold"
    return f"{varying(item)} was {plain(item.old) or 'something else'}, now {plain(item.new)}"


def recompile_note(item: Recompile) -> str:
    """``call 2, 0.05 s``."""
    parts = [f"call {item.call}"] if item.call else []
    if item.seconds:
        parts.append(words.duration(item.seconds))
    if not item.made:
        parts.append("torch made no new graph: its limit is reached, or the compile failed")
    return ", ".join(parts)


def storms(record: SessionRecord) -> list[Row]:
    """Every storm, the longest first."""
    groups: dict[tuple[str, str], list[Recompile]] = {}
    for item in record.recompiles:
        if item.check:
            groups.setdefault((item.compile_id.partition("/")[0], varying(item)), []).append(item)
    found = [_storm(record, varies, same) for (_, varies), same in groups.items() if len(same) >= STORM]
    return sorted(found, key=lambda storm: -storm["count"])


def _storm(record: SessionRecord, varies: str, same: Sequence[Recompile]) -> Row:
    """A value that made one function compile again and again."""
    ids = {item.compile_id.partition("/")[0] for item in same}
    name = next((each.name for each in record.captures if each.compile_id.partition("/")[0] in ids), "a function")
    values = list(dict.fromkeys(plain(value) for item in same for value in (item.old, item.new) if value))
    seconds = sum(item.seconds for item in same)
    shown = ", ".join(values[:_VALUES]) + (", …" if len(values) > _VALUES else "")
    refused = "; then torch stopped compiling it, and it runs uncompiled" if not same[-1].made else ""
    return Row(
        name=plain(name),
        varies=varies,
        values=values,
        count=len(same),
        seconds=seconds,
        text=f"{plain(name)} compiled again {len(same)} times because {varies} varies: {shown}"
        f" ({words.duration(seconds)}){refused}",
        hint=advice(same[-1]).text,
    )


def timeline(record: SessionRecord) -> list[CompileBar]:
    """Every compile, in the order in which they happened."""
    reasons = {item.compile_id: item for item in record.recompiles}
    bars = [_bar(capture, reasons.get(capture.compile_id)) for capture in record.captures]
    known = {capture.compile_id for capture in record.captures}
    bars += [_bar_without_graph(item) for item in record.recompiles if item.compile_id not in known]
    return bars


def _bar(capture: CompileCapture, reason: Recompile | None) -> CompileBar:
    kind, why = "first", "first call"
    if reason is not None:
        kind, why = "recompile", recompile_text(reason)
    elif "(resumed" in capture.name:
        kind, why = "resumed", "goes on after a graph break"
    line = reason.source if reason is not None and reason.source else capture.source
    return CompileBar(
        compile_id=plain(capture.compile_id),
        name=plain(capture.name),
        kind=kind,
        call=capture.call,
        seconds=round(capture.cost, 4),
        why=why,
        selection=at_line(line, capture.compile_id, "dynamo"),
    )


def _bar_without_graph(item: Recompile) -> CompileBar:
    line = item.source
    return CompileBar(
        compile_id=plain(item.compile_id),
        name=plain(line.function) if line else "",
        kind="recompile" if item.made else "refused",
        call=item.call,
        seconds=round(item.seconds, 4),
        why=recompile_text(item),
        selection=at_line(line),
    )


def symbol_rows(record: SessionRecord) -> list[Row]:
    """Every size or number that torch left open: its expression, its range, and the guards that constrain it.

    The same of several compiles is one row; ``compile_id`` is the first, ``count`` how many.
    """
    relations: dict[str, list[Guard]] = {}
    for guard in record.guards:
        if guard.kind == "SHAPE_ENV":
            relations.setdefault(guard.compile_id, []).append(guard)
    folded: dict[tuple[object, ...], Row] = {}
    for symbol in record.symbols:
        row = _symbol_row(symbol, relations.get(symbol.compile_id, ()))
        key = (row["symbol"], row["stands_for"], row["range"], row["value"], row["fixed"], *row["constraints"])
        folded.setdefault(key, row)["count"] += 1
    return list(folded.values())


def _symbol_row(symbol: SymbolRecord, relations: Sequence[Guard]) -> Row:
    mine = [
        (readable_expression(check), guard.source)
        for guard in relations
        for check in guard.checks
        if any(expression in check for expression in symbol.expressions)
    ]
    constraints = [f"{check} ({where_text(source)})" if source else check for check, source in mine]
    line = symbol.source or next((source for _, source in mine if source), None)
    return Row(
        compile_id=plain(symbol.compile_id),
        count=0,
        symbol=plain(symbol.symbol),
        stands_for=", ".join(readable_expression(each) for each in symbol.expressions) or "what the data tells",
        range=symbol.range,
        value="" if symbol.value is None else str(symbol.value),
        fixed=plain(symbol.fixed),
        constraints=list(dict.fromkeys(constraints)),
        where=where_text(line),
        code=code_text(line),
        selection=at_line(line, symbol.compile_id, "dynamo"),
    )


def symbol_line(row: Row) -> str:
    """``0/1 s77 = x.size()[0], 4 in the example, [2, ∞]; …``."""
    example = f", {row['value']} in the example" if row["value"] else ""
    fixed = f", fixed to {row['fixed']}" if row["fixed"] else ""
    why = f"; {'; '.join(row['constraints'])}" if row["constraints"] else ""
    place = f"  [{row['where']}]" if row["where"] and not row["constraints"] else ""
    times = f" ×{row['count']}" if row["count"] > 1 else ""
    return (
        f"{row['compile_id']}{times} {row['symbol']} = {row['stands_for']}{example}, {row['range']}{fixed}{why}{place}"
    )
