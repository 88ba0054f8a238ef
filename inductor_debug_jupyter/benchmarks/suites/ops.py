"""``ops``: PyTorch's own operator database through ``mock_backend`` and the stick simulator, compared with eager."""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inductor_debug_jupyter.benchmarks.arguments import one_of, whole_number
from inductor_debug_jupyter.benchmarks.progress import Progress
from inductor_debug_jupyter.benchmarks.table import print_line, print_table
from inductor_debug_jupyter.pipeline.errors import OptionError

if TYPE_CHECKING:
    from inductor_debug_jupyter.benchmarks.operators import OperatorResult

SUMMARY = "torch's operator database (CPU, float32) through mock_backend and the simulator, compared with eager"

_ARTIFACTS = "INDUCTOR_DEBUG_ARTIFACTS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--samples", default="2", metavar="N|all", help="how many samples an op; default 2")
    parser.add_argument(
        "--shard", default="1/1", metavar="I/N", help="the I-th of N equal parts of the ops; default 1/1"
    )
    parser.add_argument("--only", action="append", metavar="OP", help="only ops of this name; may be repeated")
    parser.add_argument("--format", default="table", metavar="table|json", help="default table")


def run(args: argparse.Namespace) -> int:
    """Try every op of the shard, print the counts; 1 when a result is unequal."""
    limit = None if args.samples == "all" else whole_number(args.samples, "--samples", 1)
    part, parts = _shard(args.shard)
    form = one_of(args.format, "--format", ("table", "json"))
    from inductor_debug_jupyter.benchmarks.operators import BACKENDS, try_operator
    from inductor_debug_jupyter.pipeline.torch_compat.operators import operators

    chosen = operators()[part - 1 :: parts]
    if args.only:
        chosen = [each for each in chosen if each.name in args.only or each.name.split(".")[0] in args.only]
    if not chosen:
        named = ", ".join(args.only or ())
        raise OptionError(f"--only: {named!r} is not allowed; allowed: names of op_db in this shard, such as addmm")
    with _quiet(), Progress(len(chosen)) as progress:
        results = []
        for operator in chosen:
            progress.step(operator.name)
            results.append(try_operator(operator, limit))
    if form == "json":
        print_line(json.dumps([_row(result) for result in results], indent=1))
    else:
        _print_counts(results)
    return int(any(result.outcome(backend) == "unequal" for result in results for backend in BACKENDS))


def _shard(text: str) -> tuple[int, int]:
    part, slash, parts = text.partition("/")
    if not slash or not part.isdecimal() or not parts.isdecimal() or not 1 <= int(part) <= int(parts):
        raise OptionError(f"--shard: {text!r} is not allowed; allowed: I/N with I from 1 to N, such as 2/8")
    return int(part), int(parts)


def _row(result: OperatorResult) -> dict[str, object]:
    return {
        "op": result.name,
        "not_eager": result.not_eager,
        **{
            backend: [{"outcome": each.outcome, "reason": each.reason} for each in verdicts]
            for backend, verdicts in result.verdicts.items()
        },
    }


def _print_counts(results: Sequence[OperatorResult]) -> None:
    from inductor_debug_jupyter.benchmarks.operators import BACKENDS, tally

    columns = ("Backend", "Counted", "Tried", "Equal", "Refused", "Unequal", "Undefined by contract")
    rows: list[tuple[str, ...]] = []
    for backend in BACKENDS:
        for what, counts in zip(("ops", "samples"), tally(results, backend), strict=True):
            tried = sum(number for outcome, number in counts.items() if outcome != "not run")
            found = (counts[outcome] for outcome in ("equal", "refused", "unequal", "undefined"))
            rows.append((backend, what, str(tried), *map(str, found)))
    print_table(columns, rows, right=columns[2:])
    undefined = [result.name for result in results if result.outcome(BACKENDS[0]) == "undefined"]
    if undefined:
        print_line(f"Undefined by contract, so only shapes and dtypes are compared: {', '.join(undefined)}")
    if broken := [result.name for result in results if result.not_eager]:
        print_line(f"Samples that eager mode itself does not run, and so not tried: {', '.join(broken)}")
    for outcome in ("refused", "unequal"):
        for backend in BACKENDS:
            for result in results:
                if reason := result.first(backend, outcome):
                    some = sum(verdict.outcome == outcome for verdict in result.verdicts[backend])
                    of = len(result.verdicts[backend])
                    print_line(f"{outcome} by {backend}: {result.name} ({some} of {of} samples): {reason}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Nobody wants thousands of findings and deprecations; artifacts go to a folder that is removed."""
    before = os.environ.get(_ARTIFACTS)
    with tempfile.TemporaryDirectory(prefix="inductor-debug-ops-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        os.environ[_ARTIFACTS] = folder
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
            os.environ.pop(_ARTIFACTS)
            if before is not None:
                os.environ[_ARTIFACTS] = before
