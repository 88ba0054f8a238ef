"""``faults``: planted faults of every stage, found and reduced, beside torch's own tools.

Each case is captured, bisected and reduced through a session, as users do it, and its script runs where there is torch
and nothing of ours. Gates, with the exit code 1 when one fails: the rung, the op and the line are right, the script has
one op and shows the failure there, and nothing that was started is left running. A reduction takes no more evaluations
than ``fx_minifier``, and at most a tenth of the CPU of the official accuracy minifier. ``--searches`` are reductions
of one large graph by a test alone (:mod:`fault_searches`).
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from inductor_debug_jupyter.benchmarks.command_line import some_of
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.words import size
from tests.proofs.fault_cases import CASES, Case, Trial, bare_python, nothing_left, try_case
from tests.proofs.fault_peers import PeerResult, ours_alone, with_bisector, with_fx_minifier, with_official_minifier
from tests.proofs.fault_searches import run_searches

SAMPLE = ("mlp/Dynamo/accuracy/tanh", "mlp/post-grad-pass/accuracy/tanh")
"""What the suite runs; tests of the rooms have crashes and backwards."""
_PEERS = ("fx_minifier", "bisector", "official")
_COLUMNS = (
    *("Model", "Stage", "Kind", "Rung", "Blamed", "Ops", "Evaluations"),
    *("Bisect, CPU s", "Reduce, CPU s", "Peak", "Alone", "Right"),
)
_CHEAPER = 10
"""So many times less CPU than the official accuracy minifier."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases whose name has it; may be repeated")
    parser.add_argument("--sample", action="store_true", help="the few cases that the suite runs")
    parser.add_argument(
        "--searches", action="store_true", help="only the reductions by a test alone, of one large graph"
    )
    parser.add_argument("--peers", default="", metavar="A,B", help=f"torch's tools too: {', '.join(_PEERS)}")


def chosen_cases(only: list[str] | None, *, sample: bool) -> list[Case]:
    """The cases that were asked for."""
    cases = [case for case in CASES if not sample or case.name in SAMPLE]
    return [case for case in cases if not only or any(text in case.name for text in only)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Only errors of ours are logged, and no warnings shown."""
    log = logging.getLogger("inductor_debug_jupyter")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def run(args: argparse.Namespace) -> int:
    """Print the tables as they come; 1 when something is not right."""
    if args.searches:
        return _finished(run_searches(), "each search ends with the fewest ops, or says why there is nothing to reduce")
    cases = chosen_cases(args.only, sample=args.sample)
    peers = some_of(args.peers, "--peers", _PEERS) if args.peers else []
    if not cases:
        print_line(f"no case has it; there are: {', '.join(case.name for case in CASES)}")
        return 2
    problems: list[str] = []
    rows, others = [], []
    with tempfile.TemporaryDirectory() as folder, Progress(len(cases)) as progress, _quiet():
        python = bare_python(Path(folder) / "bare")
        with nothing_left(problems):
            for case in cases:
                progress.step(case.name)
                trial = try_case(case, python)
                rows.append(_row(trial))
                progress.remark(" · ".join(rows[-1]))
                compared = []
                for peer in _peers_of(case, peers):
                    compared.append(peer)
                    others.append(_peer_row(trial, peer))
                    progress.remark(" · ".join(others[-1]))
                problems += [f"{case.name}: {each}" for each in (*trial.problems, *_beaten(trial, compared))]
    print_table(_COLUMNS, rows, right=_COLUMNS[5:10])
    if others:
        print_table(_PEER_COLUMNS, others, right=_PEER_COLUMNS[3:])
    return _finished(
        problems, f"{len(cases)} faults: the rung, the op and the line are right, and each script shows it alone"
    )


def _finished(problems: list[str], otherwise: str) -> int:
    for problem in problems:
        print_line(f"✗ {problem}")
    if not problems:
        print_line(f"✓ {otherwise}")
    return int(bool(problems))


def _row(trial: Trial) -> tuple[str, ...]:
    reduced = trial.reduced
    return (
        trial.case.model,
        trial.case.stage,
        trial.case.kind,
        trial.rung or "–",
        ", ".join(trial.ops_blamed) or "–",
        str(reduced.ops) if reduced else "–",
        str(reduced.evaluations) if reduced else "–",
        f"{trial.cpu_bisect:.1f}",
        f"{trial.cpu_reduce:.1f}",
        size(trial.peak_bytes),
        "✓" if trial.runs_bare else "–" if reduced is None else "✗",
        "✗" if trial.problems else "✓",
    )


def _peers_of(case: Case, peers: list[str]) -> Iterator[PeerResult]:
    """What the tools make of a case that they can run: one of a forward graph that neither crashes nor hangs.

    A fault of Dynamo's is in the graph already that they are given; the bisector knows Inductor's stages alone.
    """
    if case.kind not in {"accuracy", "compile error"} or case.backward or case.rung == "dynamo":
        return
    tools: list[Callable[[Case, Path], PeerResult]] = []
    if "fx_minifier" in peers:
        tools.append(with_fx_minifier)
    if "bisector" in peers and not case.vendor:
        tools.append(with_bisector)
    if "official" in peers and case.flag:
        tools += [with_official_minifier, ours_alone]
    for tool in tools:
        with tempfile.TemporaryDirectory() as folder:
            yield tool(case, Path(folder))


_PEER_COLUMNS = ("Case", "Tool", "Answer", "Evaluations", "CPU s", "Ours, evaluations", "Ours, CPU s")


def _peer_row(trial: Trial, peer: PeerResult) -> tuple[str, ...]:
    reduced = trial.reduced
    evaluations = str(reduced.evaluations) if reduced else "–"
    spent = trial.cpu_bisect if peer.tool == "CompilerBisector" else trial.cpu_reduce
    figures = (str(peer.evaluations), f"{peer.cpu:.1f}", evaluations, f"{spent:.1f}")
    return (trial.case.name, peer.tool, peer.answer, *figures)


def _beaten(trial: Trial, peers: list[PeerResult]) -> list[str]:
    """What a tool of torch's does with less than we do."""
    if trial.reduced is None:
        return []
    found, ours = [], trial.reduced.evaluations
    done = {peer.tool: peer for peer in peers if peer.ops is not None}
    if (fx := done.get("fx_minifier")) and fx.evaluations < ours:
        found.append(f"fx_minifier takes {fx.evaluations} evaluations, ours {ours}")
    official, alone = done.get("accuracy minifier"), done.get("ours, alone")
    if official and alone and (official.cpu < _CHEAPER * trial.cpu_reduce or (official.ops or 0) < (alone.ops or 0)):
        found.append(f"the accuracy minifier takes {official.cpu:.0f} s of CPU, ours {trial.cpu_reduce:.0f}")
    return found
