"""``inductor-debug schema``: the JSON Schema of a saved session, or of a report."""

from __future__ import annotations

import argparse
import json

SUMMARY = "print the JSON Schema of a saved session or of a report, for programs that read one"
EXAMPLES = """\
  inductor-debug schema > session.schema.json
  inductor-debug show last --format json > session.json   # what the schema describes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--of", choices=("session", "report"), default="session", help="default session")


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    from inductor_debug_jupyter.pipeline.records.schema import session_schema
    from inductor_debug_jupyter.pipeline.reports.json_report import report_schema

    print(json.dumps(report_schema() if args.of == "report" else session_schema(), indent=1))
    return 0
