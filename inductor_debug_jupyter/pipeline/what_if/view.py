"""A what-if as the panel shows it."""

from __future__ import annotations

from typing import TypedDict

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.what_if.table import FigureRow, FindingRow, figure_rows, finding_rows
from inductor_debug_jupyter.pipeline.what_if.trial import WhatIfTrial
from inductor_debug_jupyter.pipeline.words import duration


class TrialView(TypedDict):
    """One what-if. ``saved`` is the id of the saved session; ``counts`` counts all findings, also those not listed."""

    title: str
    summary: str
    what: list[str]
    figures: list[FigureRow]
    findings: list[FindingRow]
    counts: dict[str, int]
    notes: list[str]
    saved: str
    took: str


def trial_view(trial: WhatIfTrial) -> TrialView:
    """The rows of both tables, and the texts above and below them."""
    changes = trial.changes
    return TrialView(
        title=plain(trial.title),
        summary=str(changes),
        what=list(changes.what),
        figures=figure_rows(changes),
        findings=finding_rows(changes),
        counts={kind: len(getattr(changes, kind)) for kind in ("new", "gone", "reworded", "same")},
        notes=[plain(note) for note in trial.notes],
        saved=trial.after.id if trial.saved is not None else "",
        took=("ran again in " if trial.asked.reruns else "judged again in ") + duration(trial.seconds),
    )
