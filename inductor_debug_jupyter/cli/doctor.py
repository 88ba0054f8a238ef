"""``inductor-debug doctor``: what will not work on this machine with this torch, and why."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from dataclasses import asdict

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.cli.doctor_checks import Check, all_checks, bad_folder_setting
from inductor_debug_jupyter.cli.terminal import print_json, print_table
from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.options import add_options

SUMMARY = "check torch, every hook, the C++ compiler, caches, Jupyter and the artifact folder"
EXAMPLES = """\
  inductor-debug doctor                 # all of it; compiles a tiny model and a tiny C++ file (half a minute)
  inductor-debug doctor --quick         # look only
  inductor-debug doctor --format json   # for a bug report or for CI; exit code 1 when something essential is broken
"""

_log = logging.getLogger(__name__)
_STYLES = {"ok": "green", "warning": "yellow", "broken": "bold red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--quick", action="store_true", help="compile nothing: only look whether things are there")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default table")
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Print the checks; 1 when something essential is broken."""
    checks: list[Check] = []
    try:
        store = chosen_store(args)
    except OptionError as error:
        store = None
        checks.append(bad_folder_setting(error))
    for check in all_checks(store, quick=args.quick):
        _log.debug("%s: %s", check.name, check.state)
        checks.append(check)
    counts: Counter[str] = Counter(check.state for check in checks)
    if args.format == "json":
        print_json({"broken": counts["broken"], "checks": [asdict(check) for check in checks]})
    else:
        _print(checks, counts, quiet=args.quiet)
    return 1 if counts["broken"] else 0


def _print(checks: list[Check], counts: Counter[str], *, quiet: bool) -> None:
    """Print all checks, or with ``quiet`` those that are not ok."""
    shown = [check for check in checks if not quiet or check.state != "ok"]
    if shown:
        print_table(
            ("check", "state", "what was found"), [row for check in shown for row in _rows(check)], styles=_STYLES
        )
    if quiet:
        return
    bad = [f"{counts[state]} {state}" for state in ("broken", "warning") if counts[state]]
    print(f"\n{words.count(len(checks), 'check')}: {', '.join(bad) if bad else 'everything works'}.")


def _rows(check: Check) -> list[tuple[str, str, str]]:
    rows = [(check.name, str(check.state), check.found)]
    return [*rows, ("", "", f"→ {check.consequence}")] if check.consequence else rows
