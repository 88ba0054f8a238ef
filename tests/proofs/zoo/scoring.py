"""Whether the tool was right about a case: its verdict, the op, the line, and nobody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.proofs.inside_torch.planting import bare_op
from tests.proofs.zoo.cases import Case
from tests.proofs.zoo.trial import Blame, Outcome

_ALARMS = frozenset({"mismatch", "not_compared"})
"""Verdicts that a healthy backend must not get; the others (match, rounding, as its format gives it) it may."""


@dataclass(frozen=True)
class Score:
    """The marks of one case; ``op`` and ``line`` are None where no graph op is at fault.

    Args:
        case: which.
        outcome: what the tool said.
        verdict: whether ``compare()`` is right.
        localized: whether ``localize()`` says the same end-to-end verdict: never a tick beside a mismatch.
        op: whether the faulty op is among the culprits.
        line: whether it is blamed on the line that the zoo wrote it on.
        innocents: culprits that are not the faulty op on its line.
        problems: each mark that is missing, in words.
    """

    case: Case
    outcome: Outcome
    verdict: bool
    localized: bool
    op: bool | None = None
    line: bool | None = None
    innocents: int = 0
    problems: tuple[str, ...] = field(default=())

    @property
    def right(self) -> bool:
        """Whether all of it is right."""
        return not self.problems


def score(case: Case, outcome: Outcome) -> Score:
    """The marks of one case."""
    if outcome.error:
        missing = None if not case.blames_op else False
        return Score(case, outcome, False, False, missing, missing, 0, (outcome.error,))
    if case.is_clean:
        return _clean(case, outcome)
    problems = []
    if not (verdict := outcome.verdict == "mismatch"):
        problems.append(f"the verdict is {outcome.verdict}, not mismatch")
    if not (localized := outcome.localized == "mismatch"):
        problems.append(f"localize says {outcome.localized or 'nothing of the verdict'}")
    marks = Score(case, outcome, verdict, localized, problems=tuple(problems))
    return _blaming(marks) if case.blames_op else marks


def _blaming(marks: Score) -> Score:
    """The marks of a case in which a graph op is at fault."""
    case, outcome, problems = marks.case, marks.outcome, list(marks.problems)
    of_op = [blame for blame in outcome.blamed if bare_op(blame.op) == case.op]
    guilty = [blame for blame in of_op if (blame.file, blame.line) in case.lines]
    innocents = [blame for blame in outcome.blamed if blame not in guilty]
    if not of_op:
        problems.append(f"{case.op} is not blamed")
    elif not guilty:
        problems.append(f"{case.op} is not blamed on {_places(case)}")
    problems += [f"{_said(blame)} is blamed" for blame in innocents]
    return replace(marks, op=bool(of_op), line=bool(guilty), innocents=len(innocents), problems=tuple(problems))


def _clean(case: Case, outcome: Outcome) -> Score:
    problems = []
    if not (verdict := outcome.verdict not in {*_ALARMS, ""}):
        why = f" ({outcome.outputs[0]})" if outcome.outputs else ""
        problems.append(f"the verdict is {outcome.verdict}{why}")
    if not (localized := outcome.localized not in _ALARMS):
        problems.append(f"localize says {outcome.localized}")
    problems += [f"{_said(blame)} is blamed" for blame in outcome.blamed]
    return Score(case, outcome, verdict, localized, innocents=len(outcome.blamed), problems=tuple(problems))


def _said(blame: Blame) -> str:
    return f"{blame.op} ({blame.graph}) at {blame.file}:{blame.line}"


def _places(case: Case) -> str:
    return " or ".join(f"{file}:{line}" for file, line in sorted(case.lines))


# Tables: marks by fault and backend, by regime, by model --------------------------------------------------------------


COLUMNS = ("Cases", "Verdict", "Localize agrees", "Op", "Line", "Innocents", "CPU s")


def rows_by(scores: Sequence[Score], key: Callable[[Score], tuple[str, ...]]) -> list[tuple[str, ...]]:
    """One row for each value of ``key``, in order, and one of all when there are several."""
    groups: dict[tuple[str, ...], list[Score]] = {}
    for score in scores:
        groups.setdefault(key(score), []).append(score)
    rows = [(*name, *_cells(group)) for name, group in sorted(groups.items())]
    if len(rows) > 1:
        width = len(next(iter(groups)))
        rows.append(("all", *[""] * (width - 1), *_cells(scores)))
    return rows


def _cells(group: Sequence[Score]) -> tuple[str, ...]:
    blaming = [score for score in group if score.op is not None]
    return (
        str(len(group)),
        _share(sum(score.verdict for score in group), len(group)),
        _share(sum(score.localized for score in group), len(group)),
        _share(sum(bool(score.op) for score in blaming), len(blaming)),
        _share(sum(bool(score.line) for score in blaming), len(blaming)),
        str(sum(score.innocents for score in group)),
        f"{sum(score.outcome.seconds for score in group):.0f}",
    )


def _share(right: int, of: int) -> str:
    if not of:
        return "–"
    return f"{right}" if right == of else f"{right} of {of}"
