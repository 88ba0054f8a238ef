"""A comparison of next tokens, as text."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records.in_words import written_by
from inductor_debug_jupyter.pipeline.records.tokens import TokenDiff
from inductor_debug_jupyter.pipeline.words import count

_SHOWN = 12


def tokens_text(diff: TokenDiff) -> str:
    """How often the next token is another one, and where first."""
    flipped = f"{diff.flipped} of {count(diff.positions, 'position')} have another next token"
    if diff.path:
        flipped = f"{plain(diff.path)} as next tokens: {flipped}"
    divergence = f"divergence {diff.mean_divergence:.2g} on average, {diff.max_divergence:.2g} at most"
    lines = [f"{flipped}; of the five likeliest {diff.top5:.1%} agree; {divergence}"]
    if diff.reference_perplexity is not None and diff.candidate_perplexity is not None:
        lines.append(f"perplexity {diff.reference_perplexity:.4g} → {diff.candidate_perplexity:.4g}")
    for number, flip in enumerate(diff.flips[:_SHOWN]):
        why = {True: ", by rounding alone", False: ", rounding does not explain it", None: ""}[flip.by_rounding]
        sequence, position = flip.position
        tokens = f"{flip.reference} → {flip.candidate}, margin {flip.margin:.2g}"
        first = "first flip: " if number == 0 else ""
        lines.append(f"  {first}sequence {sequence}, position {position}: {tokens}{why}")
    return "\n".join(lines)


written_by(TokenDiff, tokens_text)
