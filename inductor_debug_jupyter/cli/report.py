"""``inductor-debug report``: what was captured, as one file."""

from __future__ import annotations

import argparse
from pathlib import Path

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.options import add_options

SUMMARY = "write a report about the captured sessions and benchmarks: one HTML page, JSON, or Markdown for an issue"
EXAMPLES = """\
  inductor-debug report                                         # everything, as one HTML page
  inductor-debug report --format json --output report.json last  # one session
  inductor-debug report --format md last --output issue.md       # to be pasted into an issue
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "sessions", nargs="*", metavar="SESSION", help="only these: ids, their beginnings, or last; all by default"
    )
    parser.add_argument("--format", choices=("html", "json", "md"), default="html", help="default html")
    parser.add_argument("--output", metavar="FILE", help="write this file; default: reports/ in the artifact folder")
    parser.add_argument(
        "--output-dir", metavar="DIR", help="write debug_report_<time>.html, .json or .md in this folder"
    )
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Write the report and print where it is."""
    if args.output and args.output_dir:
        raise OptionError("--output and --output-dir: give one of them, not both")
    from inductor_debug_jupyter.pipeline.reports import collect, write_report
    from inductor_debug_jupyter.pipeline.reports.generator import report_name

    data = collect(chosen_store(args), args.sessions or None)
    output = Path(args.output_dir) / report_name(data, args.format) if args.output_dir else args.output
    print(write_report(data, args.format, output))
    return 0
