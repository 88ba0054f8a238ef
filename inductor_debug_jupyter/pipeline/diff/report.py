"""What a comparison leaves behind: its report, its overall verdict, and several reports as one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from inductor_debug_jupyter.pipeline.diff.pictures import draw
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.records import DiffRecord, OutputDiff, Verdict
from inductor_debug_jupyter.pipeline.records.diff import worst_outputs_first
from inductor_debug_jupyter.pipeline.records.in_words import InWords
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store import SETTINGS, ArtifactStore, Shelf
from inductor_debug_jupyter.pipeline.store.files import explained, make_folder
from inductor_debug_jupyter.pipeline.views.diff import diff_text


@dataclass(frozen=True, slots=True)
class DiffReport(InWords):
    """A comparison, as a user holds it; ``record`` is all that was found.

    ``pairs`` are the worst outputs' tensors, while the process lives, so that any part of them can be looked at.
    """

    record: DiffRecord
    pairs: LivePairs = field(default_factory=LivePairs, compare=False, repr=False)

    @property
    def passed(self) -> bool:
        """Whether every output is as it should be, and something was compared."""
        return self.record.passed

    @property
    def verdict(self) -> Verdict:
        """``match``, ``rounding``, ``mismatch`` or ``not_compared``."""
        return self.record.verdict

    @property
    def outputs(self) -> tuple[OutputDiff, ...]:
        """Every output, worst first."""
        return self.record.outputs

    def summary(self, limit: int | None = 20) -> str:
        """All of it as text, worst output first."""
        return diff_text(self.record, limit=limit, timings=True)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, ready for JSON."""
        return {"passed": self.passed, **msgspec.to_builtins(self.record)}

    def save_json(self, path: str | Path | Shelf | None = None) -> Path:
        """Write it as JSON: to ``path``, or as a report in the artifact folder or on a session's shelf.

        Raises:
            StoreError: it cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
        if path is None:
            path = Shelf(ArtifactStore.of(resolve(names=SETTINGS)), new_id())
        if isinstance(path, Shelf):
            return path.put("reports", f"kernel_diff_{self.record.model}.json", text)
        target = Path(path)
        make_folder(target.parent)
        with explained("write", target):
            target.write_bytes(text.encode("utf-8", "backslashreplace"))
        return target.absolute()

    def with_files(self, output_dir: str | Path | Shelf | None, *, pictures: bool) -> DiffReport:
        """Write JSON, and pictures if wanted; the same report, with where they are or why they are not.

        Args:
            output_dir: where to; by default, or on a session's shelf, ``reports`` and ``visualizations`` there.
            pictures: draw heatmaps and a summary.
        """
        report = self
        if pictures:
            paths, notes = draw(self.record, output_dir)
            record = replace(self.record, images=paths, notes=(*self.record.notes, *notes))
            report = replace(self, record=record)
        try:
            name = f"kernel_diff_{new_id()}.json"
            report.save_json(Path(output_dir) / name if isinstance(output_dir, str | Path) else output_dir)
        except InductorDebugError as error:
            record = replace(report.record, notes=(*report.record.notes, f"no JSON was written: {error}"))
            report = replace(report, record=record)
        return report

    def __str__(self) -> str:
        return diff_text(self.record)


def new_id() -> str:
    """An id for what belongs to no session."""
    return f"diff-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"


def is_empty(output: OutputDiff) -> bool:
    """Whether both sides have the same shape and no elements: there is nothing that could be wrong."""
    return output.verdict == "not_compared" and 0 in output.shape and output.shape == output.candidate_shape


def overall_verdict(outputs: Iterable[OutputDiff], *, complete: bool = True) -> Verdict:
    """The verdict of a whole comparison: that of the worst output.

    Outputs without elements do not count. No output at all, one that was not compared, or a side that did not really
    run as it should (``complete=False``) is ``not_compared``.
    """
    verdicts = {output.verdict for output in outputs if not is_empty(output)}
    if "mismatch" in verdicts:
        return "mismatch"
    if not verdicts or "not_compared" in verdicts or not complete:
        return "not_compared"
    return "rounding" if "rounding" in verdicts else "match"


def merged(reports: Sequence[DiffReport]) -> DiffReport:
    """One report over several models that a cell calls, worst output first; each path starts with its model's name."""
    if len(reports) == 1:
        return reports[0]
    records = [report.record for report in reports]
    names = [f"{record.model} {number}" for number, record in enumerate(records, 1)]
    outputs = worst_outputs_first(
        replace(output, path=f"{name}: {output.path}")
        for name, record in zip(names, records, strict=True)
        for output in record.outputs
    )
    compared = all(record.verdict != "not_compared" for record in records)
    return DiffReport(
        replace(
            records[0],
            model=", ".join(names),
            verdict=overall_verdict(outputs, complete=compared),
            outputs=outputs,
            notes=tuple(f"{record.model}: {note}" for record in records for note in record.notes),
            images=tuple(image for record in records for image in record.images),
            reference_seconds=sum(record.reference_seconds for record in records),
            candidate_seconds=sum(record.candidate_seconds for record in records),
            crashes=tuple(crash for record in records for crash in record.crashes),
        ),
        LivePairs(
            {
                f"{name}: {path}": pair
                for name, report in zip(names, reports, strict=True)
                for path, pair in report.pairs.pairs.items()
            }
        ),
    )
