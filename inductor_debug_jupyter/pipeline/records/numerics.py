"""An error budget: how much of a result's deviation each op of a model makes on a device's arithmetic."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records.diff import DiffRecord, Verdict
from inductor_debug_jupyter.pipeline.records.graph import SourceLine
from inductor_debug_jupyter.pipeline.records.in_words import InWords
from inductor_debug_jupyter.pipeline.records.localization import LocalizationRecord
from inductor_debug_jupyter.pipeline.records.tokens import TokenFlip


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """One op: its share of the variance of the result.

    The largest ones are confirmed by two runs each (None where there was no such run).

    Attributes:
        op: the ATen op.
        node: its name in the graph.
        share: its part of the variance, 0 to 1.
        predicted_alone: the deviation of the result if no other op rounded, from the share.
        seen_alone: that of a run in which no other op did: the device's error was added to the op's value.
        seen_without: the deviation of a run on the device in which the op gave what the reference makes of its inputs.
        graph: ``forward`` or ``backward``.
    """

    op: str
    node: str
    share: float
    predicted_alone: float
    seen_alone: float | None = None
    module_path: str = ""
    source: SourceLine | None = None
    seen_without: float | None = None
    graph: str = "forward"


@dataclass(frozen=True, slots=True)
class ErrorBudget(InWords):
    """The deviation of one result by the ops that make it.

    Attributes:
        of: the result: the path of an output, or the margin of its two best values.
        arithmetic: the device's, in words.
        predicted: the deviation (root mean square over the result's elements) that the shares add up to.
        seen: the deviation in a run of the whole model in that arithmetic.
        size: the root mean square of the result itself.
        shares: every op that rounds, largest first; their shares add up to 1.
        notes: what is not in it.
    """

    of: str
    arithmetic: str
    predicted: float
    seen: float
    size: float
    shares: tuple[BudgetShare, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def unexplained(self) -> float:
        """The part of the variance seen in a run that the shares do not add up to; negative if they add up to more."""
        return 1 - (self.predicted / self.seen) ** 2 if self.seen else 0.0

    def predicted_without(self, share: BudgetShare) -> float:
        """The deviation that is left when this op does not round."""
        return self.predicted * math.sqrt(max(0.0, 1 - share.share))

    def ops_for(self, part: float) -> int:
        """How many ops, largest first, make that part (0 to 1) of the variance."""
        total = 0.0
        for count, share in enumerate(self.shares, 1):
            total += share.share
            if total >= part:
                return count
        return len(self.shares)


@dataclass(frozen=True, slots=True)
class Prescription(InWords):
    """The ops to keep in float32, verified by a run.

    Attributes:
        of: the result that is to be good.
        arithmetic: the device's, in words.
        ops: how many ops round.
        kept: those to keep.
        before: the deviation without that, in units of the device's format.
        after: the deviation in a run with them in float32.
        goal: what was wanted.
        more_bytes: what the results of the kept ops take more than in a 16-bit format.
        notes: what is not in it.
        places: what the kept ops are called in ``fixed(model, keep_precise=[…])`` and in a profile.
        casts: tensors that are cast for it, in either direction.
        moved_bytes: what these ops and those that read their results move more than in a 16-bit format.
        cast_to: torch's name of the format of the other ops; empty where torch does not compute in it.
    """

    of: str
    arithmetic: str
    ops: int
    kept: tuple[BudgetShare, ...]
    before: float
    after: float
    goal: float
    more_bytes: int = 0
    notes: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    casts: int = 0
    moved_bytes: int = 0
    cast_to: str = ""

    @property
    def is_reached(self) -> bool:
        """Whether the run with these ops in float32 was within the goal."""
        return self.after <= self.goal

    @property
    def code(self) -> str:
        """The call that makes such a model of a float32 one; empty where torch does not compute in the format."""
        if not self.cast_to or not self.places:
            return ""
        return f'fixed(model, cast={{"float32": "{self.cast_to}"}}, keep_precise={json.dumps(self.places)})'

    @property
    def profile_line(self) -> str:
        """What says the same in a device's profile, under ``[numerics]``; empty where nothing is kept."""
        return f"precise = {json.dumps(self.places)}" if self.places else ""


@dataclass(frozen=True, slots=True)
class Narrowing(InWords):
    """The ops that may go to a narrower arithmetic, verified by a run.

    ``narrowed`` are those that may, smallest share first; ``before`` is the deviation without that, ``all_narrow`` with
    every op there, ``after`` with these: in units of the device's format, or of the narrower one if it rounds nothing.
    """

    of: str
    arithmetic: str
    narrower: str
    ops: int
    narrowed: tuple[BudgetShare, ...]
    before: float
    all_narrow: float
    after: float
    goal: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationStep:
    """One step of a loop: its verdict, its worst output and why, and where the next token is another one."""

    number: int
    verdict: Verdict
    path: str = ""
    reason: str = ""
    flips: tuple[TokenFlip, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationDiff(InWords):
    """A loop of calls, compared step by step up to the first that is not as it should be.

    ``wanted`` steps were to be compared; ``diff`` and ``localization`` are of the last one, if it did not pass.
    """

    model: str
    reference: str
    candidate: str
    verdict: Verdict
    wanted: int
    steps: tuple[GenerationStep, ...]
    diff: DiffRecord | None = None
    localization: LocalizationRecord | None = None

    @property
    def passed(self) -> bool:
        """Whether every step is as it should be."""
        return self.verdict in {"match", "rounding"}

    @property
    def first_wrong(self) -> GenerationStep | None:
        """The step that leaves its floor; None when none does."""
        return next((step for step in self.steps if step.verdict == "mismatch"), None)
