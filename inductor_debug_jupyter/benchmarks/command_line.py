"""``python -m PROGRAM SUITE …``: one module a suite, of which only the chosen one is imported.

The benchmarks of this package and the proofs of a checkout (``tests/proofs``) are such programs.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from inductor_debug_jupyter.pipeline.errors import InductorDebugError, OptionError
from inductor_debug_jupyter.pipeline.options import OptionParser, whole_number


class Suite(Protocol):
    """The module of a suite."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; answers with the exit code."""


def run_program(name: str, summaries: Mapping[str, str], package: str, argv: Sequence[str]) -> int:
    """Run a command line; answers with the exit code (0 good, 1 something failed, 2 not understood).

    Args:
        name: what stands behind ``python -m``.
        summaries: suite → one line for the help.
        package: where the suites' modules are.
        argv: the command line without the program.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        return _run(name, summaries, package, list(argv))
    except InductorDebugError as error:
        sys.stderr.write(f"{name}: {' '.join(str(error).split())}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted; what was finished is stored\n")
        return 130


def _run(name: str, summaries: Mapping[str, str], package: str, arguments: list[str]) -> int:
    chosen = next((each for each in arguments if not each.startswith("-")), None)
    if arguments[:1] == [chosen] and chosen not in summaries:
        raise OptionError(f"unknown suite {chosen!r}; allowed: {', '.join(summaries)}")
    parser = OptionParser(prog=f"python -m {name}", allow_abbrev=False)
    subparsers = parser.add_subparsers(dest="suite", metavar="SUITE", title="suites", parser_class=OptionParser)
    parsers = {
        each: subparsers.add_parser(each, help=summary, description=summary, allow_abbrev=False)
        for each, summary in summaries.items()
    }
    suite: Suite | None = None
    if chosen in parsers:
        suite = importlib.import_module(f"{package}.{chosen}")
        suite.add_arguments(parsers[chosen])
    try:
        args, rest = parser.parse_known_args(arguments)
    except SystemExit as leaving:  # --help has printed
        return int(leaving.code or 0)
    if suite is None:
        parser.print_help()
        return 0
    if rest:
        parsers[args.suite].error(f"unrecognized arguments: {rest[0]}")
    return suite.run(args)


# Arguments that several suites read, and the sentence for a bad one -------------------------------------------------


def whole_numbers(text: str, flag: str, least: int) -> list[int]:
    """Whole numbers, separated by commas; each once, in order."""
    return sorted({whole_number(part.strip(), flag, least) for part in text.split(",")})


def one_of(text: str, flag: str, allowed: Collection[str]) -> str:
    """One of a few words."""
    if text not in allowed:
        raise OptionError(f"{flag}: {text!r} is not allowed; allowed: {', '.join(allowed)}")
    return text


def some_of(text: str, flag: str, allowed: Collection[str]) -> list[str]:
    """Names, separated by commas, in the order in which they are allowed."""
    given = [one_of(part.strip(), flag, allowed) for part in text.split(",")]
    return [name for name in allowed if name in given]


def named(given: Sequence[str] | None, flag: str, allowed: Collection[str], default: Collection[str]) -> list[str]:
    """The values of an option that may be repeated, each once; ``default`` when it was not given."""
    return list(dict.fromkeys(one_of(name, flag, allowed) for name in given or default))
