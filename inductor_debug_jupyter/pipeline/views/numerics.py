"""An error budget, a prescription and a comparison of tokens as text."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records.in_words import written_by
from inductor_debug_jupyter.pipeline.records.numerics import BudgetShare, ErrorBudget, Prescription, TokenDiff
from inductor_debug_jupyter.pipeline.words import count, size

_SHOWN = 12
_BAR = 20


def budget_text(budget: ErrorBudget) -> str:
    """The deviation, how many ops make most of it, and the largest with their lines."""
    relative = f" ({budget.seen / budget.size:.2g} of its size)" if budget.size else ""
    half, most = budget.ops_for(0.5), budget.ops_for(0.9)
    head = f"{plain(budget.of)} in {plain(budget.arithmetic)}: off by {budget.seen:.3g}{relative}"
    lines = [
        f"{head}; the budget predicts {budget.predicted:.3g}",
        f"{half} of {count(len(budget.shares), 'op')} make half of it, {most} make 90%",
        "",
    ]
    shown = budget.shares[:_SHOWN]
    names = max((len(plain(share.op)) for share in shown), default=0)
    for share in shown:
        bar = "█" * round(share.share * _BAR)
        alone = f"alone {share.predicted_alone:.2g}"
        seen = "" if share.seen_alone is None else f", seen {share.seen_alone:.2g}"
        lines.append(f"{share.share:6.1%} {bar:<{_BAR}} {plain(share.op):<{names}}  {alone}{seen}{_where(share)}")
    if len(budget.shares) > len(shown):
        rest = sum(share.share for share in budget.shares[_SHOWN:])
        lines.append(f"{rest:6.1%} {'':<{_BAR}} {count(len(budget.shares) - len(shown), 'other op')}")
    return "\n".join([*lines, *(plain(note) for note in budget.notes)])


def prescription_text(found: Prescription) -> str:
    """What to keep in float32, and what that brings."""
    head = f"{plain(found.of)} in {plain(found.arithmetic)}: {found.before:.3g}× one rounding of the format"
    if found.before <= found.goal:
        return f"{head}, within {found.goal:.3g}×: no op needs float32"
    if not found.is_reached:
        return f"{head}; with all {count(found.ops, 'op')} in float32 still {found.after:.3g}×: not by rounding"
    kept = f"with {len(found.kept)} of {count(found.ops, 'op')} in float32 {found.after:.3g}×, seen in a run"
    lines = [f"{head}; {kept} (results take {size(found.more_bytes)} more)"]
    lines += [f"  keep {plain(share.op)} ({plain(share.node)}){_where(share)}" for share in found.kept]
    return "\n".join([*lines, *(plain(note) for note in found.notes)])


def tokens_text(diff: TokenDiff) -> str:
    """How often the next token is another one, and where first."""
    flipped = f"{diff.flipped} of {count(diff.positions, 'position')} have another next token"
    divergence = f"divergence {diff.mean_divergence:.2g} on average, {diff.max_divergence:.2g} at most"
    lines = [f"{flipped}; of the five likeliest {diff.top5:.1%} agree; {divergence}"]
    if diff.reference_perplexity is not None and diff.candidate_perplexity is not None:
        lines.append(f"perplexity {diff.reference_perplexity:.4g} → {diff.candidate_perplexity:.4g}")
    for flip in diff.flips[:_SHOWN]:
        why = {True: ", rounding decides it", False: ", rounding does not explain it", None: ""}[flip.by_rounding]
        sequence, position = flip.position
        tokens = f"{flip.reference} → {flip.candidate}, margin {flip.margin:.2g}"
        lines.append(f"  sequence {sequence}, position {position}: {tokens}{why}")
    return "\n".join(lines)


def _where(share: BudgetShare) -> str:
    parts = [plain(share.module_path), plain(str(share.source)) if share.source else ""]
    return "".join(f" · {part}" for part in parts if part)


written_by(ErrorBudget, budget_text)
written_by(Prescription, prescription_text)
written_by(TokenDiff, tokens_text)
