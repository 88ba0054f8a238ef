"""``faults``: planted faults of every stage, found and reduced, beside torch's own tools.

Each case is captured, bisected and reduced through a session, as users do it, and its script runs where there is torch
and nothing of ours. Gates, with the exit code 1 when one fails: the rung, the op and the line are right, the script has
one op and shows the failure there, and nothing that was started is left running. It takes no
more evaluations than ``fx_minifier``, and a twentieth of the CPU of the official accuracy minifier.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inductor_debug_jupyter.benchmarks.command_line import some_of
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from tests.proofs.fault_cases import CASES, Case, Trial, bare_python, children, try_case
from tests.proofs.fault_peers import PeerResult, with_bisector, with_fx_minifier, with_official_minifier

SAMPLE = ("mlp/Dynamo/accuracy/tanh", "mlp/post-grad-pass/accuracy/tanh")
"""What the suite runs; tests of the rooms have crashes and backwards."""
_PEERS = ("fx_minifier", "bisector", "official")
_COLUMNS = ("Model", "Stage", "Kind", "Rung", "Blamed", "Ops", "Evaluations", "Bisect s", "Reduce s", "Alone", "Right")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases whose name has it; may be repeated")
    parser.add_argument("--sample", action="store_true", help="the few cases that the suite runs")
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
    cases = chosen_cases(args.only, sample=args.sample)
    peers = some_of(args.peers, "--peers", _PEERS) if args.peers else []
    if not cases:
        print_line(f"no case has it; there are: {', '.join(case.name for case in CASES)}")
        return 2
    problems: list[str] = []
    rows, others = [], []
    before = set(children())
    with tempfile.TemporaryDirectory() as folder, Progress(len(cases)) as progress, _quiet():
        python = bare_python(Path(folder) / "bare")
        for case in cases:
            progress.step(case.name)
            trial = try_case(case, python)
            rows.append(_row(trial))
            progress.remark(" · ".join(rows[-1]))
            compared = _peers_of(case, peers)
            others += [_peer_row(trial, each) for each in compared]
            problems += [f"{case.name}: {each}" for each in (*trial.problems, *_beaten(trial, compared))]
        problems += [f"left running: {each}" for each in children() if each not in before]
    print_table(_COLUMNS, rows, right=_COLUMNS[5:9])
    if others:
        print_table(("Case", "Tool", "Answer", "Evaluations", "CPU s", "Ours", "Ours s"), others)
    for problem in problems:
        print_line(f"✗ {problem}")
    if not problems:
        print_line(f"✓ {len(cases)} faults: the rung, the op and the line are right, and each script shows it alone")
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
        "✓" if trial.runs_bare else "–" if reduced is None else "✗",
        "✗" if trial.problems else "✓",
    )


def _peers_of(case: Case, peers: list[str]) -> list[PeerResult]:
    """The tools that can run a case: wrong numbers of a forward graph, the bisector of Inductor's own stages."""
    if case.kind != "accuracy" or case.backward or case.rung == "dynamo" or case.model == "gpt2-break":
        return []
    found = []
    for name, tool in (("fx_minifier", with_fx_minifier), ("bisector", with_bisector)):
        if name in peers and (name == "fx_minifier" or not case.vendor):
            with tempfile.TemporaryDirectory() as folder:
                found.append(tool(case, Path(folder)))
    if "official" in peers and case.flag:
        with tempfile.TemporaryDirectory() as folder:
            found.append(with_official_minifier(case, Path(folder)))
    return found


def _peer_row(trial: Trial, peer: PeerResult) -> tuple[str, ...]:
    reduced = trial.reduced
    evaluations = str(reduced.evaluations) if reduced else "–"
    spent = trial.cpu_bisect if peer.tool == "CompilerBisector" else trial.cpu_reduce
    return (
        trial.case.name,
        peer.tool,
        peer.answer,
        str(peer.evaluations),
        f"{peer.cpu:.1f}",
        evaluations,
        f"{spent:.1f}",
    )


def _beaten(trial: Trial, peers: list[PeerResult]) -> list[str]:
    """What a tool of torch's does with less than we do."""
    reduced = trial.reduced
    if reduced is None:
        return []
    found = []
    for peer in peers:
        if peer.tool == "fx_minifier" and peer.answer.endswith(" ops") and peer.evaluations < reduced.evaluations:
            found.append(f"fx_minifier takes {peer.evaluations} evaluations, ours {reduced.evaluations}")
        if peer.tool == "accuracy minifier" and peer.answer.endswith(" ops") and peer.cpu < 20 * trial.cpu_reduce:
            found.append(f"the accuracy minifier takes {peer.cpu:.0f} s of CPU, ours {trial.cpu_reduce:.0f}")
    return found
