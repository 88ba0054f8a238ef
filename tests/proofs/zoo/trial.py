"""One case, tried: does the fault show at all, what does ``compare()`` say, what does ``localize()`` blame."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from inductor_debug_jupyter.benchmarks.printing import error_line
from inductor_debug_jupyter.pipeline.diff import KernelDiffHarness
from tests.proofs.zoo.cases import Case, parse_case
from tests.proofs.zoo.planted import planted
from tests.proofs.zoo.showing import (
    Results,
    compiled,
    how_it_shows,
    in_float64,
    results_of,
)
from tests.proofs.zoo.subjects import MODELS, Subject, regime

_STRUCTURE = ("wrong-stride", "wrong-alias")


@dataclass(frozen=True)
class Blame:
    """One culprit: the op, the file's name and the line, empty and 0 when the tool names none."""

    op: str
    file: str
    line: int
    graph: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Args:
        id: the case.
        shows: how the fault shows, in words; empty when it does not (then nothing else was tried), or in a clean case.
        verdict: of ``compare()``.
        localized: the verdict that ``localize()`` reports; empty when it reports none.
        blamed: its culprits.
        outputs: paths and reasons of outputs that do not pass.
        seconds: of CPU, of ``compare()`` and ``localize()``.
        error: what the tool raised; empty when it answered.
    """

    id: str
    shows: str = ""
    verdict: str = ""
    localized: str = ""
    blamed: tuple[Blame, ...] = ()
    outputs: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""


Tool = Callable[[Case, Subject, Any], tuple[str, tuple[str, ...], str, tuple[Blame, ...]]]
"""Case, subject and backend → verdict of compare, outputs that differ, verdict of localize, culprits."""


def how_a_fault_shows(case: Case) -> str:
    """How a case's fault shows, measured without the tool; empty when it does not."""
    entry, values = MODELS[case.model], regime(case.regime)

    def fresh() -> Subject:
        return entry.build(values, case.seed, backward=case.backward)

    calls = 2 if case.kind == "call-2" else 1

    def on(which: Case) -> Results:
        subject = fresh()
        with entry.surroundings(), planted(which) as backend:
            made = backend.as_backend(fallback=False) if hasattr(backend, "as_backend") else backend
            with compiled(subject, made) as call:
                return results_of(subject, call, backward=case.backward, calls=calls)

    wide = in_float64(fresh())
    exact = results_of(wide, wide.call, backward=case.backward, calls=calls)
    if case.backend.startswith("stick"):  # its own format is no fault: a healthy device is what it is measured by
        held_as = torch.float16 if case.backend == "stick16" else torch.float32
        return how_it_shows(on(case.without_fault), exact, on(case), held_as=held_as)
    eager = fresh()
    return how_it_shows(
        results_of(eager, eager.call, backward=case.backward, calls=calls),
        exact,
        on(case),
        structure=case.kind in _STRUCTURE,
    )


def ask_the_tool(case: Case, subject: Subject, backend: Any) -> tuple[str, tuple[str, ...], str, tuple[Blame, ...]]:
    """What our own harness says."""
    harness = KernelDiffHarness(
        subject.call,
        subject.inputs,
        test_backend=backend,
        backward=case.backward,
        repeats=case.repeats,
    )
    compared = harness.compare().record
    outputs = tuple(
        f"{each.path}: {each.verdict}, {each.reason}"
        for each in compared.outputs
        if each.verdict not in {"match", "rounding"}
    )
    found = harness.localize()
    blamed = tuple(
        Blame(
            culprit.op,
            Path(culprit.source.file).name if culprit.source else "",
            culprit.source.line if culprit.source else 0,
            culprit.graph,
            culprit.reason,
        )
        for culprit in found.culprits
    )
    return compared.verdict, (*outputs, *compared.notes), getattr(found, "verdict", ""), blamed


def try_case(case: Case, tool: Tool = ask_the_tool) -> Outcome:
    """Plant the fault, see that it shows, and ask the tool; what the tool raises is its answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shows = "" if case.is_clean else how_a_fault_shows(case)
        if not case.is_clean and not shows:
            return Outcome(case.id)
        entry = MODELS[case.model]
        subject = entry.build(regime(case.regime), case.seed, backward=case.backward)
        started = time.process_time()
        try:
            with entry.surroundings(), planted(case) as backend:
                verdict, outputs, localized, blamed = tool(case, subject, backend)
        except Exception as error:  # whatever the tool raises
            return Outcome(case.id, shows, seconds=time.process_time() - started, error=error_line(error))
        finally:
            torch.compiler.reset()
        return Outcome(case.id, shows, verdict, localized, blamed, outputs, time.process_time() - started)


# As a child process: ids of cases in, one a line; one line of JSON out for each ---------------------------------------


def main() -> None:
    """Answer until there is nothing more to read; what a library prints goes to stderr."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            outcome = try_case(parse_case(line))
        except Exception as error:  # the zoo's own mistake: told as such, and the others go on
            outcome = Outcome(line.strip(), error=f"the zoo: {error_line(error)}", shows="?")
        answers.write(msgspec.json.encode(outcome).decode() + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
