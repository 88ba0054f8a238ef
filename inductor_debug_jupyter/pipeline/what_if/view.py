"""A trial as the panel shows it."""

from __future__ import annotations

from typing import TypedDict

from inductor_debug_jupyter.pipeline.views.words import duration, plain
from inductor_debug_jupyter.pipeline.what_if.table import FigureRow, FindingRow, figure_rows, finding_rows
from inductor_debug_jupyter.pipeline.what_if.trial import Trial


class TrialView(TypedDict):
    """One trial. ``saved`` is the id that it was saved under; ``counts`` has every finding, also those not listed."""

    title: str
    summary: str
    what: list[str]
    figures: list[FigureRow]
    findings: list[FindingRow]
    counts: dict[str, int]
    notes: list[str]
    saved: str
    took: str


def trial_view(trial: Trial) -> TrialView:
    """The rows of both tables, and what stands above and below them."""
    changes = trial.changes
    return TrialView(
        title=plain(trial.title),
        summary=str(changes),
        what=list(changes.what),
        figures=figure_rows(changes),
        findings=finding_rows(changes),
        counts={
            "new": len(changes.new),
            "gone": len(changes.gone),
            "reworded": len(changes.reworded),
            "same": len(changes.same),
        },
        notes=[plain(note) for note in trial.notes],
        saved=trial.after.id if trial.saved is not None else "",
        took=("ran again in " if trial.asked.reruns else "judged again in ") + duration(trial.seconds),
    )
