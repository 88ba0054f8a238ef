"""``python -m inductor_debug_jupyter.benchmarks SUITE …``: reads the command, runs the suite, chooses the exit code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from inductor_debug_jupyter.benchmarks.suites import (
    Suite,
    capture,
    compare,
    devices,
    fixits,
    guards,
    localize,
    models,
    nodes,
    ops,
    panel,
    simulator,
    stages,
    truth,
)
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, OptionError
from inductor_debug_jupyter.pipeline.options import OptionParser

PROGRAM = "inductor_debug_jupyter.benchmarks"
SUITES: dict[str, Suite] = {
    "models": models,
    "capture": capture,
    "stages": stages,
    "devices": devices,
    "ops": ops,
    "simulator": simulator,
    "compare": compare,
    "localize": localize,
    "guards": guards,
    "panel": panel,
    "fixits": fixits,
    "nodes": nodes,
    "truth": truth,
}
"""Every suite. A new one is a module with ``SUMMARY``, ``add_arguments`` and ``run``, and a line here."""


def build_parsers() -> tuple[OptionParser, dict[str, OptionParser]]:
    """The parser of the whole command line, and those of its suites."""
    parser = OptionParser(prog=f"python -m {PROGRAM}", description=__doc__, allow_abbrev=False)
    subparsers = parser.add_subparsers(dest="suite", metavar="SUITE", title="suites", parser_class=OptionParser)
    parsers: dict[str, OptionParser] = {}
    for name, suite in SUITES.items():
        own = parsers[name] = subparsers.add_parser(
            name, help=suite.SUMMARY, description=suite.SUMMARY, allow_abbrev=False
        )
        suite.add_arguments(own)
    return parser, parsers


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; answers with the exit code (0 good, 1 something failed, 2 not understood)."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except InductorDebugError as error:
        sys.stderr.write(f"{PROGRAM}: {' '.join(str(error).split())}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write(f"{PROGRAM}: interrupted; what was finished is stored\n")
        return 130


def _run(arguments: list[str]) -> int:
    parser, parsers = build_parsers()
    if arguments and not arguments[0].startswith("-") and arguments[0] not in SUITES:
        raise OptionError(f"unknown suite {arguments[0]!r}; allowed: {', '.join(SUITES)}")
    try:
        args, rest = parser.parse_known_args(arguments)
    except SystemExit as leaving:  # --help has printed
        return int(leaving.code or 0)
    if args.suite is None:
        parser.print_help()
        return 0
    if rest:
        parsers[args.suite].error(f"unrecognized arguments: {rest[0]}")
    return SUITES[args.suite].run(args)


if __name__ == "__main__":
    sys.exit(main())
