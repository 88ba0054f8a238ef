"""Two tensors of logits, compared as distributions over the next token."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records.in_words import InWords


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

    ``top1`` and ``top5`` are the shares of agreement; divergences are Kullback-Leibler's, in nats. Of the first
    positions each has its own: ``divergence_at``, ``margin_at`` (of the reference's two best logits) and ``top5_at``,
    in the order of ``divmod(at, length)``. ``path`` is the output that has the logits.
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
    path: str = ""
    length: int = 0
    divergence_at: tuple[float, ...] = ()
    margin_at: tuple[float, ...] = ()
    top5_at: tuple[float, ...] = ()

    @property
    def first_flip(self) -> TokenFlip | None:
        """The first position at which the next token is another one."""
        return self.flips[0] if self.flips else None
