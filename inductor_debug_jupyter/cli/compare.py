"""``inductor-debug compare RUN RUN``: what changed between two runs; with ``--fail-on`` a gate for CI."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.cli.history import print_figures
from inductor_debug_jupyter.pipeline.comparing import RunComparison, ci_formats, compare_runs, compare_stages
from inductor_debug_jupyter.pipeline.comparing.gates import GateResult, check, read_gates
from inductor_debug_jupyter.pipeline.comparing.graph_pairs import stage_pair
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.options import add_options
from inductor_debug_jupyter.pipeline.reading import LARGEST_RECORD, read_regular
from inductor_debug_jupyter.pipeline.records import SessionRecord, load_session
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from inductor_debug_jupyter.pipeline.store.files import explained, write_whole

SUMMARY = "say what changed between two runs, or between two stages of one"
EXAMPLES = """\
  inductor-debug compare before.json after.json                        # two saved sessions
  inductor-debug compare 20261116-08 last                              # two sessions of the artifact folder
  inductor-debug compare a.json b.json --fail-on new-break,kernels+10% # exit code 1 when one of them happened
  inductor-debug compare a.json b.json --fail-on any --format junit --output compare.xml
  inductor-debug compare a.json b.json --format html --output ab.html  # with both graphs side by side
  inductor-debug compare a.json b.json c.json                          # a table of figures
  inductor-debug compare last --stages forward,post_grad               # what Inductor's passes did
"""
FORMATS = ("text", "json", "html", "junit", "sarif")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="a saved session's file, or a session's id, its beginning, or last"
    )
    parser.add_argument("--stages", metavar="A,B", help="compare two stages of one run, such as forward,post_grad")
    parser.add_argument("--compile", metavar="ID", default="", help="with --stages: the compile, such as 0/0")
    parser.add_argument(
        "--fail-on",
        metavar="WHAT",
        default="",
        help="exit with 1 on these: any, new-break, new-fallback, error-grew, … or kernels+10%%; commas between them",
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="default text")
    parser.add_argument("--output", metavar="FILE", help="write this file instead of printing")
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Print the comparison; 1 when a gate fails."""
    gates = read_gates(args.fail_on)
    store = chosen_store(args)
    if args.stages:
        return _stages(args, store)
    if len(args.runs) > 2 and not gates and not args.output and args.format in ("text", "json"):
        print_figures([load_run(store, name) for name in args.runs], args.format)
        return 0
    if len(args.runs) != 2:
        more = "with --stages A,B it takes one; more are a table, printed as text or json, without --fail-on"
        raise OptionError(f"compare takes two runs, not {len(args.runs)}; {more}")
    before, after = (load_run(store, name) for name in args.runs)
    comparison = compare_runs(before, after)
    results = check(comparison, gates)
    failed = [f"{result.gate.text}: {why}" for result in results for why in result.failures]
    _write(_rendered(comparison, (before, after), results, args.format), args)
    if args.format == "text" and failed:
        print("\nFailed:", *failed, sep="\n  ")
    return 1 if failed else 0


def load_run(store: ArtifactStore, name: str) -> SessionRecord:
    """The session in that file, or of that id in the artifact folder.

    Raises:
        NotFoundError: there is neither.
    """
    path = Path(name)
    if path.suffix == ".json" or path.is_file():
        with explained("read", path):
            return load_session(read_regular(path, LARGEST_RECORD))
    return store.load(name)


def _stages(args: argparse.Namespace, store: ArtifactStore) -> int:
    names = [name.strip() for name in args.stages.split(",")]
    if len(names) != 2 or len(args.runs) != 1 or args.fail_on or args.format not in ("text", "json", "html"):
        raise OptionError("--stages A,B: give two stages, one run, no --fail-on, and --format text, json or html")
    record = load_run(store, args.runs[0])
    found = compare_stages(record.captures, names[0], names[1], args.compile)
    text = str(found)
    if args.format == "json":
        text = json.dumps(msgspec.to_builtins(found), indent=2)
    elif args.format == "html":
        from inductor_debug_jupyter.pipeline.reports.comparison_page import stages_page

        capture = next(each for each in record.captures if each.compile_id == found.before[0])
        text = stages_page(stage_pair(capture, names[0], names[1]), record)
    _write(text, args)
    return 0


def _rendered(
    comparison: RunComparison, runs: tuple[SessionRecord, SessionRecord], results: Sequence[GateResult], form: str
) -> str:
    if form == "html":
        from inductor_debug_jupyter.pipeline.reports.comparison_page import comparison_page

        return comparison_page(comparison, runs, results)
    if form == "junit":
        return ci_formats.junit(comparison, results)
    if form == "text":
        return str(comparison)
    data = comparison.to_dict() if form == "json" else ci_formats.sarif(comparison, results)
    return json.dumps(data, indent=2) + "\n"


def _write(text: str, args: argparse.Namespace) -> None:
    if args.output is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        write_whole(Path(args.output), text.encode("utf-8", "backslashreplace"))
        print(Path(args.output).absolute())
