"""The tables of the suite: marks by fault and backend, by regime, by model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inductor_debug_jupyter.benchmarks.truth.scoring import Score

COLUMNS = ("Cases", "Verdict", "Localize agrees", "Op", "Line", "Innocents", "CPU s")


def rows_by(scores: Sequence[Score], key: Callable[[Score], tuple[str, ...]]) -> list[tuple[str, ...]]:
    """One row for each value of ``key``, in order, and one of all when there are several."""
    groups: dict[tuple[str, ...], list[Score]] = {}
    for score in scores:
        groups.setdefault(key(score), []).append(score)
    rows = [(*name, *_cells(group)) for name, group in sorted(groups.items())]
    if len(rows) > 1:
        width = len(next(iter(groups)))
        rows.append(("all", *[""] * (width - 1), *_cells(scores)))
    return rows


def _cells(group: Sequence[Score]) -> tuple[str, ...]:
    blaming = [score for score in group if score.op is not None]
    return (
        str(len(group)),
        _share(sum(score.verdict for score in group), len(group)),
        _share(sum(score.localized for score in group), len(group)),
        _share(sum(bool(score.op) for score in blaming), len(blaming)),
        _share(sum(bool(score.line) for score in blaming), len(blaming)),
        str(sum(score.innocents for score in group)),
        f"{sum(score.outcome.seconds for score in group):.0f}",
    )


def _share(right: int, of: int) -> str:
    if not of:
        return "–"
    return f"{right}" if right == of else f"{right} of {of}"
