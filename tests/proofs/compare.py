"""``compare``: how fast two tensors are compared, from 1e4 to 1e9 elements, and with how much extra memory.

All contenders are measured in one process on the same two tensors, in turn, each the best of several rounds; small
tensors have more rounds, because what the allocator and other processes do weighs more there. Reading both once (the
sum of each) is the limit. Extra memory is how far the resident size rises while a contender runs, sampled by a thread;
a resident page is counted whoever asked for it.
"""

from __future__ import annotations

import argparse
import threading
import time
import timeit
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy
import torch

from inductor_debug_jupyter.benchmarks.command_line import whole_numbers
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.diff import compare_tensors
from inductor_debug_jupyter.pipeline.diff.native import LIBRARY
from inductor_debug_jupyter.pipeline.options import whole_number

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
    """The goals that are missed."""
    if result.skipped:
        return []
    size, missed = f"{result.elements:.0e}", []
    close, ours = result.seconds(CLOSE) or float("inf"), result.seconds(OURS)
    slower = {OURS: ours / close, PORTABLE: result.seconds(PORTABLE) / close}
    if result.elements >= 10**6:
        missed += [f"{size}: {name} is slower than assert_close" for name, times in slower.items() if times > 1]
        extra = next(each.extra for each in result.measured if each.name == OURS) or 0
        if extra > 64 << 20:
            missed.append(f"{size}: {extra / 2**20:.0f} MB extra, 64 are allowed")
    if result.elements <= 10**4:
        missed += [f"{size}: {name} takes more than 3 × assert_close" for name, times in slower.items() if times > 3]
    if result.elements == 10**8 and ours > result.seconds(READ) / 0.4:
        missed.append(f"{size}: {result.seconds(READ) / ours:.0%} of the speed of reading, 40% is the goal")
    return missed


# Measuring ------------------------------------------------------------------------------------------------------------


READ: Final = "read both once"
OURS: Final = "compare_tensors"
PORTABLE: Final = "… without a compiler"
CLOSE: Final = "torch.testing.assert_close"
_FRUGAL: Final = (READ, OURS, PORTABLE)
"""Those that need no memory in proportion to the tensors."""
_SAMPLED_FROM: Final = 10**6
"""Below so many elements the extra memory is lost in the noise of the allocator."""


@dataclass
class Measured:
    """One contender on one size."""

    name: str
    seconds: float = 0.0
    extra: int | None = None
    why_not: str = ""


@dataclass
class SizeResult:
    """All contenders on one size; ``skipped`` says why there are none."""

    elements: int
    measured: list[Measured] = field(default_factory=list)
    skipped: str = ""

    def seconds(self, name: str) -> float:
        """How long a contender took."""
        return next(each.seconds for each in self.measured if each.name == name)


def contenders(one: torch.Tensor, other: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """Name → what to call."""

    def read() -> None:
        one.sum()
        other.sum()

    def with_numpy() -> tuple[Any, ...]:
        left, right = one.numpy(), other.numpy()
        error = numpy.abs(left - right)
        return error.max(), error.mean(), numpy.sqrt((error**2).mean()), numpy.allclose(left, right)

    return {
        READ: read,
        OURS: lambda: compare_tensors(one, other),
        PORTABLE: lambda: _without_library(one, other),
        CLOSE: lambda: torch.testing.assert_close(one, other),
        "torch.allclose": lambda: torch.allclose(one, other),
        "numpy, four figures": with_numpy,
    }


def _without_library(one: torch.Tensor, other: torch.Tensor) -> Any:
    with library_hidden():
        return compare_tensors(one, other)


@contextmanager
def library_hidden() -> Iterator[None]:
    """As on a machine without a C++ compiler, or before the library is there."""
    functions, LIBRARY._functions = LIBRARY._functions, {}
    try:
        yield
    finally:
        LIBRARY._functions = functions


def measure(elements: int, rounds: int) -> SizeResult:
    """Every contender on two float32 tensors of that size that differ by rounding."""
    both, free = 8 * elements, _available()
    if free is not None and both * 1.1 > free:
        return SizeResult(elements, skipped=f"needs {both / 2**30:.0f} GiB, {free / 2**30:.1f} GiB are free")
    generator = torch.Generator().manual_seed(0)
    one = torch.randn(elements, generator=generator)
    other = one.mul(1 + 1e-7)
    result = SizeResult(elements)
    calls = contenders(one, other)
    best: dict[str, Measured] = {}
    if free is not None and both * 3 > free:  # the others make copies
        reason = f"not measured: with its copies about {both * 3 / 2**30:.0f} GiB, {free / 2**30:.1f} GiB are free"
        best = {name: Measured(name, why_not=reason) for name in calls if name not in _FRUGAL}
        calls = {name: call for name, call in calls.items() if name in _FRUGAL}
    best |= _timed(calls, elements, rounds)
    if elements >= _SAMPLED_FROM:
        for name, call in calls.items():
            best[name].extra = _extra_memory(call)
    result.measured = list(best.values())
    return result


def _timed(calls: Mapping[str, Callable[[], object]], elements: int, rounds: int) -> dict[str, Measured]:
    """The shortest call of each contender, in turn: a busy moment of the machine hits all of them."""
    repeats = max(1, min(50, 1_000_000 // elements))
    best = {name: Measured(name, float("inf")) for name in calls}
    for name, call in [*calls.items()] * (rounds * (8 if elements < 10**7 else 1)):
        best[name].seconds = min(best[name].seconds, *timeit.repeat(call, number=1, repeat=repeats))
    return best


def first_call_seconds(elements: int = 10**6) -> tuple[float, float]:
    """The first call in this process, library being made or loaded beside it, and a later one."""
    one = torch.randn(elements)
    times = []
    for _ in range(2):
        started = time.perf_counter()
        compare_tensors(one, one + 1e-7)
        times.append(time.perf_counter() - started)
        LIBRARY.wait()
    return times[0], times[1]


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _extra_memory(call: Callable[[], Any]) -> int | None:
    """How far the resident size rises while it runs."""
    if not Path("/proc/self/statm").exists():
        return None
    before, most, done = _resident(), [0], threading.Event()

    def sample() -> None:
        while not done.wait(0.0005):
            most[0] = max(most[0], _resident())

    thread = threading.Thread(target=sample)
    thread.start()
    call()
    done.set()
    thread.join()
    return max(0, most[0] - before)
