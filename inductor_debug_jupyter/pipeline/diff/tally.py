"""The figures of a comparison, summed up piece by piece in float64."""

from __future__ import annotations

import math

import torch

from inductor_debug_jupyter.pipeline.diff.elements import Piece


class Tally:
    """Adds pieces up.

    The relative error is taken where the reference is finite and not zero: elsewhere there is none. Where a pair is
    ``wild`` (differs and is not finite) there is no error either; such places are counted, and make every figure
    infinite.
    """

    def __init__(self, atol: float, rtol: float) -> None:
        self._atol, self._rtol = atol, rtol
        self.compared = 0
        self.unequal = 0
        self.outside = 0
        self.wild = 0
        self.both_nan = 0
        self.reference_nonfinite = 0
        self.candidate_nonfinite = 0
        self.largest = 0.0
        """The largest error among those that are not wild."""
        self.worst_position: int | None = None
        """Where the first wild pair is, or else the first largest error; None when nothing differs."""
        self._largest_relative = 0.0
        self._sum = self._sum_of_squares = self._relative_sum = 0.0
        self._relative_count = 0

    def add(self, piece: Piece) -> None:
        """Take one piece into account."""
        allowed = self._atol + self._rtol * piece.size
        outside = (~(piece.error <= allowed) & ~piece.equal) | piece.wild
        tame = piece.error.masked_fill(piece.wild, 0.0)
        self.compared += len(piece.error)
        self.unequal += len(piece.error) - int(piece.equal.sum())
        self.outside += int(outside.sum())
        self.both_nan += piece.both_nan
        self.reference_nonfinite += piece.reference_nonfinite
        self.candidate_nonfinite += piece.candidate_nonfinite
        self._sum += float(tame.sum())
        self._sum_of_squares += float(tame.square().sum())
        has_relative = (piece.size > 0) & piece.size.isfinite() & ~piece.wild
        if relative_count := int(has_relative.sum()):
            relative = tame[has_relative] / piece.size[has_relative]
            self._relative_count += relative_count
            self._relative_sum += float(relative.sum())
            self._largest_relative = max(self._largest_relative, float(relative.max()))
        self._find_worst(piece, tame)

    def _find_worst(self, piece: Piece, tame: torch.Tensor) -> None:
        wild = int(piece.wild.sum())
        if wild and not self.wild:
            self.worst_position = piece.offset + int(piece.wild.byte().argmax())
        self.wild += wild
        at = int(tame.argmax())
        error = float(tame[at])
        if error > self.largest:
            self.largest = error
            if not self.wild:
                self.worst_position = piece.offset + at

    @property
    def max_absolute_error(self) -> float:
        """The largest error."""
        return math.inf if self.wild else self.largest

    @property
    def mean_absolute_error(self) -> float:
        """The mean error."""
        return math.inf if self.wild else self._sum / self.compared

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return math.inf if self.wild else math.sqrt(self._sum_of_squares / self.compared)

    @property
    def max_relative_error(self) -> float:
        """The largest relative error; infinite when something differs and the reference is zero throughout."""
        return self._relative(self._largest_relative)

    @property
    def mean_relative_error(self) -> float:
        """The mean relative error; likewise."""
        return self._relative(self._relative_sum / self._relative_count if self._relative_count else 0.0)

    def _relative(self, value: float) -> float:
        nowhere = not self._relative_count and self.unequal
        return math.inf if self.wild or nowhere else value

    @property
    def mismatch_percentage(self) -> float:
        """How many percent of the elements are outside the tolerance."""
        return 100.0 * self.outside / self.compared
