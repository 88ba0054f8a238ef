"""``inductor-debug schema``: the JSON Schema of a saved session."""

from __future__ import annotations

import argparse
import json

SUMMARY = "print the JSON Schema of a saved session, for programs that read one"
EXAMPLES = """\
  inductor-debug schema > session.schema.json
  inductor-debug show last --format json > session.json   # what the schema describes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    from inductor_debug_jupyter.pipeline.records.schema import session_schema

    print(json.dumps(session_schema(), indent=1))
    return 0
