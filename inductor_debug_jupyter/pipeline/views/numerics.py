"""An error budget, a prescription, a narrowing and a comparison of a loop's steps, as text."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records.in_words import written_by
from inductor_debug_jupyter.pipeline.records.numerics import (
    BudgetShare,
    ErrorBudget,
    GenerationDiff,
    Narrowing,
    Prescription,
)
from inductor_debug_jupyter.pipeline.views.labels import short_op
from inductor_debug_jupyter.pipeline.views.localization import localization_text
from inductor_debug_jupyter.pipeline.views.places import Lookup, code_text
from inductor_debug_jupyter.pipeline.views.view_types import Row, Selection
from inductor_debug_jupyter.pipeline.words import count, size

_SHOWN = 12
_BAR = 20
_CLOSE = 0.05
"""Up to this part of the variance a prediction and a run are called alike."""


def budget_text(budget: ErrorBudget) -> str:
    """The deviation, how many ops make most of it, and the largest with their lines."""
    lines = [*_budget_head(budget), ""]
    shown = budget.shares[:_SHOWN]
    names = max((len(plain(share.op)) for share in shown), default=0)
    for share in shown:
        bar = "█" * round(share.share * _BAR)
        facts = ", ".join(text for text in (_alone(share), _without(budget, share)) if text)
        lines.append(f"{share.share:6.1%} {bar:<{_BAR}} {plain(share.op):<{names}}  {facts}{_where(share)}")
    if len(budget.shares) > len(shown):
        rest = sum(share.share for share in budget.shares[_SHOWN:])
        lines.append(f"{rest:6.1%} {'':<{_BAR}} {count(len(budget.shares) - len(shown), 'other op')}")
    return "\n".join([*lines, *(plain(note) for note in budget.notes)])


def _budget_head(budget: ErrorBudget) -> list[str]:
    """The deviation, predicted and seen; how many ops make most of it; what the shares do not explain."""
    relative = f" ({100 * budget.seen / budget.size:.2g}% of its size)" if budget.size else ""
    half, most = budget.ops_for(0.5), budget.ops_for(0.9)
    head = f"{plain(budget.of)} is off by {budget.seen:.3g}{relative} in {plain(budget.arithmetic)}"
    left = budget.unexplained
    rest = (
        f"{left:.0%} of the variance is not explained by them"
        if left > _CLOSE
        else f"{-left:.0%} more variance than a run shows"
        if left < -_CLOSE
        else "that explains all of it"
    )
    return [
        f"{head}; the ops below add up to {budget.predicted:.3g}: {rest}",
        f"{half} of {count(len(budget.shares), 'op')} {_make(half)} half of it, {most} {_make(most)} 90%",
    ]


def _make(number: int) -> str:
    return "makes" if number == 1 else "make"


def _alone(share: BudgetShare) -> str:
    """The deviation that this op makes alone, predicted and confirmed."""
    seen = "" if share.seen_alone is None else f" → {share.seen_alone:.2g}"
    return f"alone {share.predicted_alone:.2g}{seen}"


def _without(budget: ErrorBudget, share: BudgetShare) -> str:
    """The deviation that is left when this op is replaced by the reference's, predicted and confirmed."""
    if share.seen_without is None:
        return ""
    return f"without it {budget.predicted_without(share):.3g} → {share.seen_without:.3g}"


def budget_view(budget: ErrorBudget, lookup: Lookup, prescription: Prescription | None = None) -> Row:
    """The Error budget tab: what it says in short, and a row for each op, largest first.

    ``bar`` is the row's length in percent of the longest; ``selection`` is the op's node in a captured graph, or None.
    """
    largest = max((share.share for share in budget.shares), default=0.0) or 1.0
    return Row(
        head=_budget_head(budget),
        keys="Each op's error alone, and what is left of all of it without this op: predicted → measured in a run",
        rows=[
            Row(
                op=plain(short_op(share.op)),
                share=f"{share.share:.1%}",
                bar=100 * share.share / largest,
                facts=" · ".join(filter(None, [_alone(share), _without(budget, share)])),
                where=_where(share).removeprefix(" · "),
                code=code_text(share.source),
                selection=node_of_share(lookup, share),
            )
            for share in budget.shares
        ],
        prescription=[] if prescription is None else str(prescription).splitlines(),
        notes=[plain(note) for note in budget.notes],
    )


