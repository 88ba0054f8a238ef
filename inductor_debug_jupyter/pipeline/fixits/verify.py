"""Try fix-its on the models: run, capture and judge them again, and compare their numbers with the originals'.

One run is enough: the comparison harness runs a model eagerly and through the rewriting backend, with equal weights,
inputs and random numbers, while a session captures what is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.diff import DEFAULT_TOLERANCES, ComparisonConfig, KernelDiffHarness, merged
from inductor_debug_jupyter.pipeline.fixits.backend import RewritingBackend
from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt, finding_key
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records import OP_STATUSES, DiffRecord, SessionRecord, Violation
from inductor_debug_jupyter.pipeline.records.findings import severity_counts
from inductor_debug_jupyter.pipeline.rerun.again import as_called
from inductor_debug_jupyter.pipeline.rerun.capture_run import CaptureRun


@dataclass(frozen=True)
class FixTrial(Harmless):
    """The models with some fix-its, beside the models without.

    Attributes:
        fixits: the fix-its that were in force.
        before: the session's record without them.
        after: the record with them.
        diff: how the numbers compare with the original's.
        waste: bytes of padding over bytes without it.
        left_out: graphs of the session that are in neither record, and why.
    """

    fixits: tuple[FixIt, ...]
    before: SessionRecord
    after: SessionRecord
    diff: DiffRecord
    waste: float
    left_out: tuple[str, ...] = ()

    @property
    def gone(self) -> tuple[Violation, ...]:
        """Findings that the fix-its removed."""
        kept = {finding_key(each) for each in self.after.findings}
        return tuple(each for each in self.before.findings if finding_key(each) not in kept)

    @property
    def new(self) -> tuple[Violation, ...]:
        """Findings that the fix-its brought."""
        known = {finding_key(each) for each in self.before.findings}
        return tuple(each for each in self.after.findings if finding_key(each) not in known)

    @property
    def same_numbers(self) -> bool:
        """Whether every output (and gradient) is the original's, but for rounding."""
        return self.diff.verdict in {"match", "rounding"}

    @property
    def max_error(self) -> float:
        """The largest absolute difference of any number."""
        return max((each.max_absolute_error or 0.0 for each in self.diff.outputs), default=0.0)

    def lines(self) -> list[str]:
        """Before and after: findings, memory, coverage, padding, numbers; one line each."""

        def count(record: SessionRecord) -> str:
            counts = severity_counts(record.findings)
            return ", ".join(words.count(counts[severity], severity) for severity in words.TO_FIX)

        def coverage(record: SessionRecord) -> str:
            if (found := record.coverage) is None:
                return "not known"
            parts = [f"{found.count(status)} {status}" for status in OP_STATUSES if found.count(status)]
            return ", ".join(parts)

        def peak(record: SessionRecord) -> str:
            return words.size(record.peak_memory) if record.peak_memory is not None else "not known"

        lines = [
            f"findings   {count(self.before)} → {count(self.after)}",
            f"memory     {peak(self.before)} → {peak(self.after)}",
            f"coverage   {coverage(self.before)} → {coverage(self.after)}",
            f"padding    {self.waste:.1%} of what is computed",
            f"numbers    {self.diff.verdict}, at most {self.max_error:.3g} off",
        ]
        lines += [f"new        {each.severity}: {each}" for each in self.new]
        return [*lines, *(f"left out   {each}" for each in self.left_out)]

    @property
    def offer(self) -> str:
        """The last fix-it and its effect, in one line."""
        gone = f"{words.count(len(self.gone), 'finding')} gone"
        new = f", {len(self.new)} new" if self.new else ""
        return f"{self.fixits[-1].title}: {gone}{new}; numbers {self.diff.verdict}, at most {self.max_error:.2g} off"

    def __repr__(self) -> str:
        return "\n".join([", ".join(each.title for each in self.fixits), *(f"  {line}" for line in self.lines())])

    def problem(self, fixit: FixIt) -> str:
        """Why a fix-it is not to be offered; an empty string when it is verified."""
        if not self.after.captures:
            return "nothing was captured with it"
        if not self.same_numbers:
            return f"the numbers change: {self.diff.verdict}"
        left = [each for each in self.after.findings if finding_key(each) == fixit.finding]
        was = [each for each in self.before.findings if finding_key(each) == fixit.finding]
        if left and sum(len(each.places) for each in left) >= sum(len(each.places) for each in was):
            return f"the finding stays: {fixit.finding}"
        worse = [each for each in self.new if each.severity == "error"]
        return f"the target then refuses something else: {worse[0].title}" if worse else ""


def combined(fixits: Sequence[FixIt]) -> Rewrite:
    """The changes of all fix-its in one rewrite."""
    rewrite = Rewrite()
    for fixit in fixits:
        rewrite |= fixit.rewrite
    return rewrite


def _tolerances(rewrite: Rewrite) -> ComparisonConfig:
    """The tolerances of the comparison: where a cast is in force, the default ones of its dtype.

    Where ops are kept in float32 beside a cast, the rest is as that format explains it.

    The error that a cast brings is a difference here, and never excused by the cast. Strides may differ: fix-its pad,
    copy, reorder and cut.
    """
    if rewrite.precise and rewrite.casts:
        return ComparisonConfig(numerics=next(iter(rewrite.casts.values())), check_strides=False)
    dtypes = [getattr(torch, name) for name in rewrite.casts.values()]
    usual = [DEFAULT_TOLERANCES[dtype] for dtype in dtypes if dtype in DEFAULT_TOLERANCES]
    if not usual:
        return ComparisonConfig(check_strides=False)
    atol, rtol = (max(each) for each in zip(*usual, strict=True))
    return ComparisonConfig(rtol=rtol, atol=atol, check_strides=False)


def try_fixits(
    fixits: Sequence[FixIt],
    calls: Sequence[ModelCall],
    before: SessionRecord,
    run: CaptureRun,
    *,
    backward: bool,
    left_out: tuple[str, ...] = (),
) -> FixTrial:
    """Run every model with these fix-its, capture it, and compare its numbers with the original's.

    ``before`` is the record of what these calls compile. Each call runs as the user's own did.
    """
    backend = RewritingBackend(combined(fixits))
    config = _tolerances(combined(fixits))
    reports = []
    with run:
        for call in calls:
            harness = KernelDiffHarness(
                call.model, call.inputs, call.name, test_backend=backend, comparison_config=config, backward=backward
            )
            with as_called(call):
                reports.append(harness.compare())
    after = _with_findings_by_user_name(run.judged(), before)
    return FixTrial(tuple(fixits), before, after, merged(reports).record, backend.waste.share, left_out)


def _with_findings_by_user_name(after: SessionRecord, before: SessionRecord) -> SessionRecord:
    """Add the findings before that only Dynamo's names show (``softmax``, which ATen calls ``_softmax``).

    A rewritten graph has ATen's names from the start, so the rule cannot find the op there, although it still runs.
    """
    lowered = {capture.compile_id for capture in before.captures if capture.graph("forward") is not None}
    known = {finding_key(each) for each in after.findings}
    stay = [
        each
        for each in before.findings
        if each.rule_id.startswith("op.")
        and all(place.stage == "dynamo" and place.compile_id in lowered for place in each.places)
        and finding_key(each) not in known
    ]
    findings = sorted((*after.findings, *stay), key=lambda each: words.RANK[each.severity])
    return replace(after, findings=tuple(findings))
