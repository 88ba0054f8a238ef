"""A comparison of two runs as text: what changed, what follows from it, and the figures that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.comparing.changes import Change, GraphComparison, RunComparison
from inductor_debug_jupyter.pipeline.harmless import one_line
from inductor_debug_jupyter.pipeline.records.in_words import written_by

SIGNS = {"worse": "✗", "better": "✓", "other": "≠"}
_WIDTH = 200
_CONSEQUENCES = 6


def headline(comparison: RunComparison) -> str:
    """``4 changes: 4 worse``; what is not known does not count as the same."""
    changes = comparison.changes
    if not changes:
        known = " in what could be compared" if comparison.unknown else ""
        return f"nothing changed{known}"
    directions = [change.direction for change in changes]
    counts = [f"{directions.count(each)} {each}" for each in SIGNS if each in directions]
    judged = "" if {*directions} == {"other"} else f": {', '.join(counts)}"
    return f"{words.count(len(changes), 'change')}{judged}"


def comparison_text(comparison: RunComparison) -> str:
    """The whole answer; deterministic but for seconds."""
    (was, name), (now, other) = comparison.before, comparison.after
    lines = [f"{_line(name)} ({_line(was)}) → {_line(other)} ({_line(now)})", headline(comparison)]
    for change in comparison.changes:
        lines += ["", *change_lines(change)]
    lines += _section("Figures", list(_figures(comparison)))
    lines += _section("Circumstances", [f"{a}: {b} → {c}" for a, b, c in comparison.environment])
    lines += _section("Not compared", comparison.unknown)
    return "\n".join(lines)


def change_lines(change: Change) -> Iterator[str]:
    """One change with its line, and what follows from it."""
    yield f"{SIGNS[change.direction]} {change.kind}: {_line(change.title)}"
    if change.source:
        code = f": {_line(change.source.text)}" if change.source.text.strip() else ""
        yield f"    {_line(str(change.source))}{code}"
    for each in change.consequences[:_CONSEQUENCES]:
        yield f"  so {each.kind}: {_line(each.title)}"
    if (more := len(change.consequences) - _CONSEQUENCES) > 0:
        yield f"  … and {words.count(more, 'more consequence')}"


def _figures(comparison: RunComparison) -> Iterator[str]:
    """The figures that differ, and those that never repeat, which are always shown."""
    for each in comparison.quantities:
        if each.changed or (not each.repeats and each.before is not None):
            yield f"{each.name}: {each.text(each.before)} → {each.text(each.after)}"


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {_line(line)}" for line in lines)] if lines else []


def _line(text: str) -> str:
    return words.clip(one_line(text), _WIDTH)


def graph_text(comparison: GraphComparison) -> str:
    """One stage, node by node; what is the same is counted."""
    statuses = [node.status for node in comparison.nodes]
    counts = [f"{comparison.same:,} same", *(f"{statuses.count(each):,} {each}" for each in dict.fromkeys(statuses))]
    lines = [f"{_line(comparison.function)} {_line(comparison.stage)}: {', '.join(counts)}"]
    for node in comparison.nodes:
        where = f" ({_line(str(node.source))})" if node.source else ""
        what = f": {_line(node.what)}" if node.what else ""
        lines.append(f"  {node.status:7} {_line(node.before or node.after)} {_line(node.op)}{what}{where}")
    return "\n".join(lines)


written_by(GraphComparison, graph_text)
written_by(RunComparison, comparison_text)
