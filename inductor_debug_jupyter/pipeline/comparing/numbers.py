"""Whether the numbers of the second run are worse, by the verdicts of its comparison with a reference."""

from __future__ import annotations

from collections.abc import Iterator

from inductor_debug_jupyter.pipeline.comparing.changes import Change
from inductor_debug_jupyter.pipeline.records import DiffRecord, LocalizationRecord, OutputDiff
from inductor_debug_jupyter.pipeline.records.diff import VERDICTS

GREW = 2.0
"""An error that was beyond tolerance before counts as another one when it differs by this factor."""


def number_changes(before: DiffRecord | None, after: DiffRecord | None) -> Iterator[Change]:
    """Outputs whose error grew or shrank; errors that rounding explains are all the same."""
    if before is None or after is None:
        return
    pairs = _pairs(before, after)
    grew = [pair for pair in pairs if _is_worse(*pair)]
    shrank = [(was, now) for was, now in pairs if _is_worse(now, was)]
    for kind, found in (("error-grew", grew), ("error-shrank", shrank)):
        if found:
            was, now = found[0]
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            change = f"{now.path} {_error_text(was)} → {_error_text(now)}{more}"
            yield Change(kind, f"{after.candidate} against {after.reference}: {change}")


def _pairs(before: DiffRecord, after: DiffRecord) -> list[tuple[OutputDiff, OutputDiff]]:
    """The outputs that both runs compared."""
    ours = {output.path: output for output in before.outputs if output.verdict != "not_compared"}
    theirs = [output for output in after.outputs if output.verdict != "not_compared"]
    return [(ours[output.path], output) for output in theirs if output.path in ours]


def _is_worse(was: OutputDiff, now: OutputDiff) -> bool:
    if was.passed or now.passed:
        return was.passed and not now.passed
    if was.max_absolute_error is None or now.max_absolute_error is None:
        return now.max_absolute_error is None and was.max_absolute_error is not None
    return now.max_absolute_error > GREW * was.max_absolute_error


def _error_text(output: OutputDiff) -> str:
    error = output.max_absolute_error
    return f"{output.verdict}" + ("" if error is None else f" ({error:.2g})")


def culprit_changes(before: LocalizationRecord | None, after: LocalizationRecord | None) -> Iterator[Change]:
    """Ops that bring an error in, and did not before."""
    known = {(each.op, each.module_path) for each in before.culprits} if before else set()
    for each in after.culprits if after else ():
        if before is None or (each.op, each.module_path) not in known:
            yield Change("new-culprit", f"{each.op} in {each.module_path or each.graph}", each.source)


def why_no_numbers(before: DiffRecord | None, after: DiffRecord | None) -> Iterator[str]:
    """Why the numbers of two runs could not be compared, or not all of them."""
    for name, record in (("before", before), ("after", after)):
        if record is None:
            yield f"numbers: nothing was compared {name}"
        elif record.verdict not in VERDICTS or record.verdict == "not_compared":
            yield f"numbers: not everything was compared {name}"
    if before is not None and after is not None:
        paths = {output.path for output in before.outputs} ^ {output.path for output in after.outputs}
        if paths:
            yield f"numbers: only one run has {', '.join(sorted(paths)[:3])}"
