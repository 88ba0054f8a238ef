"""A what-if as text, as JSON and as rows of the panel: the same figures in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import SessionRecord, Violation
from inductor_debug_jupyter.pipeline.what_if.differences import Changes
from inductor_debug_jupyter.pipeline.words import ICONS, clip

_FINDING_SIGNS = {"gone": "−", "new": "+", "reworded": "≠", "same": "="}
_WIDEST = 44
_SHOWN = 50


class FigureRow(TypedDict):
    """One line of the table."""

    part: str
    name: str
    before: str
    after: str
    change: str
    kind: str
    sign: str


class FindingRow(TypedDict):
    """A finding that is gone, new, reworded or the same."""

    kind: str
    sign: str
    severity: str
    icon: str
    rule_id: str
    title: str
    before: str
    count: int


def figure_rows(changes: Changes) -> list[FigureRow]:
    """Every figure, in order."""
    return [
        FigureRow(
            part=each.part,
            name=each.name,
            before=plain(each.before),
            after=plain(each.after),
            change=plain(each.change),
            kind=each.kind,
            sign=each.sign,
        )
        for each in changes.figures
    ]


def finding_rows(changes: Changes, limit: int = _SHOWN) -> list[FindingRow]:
    """The findings that are new, gone, reworded and the same, in this order; at most ``limit`` of each."""
    rows = [_row("new", finding) for finding in changes.new[:limit]]
    rows += [_row("gone", finding) for finding in changes.gone[:limit]]
    rows += [_row("reworded", after, before.title) for before, after in changes.reworded[:limit]]
    return rows + [_row("same", finding) for finding in changes.same[:limit]]


def _row(kind: str, finding: Violation, before: str = "") -> FindingRow:
    return FindingRow(
        kind=kind,
        sign=_FINDING_SIGNS[kind],
        severity=finding.severity,
        icon=ICONS[finding.severity],
        rule_id=plain(finding.rule_id),
        title=plain(finding.title),
        before=plain(before),
        count=len(finding.places),
    )


def trial_text(title: str, changes: Changes, notes: Sequence[str]) -> str:
    """The table, and the findings that are not the same before and after."""
    return "\n".join(
        [f"What if: {plain(title)}", f"  {changes}", "", *_table(changes), *_findings(changes), *_notes(notes)]
    )


def _table(changes: Changes) -> Iterator[str]:
    rows = figure_rows(changes)
    columns = [
        ["", *(row["name"] for row in rows)],
        ["before", *(row["before"] for row in rows)],
        ["after", *(clip(row["after"], _WIDEST) for row in rows)],
        ["", *(f"{row['sign']} {row['change']}".strip() for row in rows)],
    ]
    widths = [max(map(len, column)) for column in columns]
    for cells in zip(*columns, strict=True):
        yield ("  " + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))).rstrip()


def _findings(changes: Changes) -> Iterator[str]:
    groups = {
        "New": [_line(finding) for finding in changes.new],
        "Gone": [_line(finding) for finding in changes.gone],
        "In other words": [f"{_line(after)}; before: {plain(before.title)}" for before, after in changes.reworded],
    }
    for title, lines in groups.items():
        if lines:
            yield ""
            yield f"{title} ({len(lines):,})"
            yield from (f"  {line}" for line in lines[:_SHOWN])
            if len(lines) > _SHOWN:
                yield f"  … and {len(lines) - _SHOWN:,} more"


def _line(finding: Violation) -> str:
    return f"{ICONS[finding.severity]} {plain(str(finding))}"


def _notes(notes: Sequence[str]) -> Iterator[str]:
    if notes:
        yield ""
        yield from (f"Note: {plain(note)}" for note in notes)


def trial_dict(
    title: str, before: SessionRecord, after: SessionRecord, changes: Changes, notes: Sequence[str]
) -> dict[str, Any]:
    """Figures and findings for JSON; sizes in bytes."""

    def listed(findings: Sequence[Violation]) -> list[dict[str, Any]]:
        return [
            {"rule_id": each.rule_id, "severity": each.severity, "title": each.title, "places": len(each.places)}
            for each in findings
        ]

    return {
        "what_if": title,
        "changes": list(changes.what),
        "sessions": {"before": before.id, "after": after.id},
        "figures": [dict(row) for row in figure_rows(changes)],
        "peak_memory": {"before": before.peak_memory, "after": after.peak_memory},
        "findings": {
            **{kind: listed(getattr(changes, kind)) for kind in ("gone", "new", "same")},
            "reworded": listed([after for _, after in changes.reworded]),
        },
        "numbers": {
            "verdict": changes.numbers.verdict,
            "why": changes.numbers.why,
            "outputs": [
                {
                    "path": each.path,
                    "verdict": each.verdict,
                    "max_absolute_error": each.max_absolute_error,
                    "why": each.reason,
                }
                for each in changes.numbers.outputs
            ],
        },
        "notes": list(notes),
    }
