"""Several comparisons as one: a cell may call more than one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inductor_debug_jupyter.pipeline.diff.harness import overall_verdict
from inductor_debug_jupyter.pipeline.diff.report import DiffReport
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.views.diff import worst_first


def merged(reports: Sequence[DiffReport]) -> DiffReport:
    """One report over all of them, worst output first; each path then starts with its model's name."""
    if len(reports) == 1:
        return reports[0]
    records = [report.record for report in reports]
    names = [f"{record.model} {number}" for number, record in enumerate(records, 1)]
    outputs = worst_first(
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
                path: pair
                for name, report in zip(names, reports, strict=True)
                for path, pair in report.pairs.renamed(f"{name}: ").pairs.items()
            }
        ),
    )
