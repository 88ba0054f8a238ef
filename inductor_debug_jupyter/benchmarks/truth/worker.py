"""A child of the suite: reads ids of cases, one a line, and answers each with one line of JSON."""

from __future__ import annotations

import sys

import msgspec

from inductor_debug_jupyter.benchmarks.truth.cases import parse_case
from inductor_debug_jupyter.benchmarks.truth.trial import Outcome, try_case
from inductor_debug_jupyter.benchmarks.wording import error_line


def main() -> None:
    """Answer until there is nothing more to read; what a library prints goes to stderr."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            outcome = try_case(parse_case(line))
        except Exception as error:  # the zoo's own mistake: told as such, and the others go on
            outcome = Outcome(line.strip(), error=f"the zoo: {error_line(error)}", shows="?")
        answers.write(msgspec.json.encode(outcome).decode() + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
