"""Every option, declared once.

The command line, the magics, the environment and the config file all read :data:`OPTIONS`. An option knows how to
parse its own text, so a bad value gets the same sentence wherever it came from.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from inductor_debug_jupyter.pipeline.errors import OptionError

LOWERINGS = ("dynamo", "aot", "inductor")

_SIZE_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{suffix}": base ** (power + 1)
    for power, prefix in enumerate("KMGT")
    for suffix, base in (("B", 1000), ("iB", 1024), ("", 1024))
}


def parse_switch(text: str) -> bool:
    """``1``/``0``, ``true``/``false``, ``yes``/``no``, ``on``/``off``."""
    word = text.strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"0", "false", "no", "off"}:
        return False
    raise ValueError("allowed: 1 or 0 (also true/false, yes/no, on/off)")


def parse_alignment(text: str) -> int:
    """A whole number from 1 up."""
    try:
        value = int(text.strip())
    except ValueError:
        value = 0
    if value < 1:
        raise ValueError("allowed: a whole number from 1 up, such as 64")
    return value


def parse_size(text: str) -> int:
    """Bytes, as a number or with a unit: ``4096``, ``512KiB``, ``1GiB``, ``2GB``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    units = {unit.lower(): factor for unit, factor in _SIZE_UNITS.items()}
    if match is None or match[2].lower() not in units or (size := int(float(match[1]) * units[match[2].lower()])) < 1:
        raise ValueError("allowed: bytes from 1 up, such as 4096, 512KiB, 1GiB or 2GB")
    return size


def parse_seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(text.strip())
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError("allowed: a number of seconds above 0, such as 60")
    return value


def parse_names(text: str) -> tuple[str, ...]:
    """Names, separated by commas."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("allowed: one or more names, separated by commas")
    return names


def parse_name(text: str) -> str:
    """A name of something registered elsewhere, such as a torch.compile backend."""
    if not text.replace("_", "").replace("-", "").isalnum():
        raise ValueError("allowed: a name, such as eager, aot_eager or inductor")
    return text


def parse_variable(text: str) -> str:
    """The name of a Python variable."""
    if not text.isidentifier():
        raise ValueError("allowed: the name of a Python variable, such as session")
    return text


def parse_lowering(text: str) -> str:
    """How far to lower: ``dynamo``, ``aot`` or ``inductor``."""
    if text not in LOWERINGS:
        raise ValueError(f"allowed: {', '.join(LOWERINGS)}")
    return text


def parse_transfers(text: str) -> str:
    """Whether transfers go to the log: off (empty), ``lines``, or ``values`` for the first values too."""
    if text.strip().lower() == "values":
        return "values"
    try:
        return "lines" if parse_switch(text) else ""
    except ValueError:
        raise ValueError("allowed: 1 or 0, or values to see the first values too") from None


@dataclass(frozen=True)
class Option:
    """One option.

    Args:
        name: its Python name; the flag is ``--name`` with dashes.
        help: one line, shown by ``--help`` and by ``%%inductor_debug?``.
        parse: text → value; raises ValueError with a sentence that says what is allowed.
        default: the value when nobody says anything.
        metavar: what stands for the value in the help; empty for a switch.
        environment: the variable that sets it, if any.
        off_flag: for a switch, the flag that turns it off (``--warn`` for ``--strict``).
        bare: what the flag means when it is given without a value; None when it must have one.
    """

    name: str
    help: str
    parse: Callable[[str], Any] = str
    default: Any = None
    metavar: str = ""
    environment: str | None = None
    off_flag: str | None = None
    bare: str | None = None

    @property
    def flag(self) -> str:
        """The flag on a command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def is_switch(self) -> bool:
        """Whether the option is given without a value."""
        return not self.metavar

    def read(self, text: str, origin: str) -> Any:
        """Parse ``text``; ``origin`` (a flag, a variable, a file and line) is named when it is bad."""
        try:
            return self.parse(text)
        except ValueError as error:
            raise OptionError(f"{origin}: {text!r} is not allowed; {error}") from None


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option(
            "strict",
            "an error from the target's rules is an error of the cell",
            parse_switch,
            default=False,
            environment="MOCK_STRICT",
            off_flag="--warn",
        ),
        Option(
            "target",
            "the device to check against: a built-in profile's name or a TOML file",
            default="default",
            metavar="NAME|FILE",
            environment="INDUCTOR_DEBUG_TARGET",
        ),
        Option(
            "alignment",
            "sizes must be multiples of N, except those that an op treats as batch",
            parse_alignment,
            metavar="N",
            environment="MOCK_ALIGNMENT",
        ),
        Option(
            "max_memory",
            "limit for each tensor and for the peak",
            parse_size,
            metavar="SIZE",
            environment="MOCK_MAX_MEMORY",
        ),
        Option("dtypes", "the only dtypes that the target takes", parse_names, metavar="DTYPE,…"),
        Option("deny", "ops that the target does not have, such as aten.convolution", parse_names, metavar="OP,…"),
        Option(
            "lower",
            "how far to lower plain (not compiled) models: dynamo, aot or inductor",
            parse_lowering,
            default="inductor",
            metavar="STAGE",
            environment="INDUCTOR_DEBUG_LOWER",
        ),
        Option(
            "diff",
            "run the cell's model again, compiled, and compare its outputs with REFERENCE's (eager when not said)",
            parse_name,
            metavar="REFERENCE",
            bare="eager",
        ),
        Option("backward", "with --diff: compare gradients too"),
        Option("isolate", "with --diff: compile and run in a process of its own: a crash or a hang is survived"),
        Option(
            "timeout",
            "with --diff: give up after so many seconds (with --isolate: for each step of the backend)",
            parse_seconds,
            metavar="SECONDS",
        ),
        Option("as", "bind the DebugSession to this variable", parse_variable, metavar="NAME"),
        Option("no_panel", "show no panel and print nothing"),
        Option("quiet", "show the panel but no progress and no notes"),
        Option(
            "artifacts",
            "the folder for sessions, graphs and repros",
            default="debug_artifacts",
            metavar="DIR",
            environment="INDUCTOR_DEBUG_ARTIFACTS",
        ),
        Option(
            "transfers",
            "log each transfer between host and device and each kernel's spec: 1, or values for the first values too",
            parse_transfers,
            metavar="1|values",
            environment="INDUCTOR_DEBUG_TRANSFERS",
        ),
        Option(
            "faults",
            "what the stick128 simulator does wrong, such as copy-first-stick or crash:aten.mm",
            parse_names,
            metavar="FAULT,…",
            environment="INDUCTOR_DEBUG_FAULTS",
        ),
    )
}

