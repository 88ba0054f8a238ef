"""``inductor-debug config``: every setting, its value, and where that came from."""

from __future__ import annotations

import argparse
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.cli.terminal import print_json, print_table
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.harmless import one_line
from inductor_debug_jupyter.pipeline.options import OPTIONS, Option, add_options, read_given
from inductor_debug_jupyter.pipeline.settings import find_config, resolve, unknown_variables

SUMMARY = "show every setting, its value, and where it came from (call > environment > config file > default)"
EXAMPLES = """\
  inductor-debug config                                   # what holds in this folder
  MOCK_ALIGNMENT=64 inductor-debug config --format json   # with a variable; for a script
"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Line:
    """One setting in force, or the problem with it."""

    option: Option
    value: Any
    origin: str
    problem: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default table")
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Print the settings, and then the problems with them."""
    given = read_given(args, ["artifacts"])
    lines = [_line(option, given) for option in OPTIONS.values()]
    config = find_config(Path.cwd())
    if args.format == "json":
        print_json(_data(lines, config))
    else:
        _print(lines, config, quiet=args.quiet)
    for sentence in unknown_variables():
        _log.warning("%s", sentence)
    if problems := list(dict.fromkeys(line.problem for line in lines if line.problem)):
        for problem in problems[:-1]:
            _log.error("%s", problem)
        raise OptionError(problems[-1])
    return 0


def _line(option: Option, given: dict[str, Any]) -> Line:
    """Resolve one option alone, so that a bad value does not hide the others."""
    try:
        setting = resolve(given, names=[option.name]).values[option.name]
    except OptionError as error:
        return Line(option, None, "", str(error))
    return Line(option, setting.value, setting.origin)


def _value_text(line: Line) -> str:
    if line.problem:
        return "not allowed"
    if line.value is None:
        return ""
    if isinstance(line.value, bool):
        return "on" if line.value else "off"
    return ",".join(line.value) if isinstance(line.value, tuple) else str(line.value)


def _origin_text(line: Line) -> str:
    """The origin; a problem's message begins with it."""
    return line.problem.split(": ")[0] or line.origin


def _print(lines: list[Line], config: Path | None, *, quiet: bool) -> None:
    print_table(
        ("setting", "value", "from", "variable"),
        [(line.option.name, _value_text(line), _origin_text(line), line.option.environment) for line in lines],
        styles={"not allowed": "red", "default": "dim"},
    )
    if quiet:
        return
    where = f"Config file: {one_line(str(config))}" if config else "No config file here or in a folder above"
    print(f"\n{where}. strict is on by default for mock_backend and aot_mock_backend.")


def _data(lines: list[Line], config: Path | None) -> dict[str, Any]:
    return {
        "config_file": None if config is None else str(config),
        "settings": {
            line.option.name: {
                "value": line.value,
                "origin": line.origin,
                "flag": line.option.flag,
                "environment": line.option.environment,
                "problem": line.problem or None,
            }
            for line in lines
        },
        "unknown_variables": list(unknown_variables()),
    }