def node_of_share(lookup: Lookup, share: BudgetShare) -> Selection | None:
    """The node of an op in a captured graph; None where no graph has a node of that name that is the same op."""
    found = lookup.of_searched(share.graph, share.node)
    if found is None:
        return None
    node = lookup.graphs[found["compile_id"], found["stage"]].node(found["node"])
    return found if node is not None and plain(node.target) == plain(share.op) else None


def shares_by_graph(budget: ErrorBudget | None, lookup: Lookup) -> dict[tuple[str, str], dict[str, float]]:
    """(compile id, stage) → node → its share of the deviation."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for share in budget.shares if budget else ():
        if (at := node_of_share(lookup, share)) is not None:
            found.setdefault((at["compile_id"], at["stage"]), {})[at["node"]] = share.share
    return found


def prescription_text(found: Prescription) -> str:
    """What to keep in float32, and what that brings."""
    head = f"{plain(found.of)} in {plain(found.arithmetic)}: {found.before:.3g}× one rounding of the format"
    if found.before <= found.goal:
        return f"{head}, within {found.goal:.3g}×: no op needs float32"
    if not found.is_reached:
        return f"{head}; with all {count(found.ops, 'op')} in float32 still {found.after:.3g}×: not by rounding"
    kept = f"with {len(found.kept)} of {count(found.ops, 'op')} in float32 {found.after:.3g}×, seen in a run"
    lines = [f"{head}; {kept}"]
    lines += [f"  keep {plain(share.op)} ({plain(share.node)}){_where(share)}" for share in found.kept]
    casts = count(found.casts, "tensor")
    lines.append(f"  cost: {casts} cast, {size(found.more_bytes)} more memory, {size(found.moved_bytes)} more moved")
    forms = (("in code", found.code), ("in a profile", found.profile_line))
    lines += [f"  {what}: {plain(text)}" for what, text in forms if text]
    return "\n".join([*lines, *(plain(note) for note in found.notes)])


def narrowing_text(found: Narrowing) -> str:
    """Which ops may go to a narrower arithmetic, and what that does."""
    head = f"{plain(found.of)} in {plain(found.arithmetic)}: {found.before:.3g}× one rounding of the format"
    goal, all_ops = f"{found.goal:.3g}×", count(found.ops, "op")
    if found.before > found.goal:
        return f"{head}, not within {goal} as it is: no op may go to {plain(found.narrower)}"
    everything = f"with all {all_ops} in {plain(found.narrower)} {found.all_narrow:.3g}×"
    some = f"with {len(found.narrowed)} of {all_ops} {found.after:.3g}×, within {goal}, seen in a run"
    which = everything + f", within {goal}" if len(found.narrowed) == found.ops else f"{everything}; {some}"
    lines = [f"{head}; {which}"]
    lines += [f"  {plain(share.op)} ({plain(share.node)}){_where(share)}" for share in found.narrowed[:_SHOWN]]
    if len(found.narrowed) > _SHOWN:
        lines.append(f"  and {count(len(found.narrowed) - _SHOWN, 'other op')}")
    return "\n".join([*lines, *(plain(note) for note in found.notes)])


def generation_text(found: GenerationDiff) -> str:
    """Which step is wrong first and by which op, and the tokens that flip before."""
    head = f"{plain(found.model)}: {plain(found.reference)} against {plain(found.candidate)}"
    last = found.steps[-1]
    if found.passed:
        lines = [f"{head} · {count(len(found.steps), 'step')}, each as it should be"]
    else:
        what = "is wrong" if last.verdict == "mismatch" else "was not compared"
        lines = [
            f"{head} · step {last.number} of {found.wanted} {what}, those before it are as they should be",
            f"  {plain(last.path)}: {plain(last.reason)}",
        ]
    if found.localization is not None:
        lines += [f"  {line}" for line in localization_text(found.localization).splitlines()]
    for step in found.steps:
        for flip in step.flips:
            why = "by rounding alone" if flip.by_rounding else "not by rounding"
            tokens = f"{flip.reference} → {flip.candidate}, margin {flip.margin:.2g}"
            lines.append(f"  step {step.number}, sequence {flip.position[0]}: the next token flips {why}: {tokens}")
    return "\n".join(lines)


def _where(share: BudgetShare) -> str:
    parts = [plain(share.module_path), plain(str(share.source)) if share.source else ""]
    return "".join(f" · {part}" for part in parts if part)


written_by(GenerationDiff, generation_text)
written_by(ErrorBudget, budget_text)
written_by(Prescription, prescription_text)
written_by(Narrowing, narrowing_text)