CHECK_OPTIONS = ("strict", "target", "alignment", "max_memory", "dtypes", "deny")
MAGIC_OPTIONS = (
    *CHECK_OPTIONS,
    "lower",
    "diff",
    "backward",
    "isolate",
    "timeout",
    "as",
    "artifacts",
    "no_panel",
    "quiet",
)


class OptionParser(argparse.ArgumentParser):
    """argparse that raises :class:`OptionError` instead of leaving the process, and suggests the nearest flag."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing and exiting."""
        if unknown := re.match(r"unrecognized arguments: (\S+)", message):
            raise OptionError(self._unknown(unknown[1]))
        raise OptionError(message)

    def _unknown(self, argument: str) -> str:
        flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        name = argument.split("=")[0]
        near = difflib.get_close_matches(name, flags, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(flags)}"
        return f"unknown option {name!r}; {hint}"


def add_options(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add the named options to an argparse parser. What the user does not say is absent from the namespace."""
    for name in names:
        option = OPTIONS[name]
        if option.is_switch:
            parser.add_argument(
                option.flag, dest=name, action="store_const", const="1", default=argparse.SUPPRESS, help=option.help
            )
            if option.off_flag:
                parser.add_argument(
                    option.off_flag,
                    dest=name,
                    action="store_const",
                    const="0",
                    default=argparse.SUPPRESS,
                    help=f"the opposite of {option.flag} (the default)",
                )
        else:
            optional: dict[str, Any] = {} if option.bare is None else {"nargs": "?", "const": option.bare}
            parser.add_argument(
                option.flag,
                dest=name,
                metavar=option.metavar,
                default=argparse.SUPPRESS,
                help=_help(option),
                **optional,
            )


def _help(option: Option) -> str:
    parts = [option.help]
    if option.default is not None:
        parts.append(f"default {option.default}")
    if option.environment:
        parts.append(f"environment {option.environment}")
    return "; ".join(parts).replace("%", "%%")


def read_given(namespace: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """The parsed values of those options that the user really gave."""
    given = vars(namespace)
    values: dict[str, Any] = {}
    for name in names:
        if name in given:
            option = OPTIONS[name]
            values[name] = parse_switch(given[name]) if option.is_switch else option.read(given[name], option.flag)
    return values


def magic_parser() -> OptionParser:
    """The parser behind ``%%inductor_debug`` and ``%inductor_debug``."""
    parser = OptionParser(prog="%%inductor_debug", add_help=False, allow_abbrev=False)
    add_options(parser, MAGIC_OPTIONS)
    return parser


def parse_magic_line(line: str) -> dict[str, Any]:
    """The options on a magic's line, as values.

    Raises:
        OptionError: one line that names the option, the value, and what is allowed.
    """
    return read_given(magic_parser().parse_args(_split(line)), MAGIC_OPTIONS)


def _split(line: str) -> Sequence[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise OptionError(f"cannot read the options {line!r}: {str(error).lower()}") from None
