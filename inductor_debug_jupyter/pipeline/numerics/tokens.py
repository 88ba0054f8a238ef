"""Compare logits as the user of a language model would: which next tokens change, and how close they were.

Every position has a distribution over the next token on either side. A token that flips although the reference's
margin (the distance of its two best logits) is smaller than what the deviation of the logits there can move was
decided by rounding; a flip across a wide margin was not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.diff import DiffReport
from inductor_debug_jupyter.pipeline.diff.outputs import WHOLE
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.records import OutputDiff, TokenDiff, TokenFlip
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind

_TOP: Final = 5
_LOGITS_DIMS: Final = 3
_FLIPS: Final = 20
"""So many flips are listed; all are counted."""
_EACH: Final = 4096
"""So many positions have figures of their own."""


def compare_tokens(
    reference: torch.Tensor, candidate: torch.Tensor, labels: torch.Tensor | None = None, floor: float | None = None
) -> TokenDiff:
    """Compare two tensors of logits, ``(…, positions, vocabulary)``.

    Args:
        reference: the logits to hold the others against.
        candidate: the others.
        labels: the token that really comes next at each position, for the perplexity; -100 means none.
        floor: how far rounding can move a logit; by default the deviation that is seen at each position.

    Raises:
        UsageError: the shapes do not fit, or there is nothing to choose from.
    """
    if reference.shape != candidate.shape or reference.ndim < 2 or reference.shape[-1] < 2:
        raise UsageError(
            f"logits of shape {tuple(reference.shape)} and {tuple(candidate.shape)}; "
            "allowed: two of the same shape, positions × a vocabulary of 2 or more"
        )
    ours = candidate.detach().double().reshape(-1, candidate.shape[-1])
    theirs = reference.detach().double().reshape(-1, reference.shape[-1])
    log_p, log_q = theirs.log_softmax(-1), ours.log_softmax(-1)
    divergence = (log_p.exp() * (log_p - log_q)).sum(-1)
    best = theirs.topk(min(_TOP, theirs.shape[-1]), dim=-1)
    their_top, our_top = best.indices, ours.topk(best.indices.shape[-1], dim=-1).indices
    margins = best.values[:, 0] - best.values[:, 1]
    flipped = their_top[:, 0] != our_top[:, 0]
    shared = (their_top[:, :, None] == our_top[:, None, :]).any(-1).double().mean(-1)
    moved = (ours - theirs).abs().amax(-1) if floor is None else torch.full_like(margins, floor)
    positions = reference.shape[-2]
    flips = [
        TokenFlip(
            divmod(at, positions),
            int(their_top[at, 0]),
            int(our_top[at, 0]),
            float(margins[at]),
            bool(margins[at] <= 2 * moved[at]) if floor is not None else None,
        )
        for at in flipped.nonzero().flatten().tolist()[:_FLIPS]
    ]
    return TokenDiff(
        positions=len(margins),
        flipped=int(flipped.sum()),
        flips=tuple(flips),
        top1=1.0 - float(flipped.double().mean()),
        top5=float(shared.mean()),
        mean_divergence=float(divergence.mean()),
        max_divergence=float(divergence.max()),
        reference_perplexity=_perplexity(log_p, labels),
        candidate_perplexity=_perplexity(log_q, labels),
        length=positions,
        divergence_at=tuple(divergence[:_EACH].tolist()),
        margin_at=tuple(margins[:_EACH].tolist()),
        top5_at=tuple(shared[:_EACH].tolist()),
    )


def tokens_of(report: DiffReport, inputs: Any) -> TokenDiff | None:
    """The logits of a comparison as next tokens; None where no output is logits.

    A flip is by rounding alone where rounding explains the logits. The perplexity is that of the input's own tokens,
    each as the one that comes next.

    Args:
        report: the comparison.
        inputs: those of the call.
    """
    judged = {output.path: output for output in report.outputs}
    logits = [path for path in ("logits", WHOLE, "[0]") if path in judged and _is_logits(judged[path])]
    if not logits:
        return None
    output, pair = judged[logits[0]], report.pairs.pairs.get(logits[0])
    if pair is None:
        return _all_agree(output.path, output.shape) if output.verdict == "match" else None
    tokens = _tokens_in(inputs)
    labels = _next(tokens) if tokens is not None and tuple(tokens.shape) == output.shape[:-1] else None
    found = compare_tokens(*pair, labels=labels)
    flips = tuple(replace(each, by_rounding=output.passed or None) for each in found.flips)
    return replace(found, path=output.path, flips=flips)


def _is_logits(output: OutputDiff) -> bool:
    """Whether both sides have (batch, positions, vocabulary)."""
    shape = output.shape
    return len(shape) == _LOGITS_DIMS and shape[-1] > 1 and output.candidate_shape in {(), shape}


def _all_agree(path: str, shape: tuple[int, ...]) -> TokenDiff:
    """Logits that are equal to the bit."""
    return TokenDiff(math.prod(shape[:-1]), 0, (), 1.0, 1.0, 0.0, 0.0, path=path, length=shape[-2])


def _tokens_in(inputs: Any) -> torch.Tensor | None:
    """The tokens among a call's inputs: ``input_ids``, or the only tensor of whole numbers with two dimensions."""
    if isinstance(inputs, Mapping) and isinstance(inputs.get("input_ids"), torch.Tensor):
        return inputs["input_ids"]  # type: ignore[no-any-return]
    found = [each for each in of_kind(torch.Tensor, inputs) if each.dtype is torch.int64 and each.ndim == 2]
    return found[0] if len(found) == 1 else None


def _next(tokens: torch.Tensor) -> torch.Tensor:
    """The token behind each; -100 behind the last."""
    return torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], -100)], 1)


def _perplexity(log_probabilities: torch.Tensor, labels: torch.Tensor | None) -> float | None:
    if labels is None:
        return None
    flat = labels.reshape(-1)
    if flat.shape[0] != log_probabilities.shape[0]:
        raise UsageError(f"{flat.shape[0]} labels for {log_probabilities.shape[0]} positions")
    known = flat != -100
    if not bool(known.any()):
        return None
    chosen = log_probabilities[known].gather(1, flat[known][:, None])
    return float(torch.exp(-chosen.mean()))
