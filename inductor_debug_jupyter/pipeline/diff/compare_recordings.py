"""Compare what was recorded: two files, with no model at hand."""

from __future__ import annotations

from pathlib import Path

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.harness import overall_verdict
from inductor_debug_jupyter.pipeline.diff.outputs import compare_flat, unless_too_small
from inductor_debug_jupyter.pipeline.diff.recording import Recording
from inductor_debug_jupyter.pipeline.diff.report import DiffReport
from inductor_debug_jupyter.pipeline.records import DiffRecord
from inductor_debug_jupyter.pipeline.views.diff import worst_first


def compare_recordings(
    reference: Recording | str | Path, candidate: Recording | str | Path, config: ComparisonConfig | None = None
) -> DiffReport:
    """Compare two recordings, path by path. There is no model to be run again: the tolerances decide.

    Where the usual absolute tolerance is too large for the values, the output counts as not compared.

    Raises:
        NotFoundError: there is no such file.
        UsageError: it is not a recording.
    """
    config = config or ComparisonConfig()
    one, other = (each if isinstance(each, Recording) else Recording.load(each) for each in (reference, candidate))
    compared = compare_flat(one.values, other.values, config)
    outputs = worst_first(tuple(unless_too_small(each, one.values.get(each.path), config) for each in compared))
    models = {str(each.manifest.get("model", "")) for each in (one, other)} - {""}
    notes = [] if len(models) < 2 else [f"the recordings are of different models: {', '.join(sorted(models))}"]
    record = DiffRecord(
        model=", ".join(sorted(models)) or "recordings",
        reference=one.name,
        candidate=other.name,
        verdict=overall_verdict(outputs),
        outputs=outputs,
        notes=tuple(notes),
    )
    return DiffReport(record)
