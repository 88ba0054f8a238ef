"""``inductor-debug bug-report``: a saved session as a folder or zip for the people who fix the bug."""

from __future__ import annotations

import argparse
import sys

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.pipeline.harmless import encodable
from inductor_debug_jupyter.pipeline.options import add_options

SUMMARY = "write a bug report: script, error, environment, transfers, graph and code, bisection, and a text to paste"
EXAMPLES = """\
  inductor-debug bug-report                                 # of the last session; shows what goes in, and asks
  inductor-debug bug-report --output report.zip --no-include-source --no-include-weights
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("session", nargs="?", default="last", metavar="SESSION", help="an id or its beginning; last")
    parser.add_argument("--output", "-o", metavar="PATH", default="bug_report", help="a folder, or a .zip; bug_report")
    for name, what in (("source", "lines of your source"), ("weights", "values of your tensors in the script")):
        explained = f"let {what} into it; asked for in a terminal, and elsewhere left out, when not said"
        parser.add_argument(f"--include-{name}", action=argparse.BooleanOptionalAction, help=explained)
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Show what goes in, ask for what is the user's own, and write it."""
    from inductor_debug_jupyter.pipeline.reports.bug_report import bug_report
    from inductor_debug_jupyter.pipeline.torch_compat.environment import collected_environment

    store = chosen_store(args)
    record = store.load(store.find_session(args.session).id)
    environment = collected_environment()
    found = bug_report(record, environment=environment)
    print(found)
    held_back = " ".join(found.held_back)
    source = _included(args.include_source, "Let lines of your source in?", "source" in held_back)
    weights = _included(args.include_weights, "Let values of your tensors in?", "tensors" in held_back)
    written = bug_report(record, environment=environment, include_source=source, include_weights=weights)
    print(written.write(args.output))
    return 0


def _included(given: bool | None, question: str, held_back: bool) -> bool:
    """What the command line says, else what the user answers; without a terminal it stays out."""
    if given is not None or not held_back or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return bool(given)
    return input(encodable(f"{question} [y/N] ", sys.stdout.encoding)).strip().lower() in {"y", "yes"}
