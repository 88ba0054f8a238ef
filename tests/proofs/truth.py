"""``truth``: a zoo of faults that must be called wrong and blamed on the right line, and clean runs that must not.

Faults × value regimes × models × backends, drawn from a seed. Each fault is first shown to be there without the tool
that is measured; one that does not show is left out and another one is drawn.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Iterator, Sequence

from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.options import whole_number
from tests.proofs.zoo.cases import SAMPLE, Case, drawn, parse_case
from tests.proofs.zoo.pool import try_cases
from tests.proofs.zoo.scoring import COLUMNS, Score, rows_by, score
from tests.proofs.zoo.trial import Outcome

_ROUNDS = 6
"""How often cases are drawn again for those that did not show."""
_COMMAND = "python -m tests.proofs truth"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--cases", default="300", metavar="N", help="faulty cases that show, to be scored; default 300")
    parser.add_argument("--seed", default="0", metavar="N", help="of the draw; default 0")
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="only cases whose id has this text; may be repeated"
    )
    parser.add_argument("--case", action="append", metavar="ID", help="this case alone; may be repeated")
    parser.add_argument("--sample", action="store_true", help="the fixed sample that CI runs")
    parser.add_argument("--jobs", default=str(max(1, (os.cpu_count() or 2) // 2)), metavar="N", help="processes")


def run(args: argparse.Namespace) -> int:
    """Print the tables; 1 unless every verdict, op and line is right."""
    wanted = whole_number(args.cases, "--cases", 1)
    seed = whole_number(args.seed, "--seed", 0)
    suite = _Suite(whole_number(args.jobs, "--jobs", 1))
    fixed = [parse_case(text) for text in args.case or (SAMPLE if args.sample else ())]
    try:
        if fixed:
            suite.try_faulty(iter([case for case in fixed if not case.is_clean]), len(fixed))
            suite.try_all([case for case in fixed if case.is_clean])
        else:
            suite.try_faulty(drawn(seed, args.only or ()), wanted)
            suite.try_clean()
    finally:  # also of a run that is interrupted: it may have taken an hour
        if suite.scores or suite.hidden:
            suite.print()
    return int(bool(suite.wrong) or not suite.scores)


class _Suite:
    """Scores, as they come in."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self.scores: list[Score] = []
        self.hidden: list[str] = []

    @property
    def wrong(self) -> list[Score]:
        """The scores that are not full."""
        return [score for score in self.scores if not score.right]

    def try_faulty(self, cases: Iterator[Case], wanted: int) -> None:
        """Take cases until so many were scored; those that do not show are not."""
        for _ in range(_ROUNDS):
            missing = wanted - len(self.scores)
            batch = list(itertools.islice(cases, missing))
            if not batch:
                return
            self.try_all(batch)

    def try_clean(self) -> None:
        """The models, values and backends of the scored cases once more, without their faults."""
        faulty = [score.case for score in self.scores]
        twins = {(case.model, case.regime, case.backend, case.backward): case for case in faulty}
        self.try_all([case.without_fault for case in twins.values()])

    def try_all(self, cases: Sequence[Case]) -> None:
        """Try cases, and score those that show."""
        by_id = {case.id: case for case in cases}
        with Progress(len(by_id)) as progress:

            def told(outcome: Outcome) -> None:
                case = by_id[outcome.id]
                progress.step(outcome.id)
                if not case.is_clean and not outcome.shows:
                    self.hidden.append(case.id)
                    progress.remark("does not show")
                    return
                self.scores.append(score(case, outcome))
                progress.remark("; ".join(self.scores[-1].problems) or "✓")

            try_cases(list(by_id), self._jobs, told)

    def print(self) -> None:
        """The tables, and each case that is not right with the command that runs it alone."""
        for names, key in (
            (("Fault", "Backend"), lambda score: (score.case.kind, score.case.backend)),
            (("Values",), lambda score: (score.case.regime,)),
            (("Model",), lambda score: (score.case.model,)),
        ):
            print_table((*names, *COLUMNS), rows_by(self.scores, key), right=COLUMNS)
            print_line("")
        for each in self.wrong:
            print_line(f"✗ {'; '.join(each.problems)}")
            print_line(f"  {_COMMAND} --case {each.case.id}")
        if self.hidden:
            print_line(f"({len(self.hidden)} drawn faults do not show in any result, and were not scored)")
        right = len(self.scores) - len(self.wrong)
        print_line(f"{'✗' if self.wrong else '✓'} {right} of {len(self.scores)} cases are right in everything")
