"""``inductor-debug docs [TOPIC]``: the pages that are shipped with the package."""

from __future__ import annotations

import argparse

from inductor_debug_jupyter.cli.terminal import print_markdown, print_table
from inductor_debug_jupyter.pipeline.documentation import documentation, pages

SUMMARY = "show a page of the documentation that is shipped, of a topic or a rule; without one, list them"
EXAMPLES = """\
  inductor-debug docs                  # the topics, and the rules
  inductor-debug docs wrong-numbers    # one of them
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="a topic, such as wrong-numbers, or a rule's id")


def run(args: argparse.Namespace) -> int:
    """Print the page, or the list of pages."""
    if args.topic is None:
        listed = (*pages("topics").values(), *pages("rules").values())
        rows = ((page.name, page.kind.removesuffix("s"), page.title.partition(": ")[2]) for page in listed)
        print_table(("page", "kind", "about"), rows)
    else:
        print_markdown(documentation(args.topic).text)
    return 0
