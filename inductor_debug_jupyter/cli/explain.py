"""``inductor-debug explain RULE``: what a rule means, why hardware has it, ways out, an example."""

from __future__ import annotations

import argparse

from inductor_debug_jupyter.cli.terminal import print_markdown, print_table
from inductor_debug_jupyter.pipeline.documentation import explain, pages

SUMMARY = "explain a rule: what it means, why hardware has it, ways out, an example; without one, list the rules"
EXAMPLES = """\
  inductor-debug explain                    # the rules
  inductor-debug explain align.innermost    # one of them
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("rule", nargs="?", metavar="RULE", help="a rule's id, such as align.innermost")


def run(args: argparse.Namespace) -> int:
    """Print the page, or the list of rules."""
    if args.rule is None:
        titles = ((page.name, page.title.partition(": ")[2]) for page in pages("rules").values())
        print_table(("rule", "meaning"), titles)
    else:
        print_markdown(explain(args.rule).text)
    return 0
