"""``nodes``: how long a question about one node takes, the first and those after it.

Nodes are chosen at random, the same each time. "Traced anew" is the same question without anything kept: Dynamo traces
the call, and its graph runs from the start. Two gates; the exit code is 1 when one fails: both give the same bits, and
what is kept stays within the budget.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

from inductor_debug_jupyter.benchmarks.command_line import named
from inductor_debug_jupyter.benchmarks.models import MODEL_NAMES, Built, benchmark_model
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.nodes import NodeHandle, node_handle
from inductor_debug_jupyter.pipeline.nodes.traced_calls import contents_of
from inductor_debug_jupyter.pipeline.options import whole_number
from inductor_debug_jupyter.pipeline.session import DebugSession, capture
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind
from inductor_debug_jupyter.pipeline.words import size

_TWO_LAYERS = "bert-2l"
_ALLOWED = (_TWO_LAYERS, *MODEL_NAMES)
_STAGES = ("forward", "backward")
_ANEW = 2
"""So many questions are also asked without anything kept: they are slow."""
_COLUMNS = ("Model", "Graph", "Nodes", "Traced anew s", "First s", "Later s", "Slowest", "Kept")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--model",
        action="append",
        metavar="NAME",
        help=f"may be repeated: {', '.join(_ALLOWED)}; default {_TWO_LAYERS}",
    )
    parser.add_argument("--questions", default="10", metavar="N", help="questions about each graph; default 10")
    parser.add_argument("--small", action="store_true", help="tiny versions of the models, to try this out")


@dataclass
class _Asked:
    """The questions about one graph."""

    model: str
    stage: str
    nodes: int
    first: float = 0.0
    later: list[float] = field(default_factory=list)
    anew: list[float] = field(default_factory=list)
    kept: int = 0
    failures: list[str] = field(default_factory=list)

    def row(self) -> tuple[str, ...]:
        """Its line of the table."""
        return (
            self.model,
            self.stage,
            str(self.nodes),
            f"{statistics.median(self.anew):.2f}",
            f"{self.first:.2f}",
            f"{statistics.median(self.later):.3f}",
            f"{max(self.later):.3f}",
            size(self.kept),
        )


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 when an answer is another one than that traced anew, or too much is kept."""
    names = named(args.model, "--model", _ALLOWED, [_TWO_LAYERS])
    questions = whole_number(args.questions, "--questions", 2)
    asked: list[_Asked] = []
    with Progress(len(names)) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            progress.step(f"{name}: {questions} questions about each graph")
            asked += _ask(name, benchmark_model(name).build(args.small), questions)
    print_table(_COLUMNS, [each.row() for each in asked], right=_COLUMNS[2:])
    failures = [failure for each in asked for failure in each.failures]
    for line in failures:
        print_line(f"FAILED: {line}")
    if not failures:
        print_line("The same bits as traced anew, within the budget.")
    return int(bool(failures))


def _ask(name: str, built: Built, questions: int) -> list[_Asked]:
    with tempfile.TemporaryDirectory(prefix="inductor-debug-nodes-") as folder:
        with capture(eager=True, lower="aot", keep_inputs=True, artifacts=folder) as session:
            built.module(*built.inputs)
        return [_ask_about(name, stage, session, questions) for stage in _STAGES]


def _ask_about(model: str, stage: str, session: DebugSession, questions: int) -> _Asked:
    calls = [node.name for node in session.captures[0].graphs[stage].calls]
    chosen: Sequence[str] = random.Random(0).sample(calls, questions)
    asked = _Asked(model, stage, len(calls))
    seconds = []
    for node in chosen:
        seconds.append(_seconds(handle := session.node(node, stage)))
        if len(asked.anew) < _ANEW:
            again = node_handle(session.captures, session._calls.needed, node, stage)
            asked.anew.append(_seconds(again))
            if not _same(handle, again):
                asked.failures.append(f"{model} {stage} {node} is another value when traced anew")
        asked.kept = max(asked.kept, session.checkpoint_bytes)
    asked.first, *asked.later = seconds
    if asked.kept > session.checkpoint_budget:
        asked.failures.append(f"{model} {stage}: {asked.kept} bytes are kept, over {session.checkpoint_budget}")
    return asked


def _seconds(handle: NodeHandle) -> float:
    start = time.perf_counter()
    handle.values
    return time.perf_counter() - start


def _same(one: NodeHandle, other: NodeHandle) -> bool:
    both = [contents_of(of_kind(object, (each.inputs(), each.run()))) for each in (one, other)]
    return both[0] is not None and both[0] == both[1]
