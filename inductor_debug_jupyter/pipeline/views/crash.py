"""How comparisons and searches end: crashes, notes and pictures."""

from __future__ import annotations

from collections.abc import Iterable

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import CrashRecord, DiffRecord, LocalizationRecord
from inductor_debug_jupyter.pipeline.views.view_types import Row


def closing_lines(record: DiffRecord | LocalizationRecord) -> list[str]:
    """The end of a comparison's or a search's text: crashes, notes and pictures."""
    crashes = [line for crash in record.crashes for line in str(crash).splitlines()]
    sections = ((f"Crashed ({len(record.crashes):,})", crashes), ("Notes", record.notes), ("Pictures", record.images))
    lines: list[str] = []
    for title, texts in sections:
        if texts:
            lines += ["", title, *(f"  {plain(text)}" for text in texts)]
    return lines


def crash_views(crashes: Iterable[CrashRecord]) -> list[Row]:
    """For a panel: each crash as a sentence, with the lines to unfold."""
    return [Row(text=crash.sentence, stderr=crash.stderr_lines) for crash in crashes]
