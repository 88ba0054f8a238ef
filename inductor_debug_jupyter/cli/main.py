"""``inductor-debug``: reads the command and runs it; the only place that prints errors and chooses exit codes."""

from __future__ import annotations

import argparse
import difflib
import logging
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from inductor_debug_jupyter.cli import (
    analyze,
    bisect,
    bug_report,
    clean,
    compare,
    config,
    conformance,
    diff,
    docs,
    doctor,
    explain,
    history,
    list_sessions,
    minify,
    quickstart,
    report,
    schema,
    show,
    tour,
)
from inductor_debug_jupyter.cli.command import Command
from inductor_debug_jupyter.cli.terminal import logs_on_stderr
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, OptionError
from inductor_debug_jupyter.pipeline.harmless import harmless_output
from inductor_debug_jupyter.pipeline.options import OptionParser
from inductor_debug_jupyter.version import __version__

PROGRAM = "inductor-debug"

COMMANDS: dict[str, Command] = {
    "quickstart": quickstart,
    "tour": tour,
    "list": list_sessions,
    "show": show,
    "analyze": analyze,
    "report": report,
    "compare": compare,
    "history": history,
    "diff": diff,
    "bisect": bisect,
    "minify": minify,
    "bug-report": bug_report,
    "conformance": conformance,
    "clean": clean,
    "config": config,
    "explain": explain,
    "docs": docs,
    "doctor": doctor,
    "schema": schema,
}
"""Every subcommand. A new one is a module that fits :class:`Command`, and a line here."""

EXIT_CODES = """\
exit codes:
  0    done
  1    it failed: a cell, a comparison, a rung of a bisect, a check of doctor or conformance, a record, our own error
  2    the command, an option or a setting was not understood
  3    nothing with that name or id was captured
  4    the artifact folder or its index cannot be read or written
  130  interrupted
"""


class CommandParser(OptionParser):
    """The options' parser, which also suggests the nearest subcommand."""

    def error(self, message: str) -> NoReturn:
        """Raise one line instead of printing the usage and leaving."""
        if unknown := re.match(r"argument COMMAND: invalid choice: '([^']*)'", message):
            near = difflib.get_close_matches(unknown[1], COMMANDS, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(COMMANDS)}"
            raise OptionError(f"unknown command {unknown[1]!r}; {hint}")
        super().error(message)


def build_parsers() -> tuple[CommandParser, dict[str, CommandParser]]:
    """Build the parser of the whole command line, and those of its subcommands."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = CommandParser(
        prog=PROGRAM,
        description="See what torch.compile made of your model and what your accelerator would refuse.",
        epilog=EXIT_CODES,
        formatter_class=raw,
        allow_abbrev=False,
    )
    _add_verbosity(parser)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=CommandParser)
    parsers: dict[str, CommandParser] = {}
    for name, command in COMMANDS.items():
        own = subparsers.add_parser(
            name,
            help=command.SUMMARY,
            description=command.SUMMARY,
            epilog=f"examples:\n{command.EXAMPLES}\n{EXIT_CODES}",
            formatter_class=raw,
            allow_abbrev=False,
        )
        command.add_arguments(own)
        _add_verbosity(own)
        parsers[name] = own
    return parser, parsers


def _add_verbosity(parser: argparse.ArgumentParser) -> None:
    """``-v`` and ``-q``, allowed before and behind the command; an absent one must not undo the other place."""
    verbosity = parser.add_mutually_exclusive_group()
    for flags, explained in (
        (("-v", "--verbose"), "log what happens, and show where an error arose"),
        (("-q", "--quiet"), "no warnings and no remarks, only what was asked for; errors are still told"),
    ):
        verbosity.add_argument(*flags, action="store_true", default=argparse.SUPPRESS, help=explained)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    with harmless_output():
        return _main(list(sys.argv[1:] if argv is None else argv))


def _main(arguments: Sequence[str]) -> int:
    verbose = "--verbose" in arguments or "-v" in arguments
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except InductorDebugError as error:
        return _fail(str(error), error.exit_code, verbose=verbose)
    except KeyboardInterrupt:
        return _fail("interrupted", 130, verbose=False)
    except BrokenPipeError:
        # The reader of our output has closed it; Python would raise again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # the last resort: one line, and the place with --verbose
        message = f"unexpected {type(error).__name__}: {error}; run it again with --verbose for the place"
        return _fail(message, 1, verbose=verbose)
    return code


def _run(arguments: Sequence[str]) -> int:
    parser, parsers = build_parsers()
    try:
        args, rest = parser.parse_known_args(arguments)
    except SystemExit as leaving:  # --help and --version have printed
        return int(leaving.code or 0)
    if args.command is None:
        if rest:
            parser.error(f"unrecognized arguments: {rest[0]}")
        parser.print_help()
        return 0
    if rest and not rest[0].startswith("-"):
        raise OptionError(f"unexpected argument {rest[0]!r}; see {PROGRAM} {args.command} --help")
    if rest:
        parsers[args.command].error(f"unrecognized arguments: {rest[0]}")
    args.verbose, args.quiet = getattr(args, "verbose", False), getattr(args, "quiet", False)
    level = logging.DEBUG if args.verbose else logging.ERROR if args.quiet else logging.WARNING
    with logs_on_stderr(PROGRAM, level):
        return COMMANDS[args.command].run(args)


def _fail(message: str, code: int, *, verbose: bool) -> int:
    if verbose:
        traceback.print_exc()
    print(f"{PROGRAM}: {' '.join(message.splitlines())}", file=sys.stderr)
    return code
