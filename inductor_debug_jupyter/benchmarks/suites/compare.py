"""``compare``: how fast two tensors are compared, from 1e4 to 1e9 elements, beside torch and numpy in one run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from inductor_debug_jupyter.benchmarks.arguments import whole_number, whole_numbers
from inductor_debug_jupyter.benchmarks.progress import Progress
from inductor_debug_jupyter.benchmarks.table import print_line, print_table

if TYPE_CHECKING:
    from inductor_debug_jupyter.benchmarks.comparing import SizeResult

SUMMARY = "compare_tensors beside reading both once, assert_close, allclose and numpy, 1e4 to 1e9 elements, with memory"

_SIZES = tuple(10**power for power in range(4, 10))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    sizes = ",".join(map(str, _SIZES))
    parser.add_argument(
        "--sizes", default=sizes, metavar="N,N", help="numbers of elements; default 10000 to 1000000000"
    )
    parser.add_argument("--rounds", default="5", metavar="N", help="the best of so many counts; default 5")


def run(args: argparse.Namespace) -> int:
    """Print a row for each contender and size, and the goals; 1 when one that holds on any machine is missed."""
    sizes = whole_numbers(args.sizes, "--sizes", 1)
    rounds = whole_number(args.rounds, "--rounds", 1)
    from inductor_debug_jupyter.benchmarks.comparing import first_call_seconds, measure
    from inductor_debug_jupyter.pipeline.diff.native import LIBRARY

    first, later = first_call_seconds()
    if LIBRARY.why_not:
        print_line(f"without the native library: {LIBRARY.why_not}")
    print_line(f"First call in this process, 1e6 elements: {first * 1e3:.1f} ms; a later one: {later * 1e3:.1f} ms")
    results = []
    with Progress(len(sizes)) as progress:
        for size in sizes:
            progress.step(f"{size:,} elements")
            results.append(measure(size, rounds if size < 10**9 else 2))
    columns = ("Elements", "What", "Seconds", "GB/s", "Of reading", "Extra MB")
    print_table(columns, [row for result in results for row in _rows(result)], right=columns[2:])
    missed = [line for result in results for line in _goals(result)]
    for line in missed:
        print_line(f"✗ {line}")
    if not missed:
        print_line("✓ every goal is met")
    return int(bool(missed))


def _rows(result: SizeResult) -> list[tuple[str, ...]]:
    if result.skipped:
        return [(f"{result.elements:.0e}", f"skipped: {result.skipped}", "", "", "", "")]
    from inductor_debug_jupyter.benchmarks.comparing import READ

    read = result.seconds(READ)
    return [
        (f"{result.elements:.0e}", f"{each.name}: {each.why_not}", "", "", "", "")
        if each.why_not
        else (
            f"{result.elements:.0e}",
            each.name,
            f"{each.seconds:.2e}",
            f"{8 * result.elements / each.seconds / 1e9:.2f}",
            f"{read / each.seconds:.0%}",
            "" if each.extra is None else f"{each.extra / 2**20:.1f}",
        )
        for each in result.measured
    ]


def _goals(result: SizeResult) -> list[str]:
    from inductor_debug_jupyter.benchmarks.comparing import CLOSE, OURS, PORTABLE, READ

    if result.skipped:
        return []
    size, missed = f"{result.elements:.0e}", []
    ours, portable, close = (result.seconds(name) or float("inf") for name in (OURS, PORTABLE, CLOSE))
    if result.elements >= 10**6:
        missed += [f"{size}: {name} is slower than assert_close" for name, took in
                   ((OURS, ours), (PORTABLE, portable)) if took > close]  # fmt: skip
        extra = next(each.extra for each in result.measured if each.name == OURS)
        if extra is not None and extra > 64 << 20:
            missed.append(f"{size}: {extra / 2**20:.0f} MB extra, 64 are allowed")
    if result.elements <= 10**4:
        missed += [f"{size}: {name} takes more than 3 × assert_close" for name, took in
                   ((OURS, ours), (PORTABLE, portable)) if took > 3 * close]  # fmt: skip
    if result.elements == 10**8 and ours > result.seconds(READ) / 0.4:
        missed.append(f"{size}: {result.seconds(READ) / ours:.0%} of the speed of reading, 40% is the goal")
    return missed
