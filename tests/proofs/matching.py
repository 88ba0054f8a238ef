"""``matching``: how long it takes to match the nodes of two programs, one of which has an op more in every hundred.

Two gates; the exit code is 1 when one fails: 10,000 nodes take less than 2 s of CPU time, and a node of the largest
program takes at most twice as long as one of the smallest (linear time). All new ops are found, and nothing else.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from inductor_debug_jupyter.benchmarks.command_line import whole_numbers
from inductor_debug_jupyter.benchmarks.printing import print_line, print_table
from inductor_debug_jupyter.pipeline.comparing.matching import Program, match
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, TensorSpec

_SIZES = (1_000, 10_000, 100_000)
_OPS = ("linear", "gelu", "mul", "add", "norm")
_EVERY = 100
MOST_SECONDS = 2.0
MOST_GROWTH = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    sizes = ",".join(map(str, _SIZES))
    parser.add_argument("--sizes", default=sizes, metavar="N,N", help=f"numbers of nodes; default {sizes}")


def run(args: argparse.Namespace) -> int:
    """Print a row for each size, and the goals; 1 when one is missed."""
    results = [measure(size) for size in whole_numbers(args.sizes, "--sizes", 1)]
    rows = [(f"{each.nodes:,}", f"{each.seconds:.3f}", f"{each.each * 1e6:.1f}", str(each.new)) for each in results]
    print_table(("Nodes", "CPU s", "µs a node", "New ops found"), rows, right=("Nodes", "CPU s", "µs a node"))
    missed = goals(results)
    for line in missed or ["every goal is met"]:
        print_line(f"{'✗' if missed else '✓'} {line}")
    return int(bool(missed))


@dataclass(frozen=True)
class Matched:
    """One size."""

    nodes: int
    seconds: float
    new: int
    wrong: int

    @property
    def each(self) -> float:
        """Seconds a node."""
        return self.seconds / self.nodes


def measure(size: int) -> Matched:
    """The best of three."""
    before, after = Program([_graph(size)]), Program([_graph(size, _EVERY)])
    seconds = float("inf")
    for _ in range(3):
        started = time.process_time()
        found = match(before, after)
        seconds = min(seconds, time.process_time() - started)
    new = [after.nodes[at].target for at, mate in enumerate(found.before) if mate < 0]
    return Matched(size, seconds, new.count("tanh"), len(new) - new.count("tanh") + found.after.count(-1))


def goals(results: list[Matched]) -> list[str]:
    """The goals that are missed."""
    missed = [
        f"{each.nodes:,} nodes take {each.seconds:.2f} s, {MOST_SECONDS:g} are allowed"
        for each in results
        if each.nodes <= 10_000 and each.seconds > MOST_SECONDS
    ]
    growth = max(each.each for each in results) / results[0].each
    if growth > MOST_GROWTH:
        missed.append(f"a node takes {growth:.1f} times as long in a larger program")
    for each in results:
        if each.wrong or each.new != each.nodes // _EVERY:
            missed.append(f"{each.nodes:,} nodes: {each.new} new ops found, {each.wrong} others")
    return missed


def _graph(size: int, every: int = 0) -> GraphRecord:
    """Ops in blocks of ten, most of which read the one before; ``every`` so many nodes one more op is put in."""
    spec = (TensorSpec((8, 64), "float32", itemsize=4),)
    nodes = [NodeRecord("x", "placeholder", "x", outputs=spec, role="input")]
    for number in range(size):
        inputs = [nodes[-1].name] + ([nodes[-3].name] if number % 3 == 2 and number > 2 else [])
        module = f"layers.{number // 10}"
        op = _OPS[number % len(_OPS)]
        nodes.append(NodeRecord(f"{op}_{len(nodes)}", "call_function", op, tuple(inputs), spec, module))
        if every and number % every == every - 2:
            read = (nodes[-1].name,)
            nodes.append(NodeRecord(f"tanh_{len(nodes)}", "call_function", "tanh", read, spec, module))
    nodes.append(NodeRecord("output", "output", "output", (nodes[-1].name,)))
    return GraphRecord("forward", tuple(nodes))
