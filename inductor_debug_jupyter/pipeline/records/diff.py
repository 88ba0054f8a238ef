"""A comparison of a reference and a candidate, output by output.

A number that is not finite or could not be computed is None (JSON has no NaN); how many values were NaN or infinite is
counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from inductor_debug_jupyter.pipeline.records.crash import CrashRecord
from inductor_debug_jupyter.pipeline.records.in_words import InWords
from inductor_debug_jupyter.pipeline.records.tokens import TokenDiff

Verdict = Literal["match", "rounding", "mismatch", "not_compared"]
VERDICTS: Final[tuple[Verdict, ...]] = ("mismatch", "not_compared", "rounding", "match")
"""Worst first."""
VERDICT_ICONS: Final[dict[str, str]] = {"mismatch": "✗", "not_compared": "?", "rounding": "≈", "match": "✓"}
VERDICT_WORDS: Final[dict[str, str]] = {
    "mismatch": "mismatch",
    "not_compared": "not compared",
    "rounding": "rounding only",
    "match": "equal",
}
SUMS: Final = "sums"
"""The path of what is no output: a device's running sums, where they are not kept in the format that it says."""


@dataclass(frozen=True, slots=True)
class Heatmap:
    """The absolute error of one output, pooled (by maximum) to a grid small enough to draw.

    ``values`` holds ``rows × columns`` numbers in row order, None where the error is not finite. ``full_rows`` and
    ``full_columns`` are the sizes before pooling, ``note`` how an N-dimensional tensor became a picture.
    """

    rows: int
    columns: int
    values: tuple[float | None, ...]
    full_rows: int
    full_columns: int
    note: str = ""

    def __post_init__(self) -> None:
        # A picture of it has rows × columns pixels: a file must not say more than it holds.
        if min(self.rows, self.columns) < 0 or self.rows * self.columns != len(self.values):
            raise ValueError(f"a heatmap of {self.rows} × {self.columns} with {len(self.values)} values")


@dataclass(frozen=True, slots=True)
class ErrorPlace:
    """One element, with both values as text (``nan`` is one too); ``error`` is None when it is not finite."""

    index: tuple[int, ...]
    reference: str
    candidate: str
    error: float | None = None


@dataclass(frozen=True, slots=True)
class OutputDiff:
    """One pair of outputs.

    ``path`` names the output (``logits``, ``[0].hidden``); ``reason`` says in one sentence why it does not match or was
    not compared. ``smallest_atol`` and ``smallest_rtol`` are the tolerances that would pass, each beside the other in
    force. ``quantiles`` are shares of the elements with the error that so many do not exceed, ``histogram`` has the
    bounds and the count of each bin, ``max_ulp`` and ``ulp_quantiles`` are in units in the last place; these and the
    places are there for the worst outputs only. ``pcc`` is Pearson's correlation, ``signal_to_noise`` the SQNR in dB;
    ``missed_gates`` are figures that the user requires and that are not reached.
    """

    path: str
    verdict: Verdict
    reason: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    candidate_shape: tuple[int, ...] = ()
    candidate_dtype: str = ""
    max_absolute_error: float | None = None
    mean_absolute_error: float | None = None
    max_relative_error: float | None = None
    mean_relative_error: float | None = None
    rmse: float | None = None
    mismatch_percentage: float | None = None
    max_error_indices: tuple[int, ...] | None = None
    reference_value: float | None = None
    candidate_value: float | None = None
    reference_nonfinite: int = 0
    candidate_nonfinite: int = 0
    atol: float | None = None
    rtol: float | None = None
    heatmap: Heatmap | None = None
    pcc: float | None = None
    cosine: float | None = None
    signal_to_noise: float | None = None
    smallest_atol: float | None = None
    smallest_rtol: float | None = None
    signed_zeros: int = 0
    max_ulp: float | None = None
    mean_ulp: float | None = None
    ulp_quantiles: tuple[tuple[float, float], ...] = ()
    quantiles: tuple[tuple[float, float], ...] = ()
    histogram: tuple[tuple[float, float, int], ...] = ()
    worst: tuple[ErrorPlace, ...] = ()
    nonfinite: tuple[ErrorPlace, ...] = ()
    missed_gates: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether this output matches. An output that was not compared has not passed."""
        return self.verdict in {"match", "rounding"}


@dataclass(frozen=True, slots=True)
class DiffRecord(InWords):
    """A whole comparison: what ran, and every output, worst first.

    ``crashes`` has the sides that crashed in a worker process. Where several calls of a model were compared,
    ``begins_in`` is the first wrong one, counted from 1, and how many there were. ``tokens`` are its logits, compared
    as a language model's user would.
    """

    model: str
    reference: str
    candidate: str
    verdict: Verdict
    outputs: tuple[OutputDiff, ...] = ()
    notes: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    reference_seconds: float = 0.0
    candidate_seconds: float = 0.0
    crashes: tuple[CrashRecord, ...] = ()
    begins_in: tuple[int, int] | None = None
    tokens: tuple[TokenDiff, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every output matches, and there was at least one."""
        return self.verdict in {"match", "rounding"}


def worst_outputs_first(outputs: Iterable[OutputDiff]) -> tuple[OutputDiff, ...]:
    """The outputs sorted by verdict, and within one verdict by number and size of errors."""
    return tuple(sorted(outputs, key=_badness))


def _badness(output: OutputDiff) -> tuple[int, bool, float, float]:
    # A mismatch without a finite figure (another shape, a NaN) comes before those that have one.
    figure = output.max_absolute_error
    return (VERDICTS.index(output.verdict), figure is not None, -(output.mismatch_percentage or 0.0), -(figure or 0.0))
