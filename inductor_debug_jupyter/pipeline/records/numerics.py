"""An error budget: how much of a result's deviation each op of a model makes on a device's arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records.graph import SourceLine
from inductor_debug_jupyter.pipeline.records.in_words import InWords


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """One op: its share of the variance of the result.

    ``predicted_alone`` is the deviation of the result if no other op rounded, from the op's share; ``seen_alone`` is
    that of a run in which no other op did, for the largest ones (None where there was no such run).
    """

    op: str
    node: str
    share: float
    predicted_alone: float
    seen_alone: float | None = None
    module_path: str = ""
    source: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class ErrorBudget(InWords):
    """The deviation of one result by the ops that make it.

    Attributes:
        of: the result: the path of an output.
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

    ``before`` and ``after`` are deviations in units of the device's format, ``goal`` is what was wanted; ``more_bytes``
    is what the results of the kept ops take more than in a 16-bit format.
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

    @property
    def is_reached(self) -> bool:
        """Whether the run with these ops in float32 was within the goal."""
        return self.after <= self.goal


@dataclass(frozen=True, slots=True)
class TokenFlip:
    """A position (of which sequence, and where in it) at which the likeliest token is another one.

    ``by_rounding`` says whether the reference's margin is no wider than what rounding moves there; None when that is
    not known.
    """

    position: tuple[int, int]
    reference: int
    candidate: int
    margin: float
    by_rounding: bool | None = None


@dataclass(frozen=True, slots=True)
class TokenDiff(InWords):
    """Two tensors of logits, compared as distributions over the next token.

    ``top1`` and ``top5`` are the shares of agreement; divergences are Kullback-Leibler's, in nats.
    """

    positions: int
    flipped: int
    flips: tuple[TokenFlip, ...]
    top1: float
    top5: float
    mean_divergence: float
    max_divergence: float
    reference_perplexity: float | None = None
    candidate_perplexity: float | None = None
