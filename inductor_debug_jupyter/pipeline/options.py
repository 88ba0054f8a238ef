"""Every option, declared once.

The command line, the magics, the environment and the config file all read :data:`OPTIONS`. An option knows how to
parse its own text, so a bad value gets the same sentence wherever it came from.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, NoReturn

from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.harmless import quoted

_SWITCH_WORDS = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(("0", "false", "no", "off"), False)

LEAST_PROCESS_MEMORY = 512 * 1024**2
"""Torch and its compiler need some 350 MB before the first tensor."""

NUMERICS = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
"""The formats that a candidate's device may be said to compute in."""

ON_DEMAND = "on-demand"
LOWERINGS = ("dynamo", "aot", "inductor", ON_DEMAND)

_SIZE_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{suffix}": base ** (power + 1)
    for power, prefix in enumerate("KMGT")
    for suffix, base in (("B", 1000), ("iB", 1024), ("", 1024))
}


def parse_switch(text: str) -> bool:
    """``1``/``0``, ``true``/``false``, ``yes``/``no``, ``on``/``off``."""
    word = text.strip().lower()
    if word not in _SWITCH_WORDS:
        raise ValueError("allowed: 1 or 0 (also true/false, yes/no, on/off)")
    return _SWITCH_WORDS[word]


def parse_size(text: str) -> int:
    """Bytes, as a number or with a unit: ``4096``, ``512KiB``, ``1GiB``, ``2GB``."""
    match = re.fullmatch(r"\s*(\d{1,30}(?:\.\d{1,30})?)\s*([A-Za-z]*)\s*", text)
    units = {unit.lower(): factor for unit, factor in _SIZE_UNITS.items()}
    if match is None or match[2].lower() not in units or (size := int(float(match[1]) * units[match[2].lower()])) < 1:
        raise ValueError("allowed: bytes from 1 up, such as 4096, 512KiB, 1GiB or 2GB")
    return size


def parse_limit(text: str) -> int:
    """Bytes written like any size, or 0 for no limit."""
    if re.fullmatch(r"\s*0\s*", text):
        return 0
    try:
        return parse_size(text)
    except ValueError:
        raise ValueError("allowed: bytes, such as 500MiB or 2GiB, or 0 for no limit") from None


def parse_names(text: str) -> tuple[str, ...]:
    """Names, separated by commas."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("allowed: one or more names, separated by commas")
    return names


GATES: dict[str, str] = {
    **dict.fromkeys(("pcc", "cosine", "sqnr"), "at least"),
    **dict.fromkeys(("max_error", "rmse", "ulp"), "at most"),
}
"""A figure of a comparison that can be required, and on which side of the limit it has to be."""


def read_gate(text: str) -> tuple[str, float]:
    """One gate, ``sqnr=40dB``, as the figure's name and the limit.

    Raises:
        ValueError: there is no such figure, or its limit is no number.
    """
    name, _, value = (part.strip().lower() for part in text.partition("="))
    if name not in GATES:
        near = difflib.get_close_matches(name, GATES, n=1)
        missing = f"there is no gate {quoted(name)}"
        raise ValueError(f"{missing}; did you mean {near[0]}?" if near else f"allowed: {', '.join(GATES)}; {missing}")
    number = value.removesuffix("db").strip() if name == "sqnr" else value
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", number):
        raise ValueError(f"{name} needs a number; allowed: gates such as pcc=0.99,sqnr=40dB")
    return name, float(number)


def parse_gates(text: str) -> tuple[str, ...]:
    """Figures that are required of every output: ``pcc=0.99,sqnr=40dB``."""
    gates = tuple(filter(None, map(str.strip, text.split(","))))
    if not gates:
        raise ValueError("allowed: gates such as pcc=0.99,sqnr=40dB, of " + ", ".join(GATES))
    for gate in gates:
        read_gate(gate)
    return gates


def parse_folder(text: str) -> str:
    """A folder, which need not exist yet; ``~`` is the user's own."""
    if not text.strip() or "\0" in text:
        raise ValueError("allowed: the path of a folder, such as debug_artifacts or ~/captures")
    try:
        return str(Path(text).expanduser())
    except RuntimeError:  # ~name of a user that does not exist
        raise ValueError("allowed: the path of a folder; there is no such user here") from None


def parse_transfers(text: str) -> str:
    """Whether transfers go to the log: off (empty), ``lines``, or ``values`` for the first values too."""
    if text.strip().lower() in ("lines", "values"):
        return text.strip().lower()
    try:
        return "lines" if parse_switch(text) else ""
    except ValueError:
        raise ValueError("allowed: 1 or 0, or values to see the first values too") from None


def _text(is_allowed: Callable[[str], Any], allowed: str) -> Callable[[str], str]:
    """A parser of texts that ``is_allowed`` accepts."""

    def parse(text: str) -> str:
        if not is_allowed(text):
            raise ValueError(f"allowed: {allowed}")
        return text

    return parse


def _number(kind: Callable[[str], Any], is_allowed: Callable[[Any], bool], allowed: str) -> Callable[[str], Any]:
    """A parser of numbers that ``kind`` reads and ``is_allowed`` accepts."""

    def parse(text: str) -> Any:
        try:
            value = kind(text.strip())
        except ValueError:
            value = None
        if value is None or not is_allowed(value):
            raise ValueError(f"allowed: {allowed}")
        return value

    return parse


parse_alignment = _number(int, lambda value: value >= 1, "a whole number from 1 up, such as 64")
parse_seconds = _number(float, lambda value: 0 < value < float("inf"), "a number of seconds above 0, such as 60")
parse_tolerance = _number(float, lambda value: 0 <= value < float("inf"), "a number that is not negative, such as 1e-3")
parse_process_memory = _number(
    parse_size,
    lambda value: value >= LEAST_PROCESS_MEMORY,
    "bytes from 512MiB up (torch itself needs most), such as 4GiB",
)
parse_name = _text(
    lambda text: text.replace("_", "").replace("-", "").isalnum(), "a name, such as eager, aot_eager or inductor"
)
parse_backend = _text(
    re.compile(r"[\w-]+(\.[\w-]+)*(:\w+(\.\w+)*)?").fullmatch,
    "a name, such as inductor or stick128, or MODULE:ATTRIBUTE",
)
parse_target = _text(  # whether the profile exists is checked by devices
    lambda text: text.strip() and "\0" not in text, "the name of a built-in profile, such as default, or a TOML file"
)
parse_numerics = _text(NUMERICS.__contains__, ", ".join(NUMERICS))
parse_calls = _text(
    re.compile(r"first|last|all|[1-9][0-9]{0,5}").fullmatch, "first, last, all or a whole number above 0"
)
parse_variable = _text(str.isidentifier, "the name of a Python variable, such as session")
parse_lowering = _text(LOWERINGS.__contains__, ", ".join(LOWERINGS))


_TAKES: dict[Callable[[str], Any], tuple[type, ...]] = {
    **dict.fromkeys((parse_switch, parse_transfers), (bool, int)),
    **dict.fromkeys((parse_alignment, parse_size, parse_process_memory, parse_limit, parse_calls), (int,)),
    **dict.fromkeys((parse_seconds, parse_tolerance), (int, float)),
    **dict.fromkeys((parse_names, parse_gates), (list, tuple)),
    **dict.fromkeys((parse_folder, parse_target), (PurePath,)),
}
"""Parser → the types besides text that a config file or a call may give."""
_MOCK = ("strict", "alignment", "max_memory")
"""The options whose variables are called as in the original tool."""


@dataclass(frozen=True)
class Option:
    """One option.

    Args:
        name: its Python name; the flag is ``--name`` with dashes.
        help: one line, shown by ``--help`` and by ``%%inductor_debug?``.
        parse: text → value; raises ValueError with a sentence that says what is allowed.
        default: the value when it is not set.
        metavar: the value's placeholder in the help; empty for a switch.
        off_flag: for a switch, the flag that turns it off (``--warn`` for ``--strict``).
        bare: what the flag means when it is given without a value; None when it must have one.
        needs: the option without which it does nothing; on one line they come together.
    """

    name: str
    help: str
    parse: Callable[[str], Any]
    default: Any = None
    metavar: str = ""
    off_flag: str | None = None
    bare: str | None = None
    needs: str = ""

    @property
    def environment(self) -> str:
        """The variable that sets it."""
        return f"{'MOCK' if self.name in _MOCK else 'INDUCTOR_DEBUG'}_{self.name.upper()}"

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
        if self.bare is not None and text.strip().lower() in _SWITCH_WORDS:
            return self.accept(parse_switch(text), origin)  # INDUCTOR_DEBUG_DIFF=1
        try:
            return self.parse(text)
        except ValueError as error:
            raise OptionError(f"{origin}: {quoted(text)} is not allowed; {error}") from None

    def accept(self, value: Any, origin: str) -> Any:
        """Check a value that has a type already: from a config file, or from a call."""
        if isinstance(value, bool) and self.bare is not None:
            return self.parse(self.bare) if value else None
        if isinstance(value, str):
            return self.read(value, origin)
        # In Python True is a number, but `alignment = true` is a mistake.
        takes = _TAKES.get(self.parse, ())
        fits = isinstance(value, takes) and (bool in takes or not isinstance(value, bool))
        if not fits or (isinstance(value, list | tuple) and not all(isinstance(each, str) for each in value)):
            raise OptionError(f"{origin}: {quoted(value)} is not allowed; {self._allowed()}")
        if isinstance(value, list | tuple):
            return self.read(",".join(value), origin)
        return self.read(str(int(value) if isinstance(value, bool) else value), origin)

    def _allowed(self) -> str:
        """The parser's message for an empty text, which says what is allowed."""
        try:
            self.parse("")
        except ValueError as error:
            return str(error)
        raise AssertionError(f"the parser of {self.flag} takes an empty text")


def _switch(name: str, explained: str, needs: str = "") -> Option:
    """A switch that is off by default."""
    return Option(name, explained, parse_switch, default=False, needs=needs)


def _tolerance(name: str, kind: str) -> Option:
    """A tolerance of ``--diff``."""
    explained = f"with --diff: the {kind} tolerance; that of torch.testing for the dtype when not said"
    return Option(name, explained, parse_tolerance, metavar="NUMBER", needs="diff")


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option(
            "strict",
            "an error from the target's rules is an error of the cell",
            parse_switch,
            default=False,
            off_flag="--warn",
        ),
        Option(
            "target",
            "the device to check against: a built-in profile's name or a TOML file",
            parse_target,
            default="default",
            metavar="NAME|FILE",
        ),
        Option(
            "alignment",
            "sizes must be multiples of N, except those that an op treats as batch",
            parse_alignment,
            metavar="N",
        ),
        Option("max_memory", "limit for each tensor and for the peak", parse_size, metavar="SIZE"),
        Option("dtypes", "the only dtypes that the target takes", parse_names, metavar="DTYPE,…"),
        Option("deny", "ops that the target does not have, such as aten.convolution", parse_names, metavar="OP,…"),
        Option(
            "lower",
            "how far to lower plain (not compiled) models: dynamo, aot, inductor, or on-demand (inductor, once wanted)",
            parse_lowering,
            default=ON_DEMAND,
            metavar="STAGE",
        ),
        Option(
            "diff",
            "run the cell's model again, compiled, and compare its outputs with REFERENCE's (eager when not said)",
            parse_name,
            metavar="REFERENCE",
            bare="eager",
        ),
        Option(
            "candidate",
            "with --diff: what is compared with the reference: a torch.compile backend, an adapter or MODULE:ATTRIBUTE",
            parse_backend,
            default="inductor",
            metavar="NAME",
            needs="diff",
        ),
        _switch("backward", "with --diff: compare gradients too", "diff"),
        _tolerance("atol", "absolute"),
        _tolerance("rtol", "relative"),
        Option(
            "numerics",
            "with --diff: the format that the candidate computes in, where it does not say so: " + ", ".join(NUMERICS),
            parse_numerics,
            metavar="FORMAT",
            needs="diff",
        ),
        Option(
            "require",
            "with --diff: what every output must reach beside its verdict, of " + ", ".join(GATES),
            parse_gates,
            metavar="GATE=VALUE,…",
            needs="diff",
        ),
        _switch("tokens", "with --diff: compare logits as next tokens too: flips, divergence, perplexity", "diff"),
        Option(
            "calls",
            "with --diff: which calls of each model are compared: first, last, all, or a number for the first so many",
            parse_calls,
            default="first",
            metavar="all|N|last",
            needs="diff",
        ),
        _switch(
            "localize", "with --diff: when outputs differ, also search for the op, the kernel and the line", "diff"
        ),
        _switch(
            "isolate", "with --diff: compile and run in a process of its own: a crash or a hang is survived", "diff"
        ),
        _switch("profile", "time every kernel of the compiled model after the cell, beside eager mode: the Time tab"),
        Option(
            "timeout",
            "with --diff: give up after so many seconds (with --isolate: for each step of the backend)",
            parse_seconds,
            metavar="SECONDS",
            needs="diff",
        ),
        Option(
            "memory_limit",
            "with --isolate: how much memory the backend's process may have, torch included",
            parse_process_memory,
            metavar="SIZE",
            needs="isolate",
        ),
        Option("as", "bind the DebugSession to this variable", parse_variable, metavar="NAME"),
        Option("model", "capture only the model or function that this variable holds", parse_variable, metavar="NAME"),
        Option("no_panel", "show no panel and print nothing", parse_switch, default=False),
        Option("quiet", "show the panel but no progress and no notes", parse_switch, default=False),
        Option(
            "artifacts",
            "the folder for sessions, graphs and repros",
            parse_folder,
            default="debug_artifacts",
            metavar="DIR",
        ),
        Option(
            "artifacts_limit",
            "how large that folder may get: the oldest sessions go first, pinned and new ones stay; 0 for no limit",
            parse_limit,
            default=2 * 1024**3,
            metavar="SIZE",
        ),
        Option(
            "transfers",
            "log each transfer between host and device and each kernel's spec: 1, or values for the first values too",
            parse_transfers,
            metavar="1|values",
        ),
        Option(
            "native",
            "compare tensors with our own C++, compiled once in the background; 0 keeps to torch and numpy",
            parse_switch,
            default=True,
            off_flag="--no-native",
        ),
        Option(
            "faults",
            "what the stick128 simulator does wrong, such as copy-first-stick or crash:aten.mm",
            parse_names,
            metavar="FAULT,…",
        ),
    )
}


CHECK_OPTIONS = ("strict", "target", "alignment", "max_memory", "dtypes", "deny")
MAGIC_OPTIONS = (
    *CHECK_OPTIONS,
    *("lower", "diff", "candidate", "backward", "atol", "rtol", "numerics", "require", "localize"),
    *(
        "profile",
        "calls",
        "tokens",
        "isolate",
        "timeout",
        "memory_limit",
        "as",
        "model",
        "artifacts",
        "artifacts_limit",
        "transfers",
        "native",
    ),
    *("faults", "no_panel", "quiet"),
)


def whole_number(text: str, flag: str, least: int, or_else: str = "") -> int:
    """The value of a flag that is no setting: a whole number from ``least`` up.

    Raises:
        OptionError: it is something else; ``or_else`` names other words that are allowed.
    """
    if not re.fullmatch(r"[0-9]+", text.strip()) or int(text) < least:
        raise OptionError(f"{flag}: {text!r} is not allowed; allowed: a whole number from {least} up{or_else}")
    return int(text)


class OptionParser(argparse.ArgumentParser):
    """argparse that raises :class:`OptionError` instead of leaving the process, and suggests the nearest flag."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing and exiting."""
        if unknown := re.match(r"unrecognized arguments: (\S+)", message):
            raise OptionError(self._unknown(unknown[1]))
        if missing := re.match(r"argument (--[\w-]+): expected one argument", message):
            raise OptionError(f"{missing[1]}: its value is missing{self._allowed(missing[1])}")
        if switch := re.match(r"argument (--[\w-]+): ignored explicit argument", message):
            raise OptionError(f"{switch[1]} is a switch and takes no value: give it alone")
        raise OptionError(message)

    def _allowed(self, flag: str) -> str:
        """What a setting's flag takes, as the end of a sentence; nothing for a flag that is no setting."""
        option = next((each for each in OPTIONS.values() if each.flag == flag), None)
        try:
            if option is not None:
                option.parse("")
        except ValueError as error:
            return f"; {error}"
        return ""

    def _unknown(self, argument: str) -> str:
        flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        name = argument.split("=")[0]
        near = difflib.get_close_matches(name, flags, n=1, cutoff=0.65)
        hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(flags)}"
        if not name.startswith("-"):
            return f"{name!r} is no option: options begin with --, and code goes into the lines below"
        return f"unknown option {name!r}; {hint}"


def add_options(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add the named options to an argparse parser; an option that is not given is absent from the namespace.

    The help's ``with --diff: …`` is dropped where there is no ``--diff``.
    """
    names = tuple(names)
    for name in names:
        option = OPTIONS[name]
        condition = re.match(r"with --([a-z-]+): ", option.help)
        if condition is not None and condition[1].replace("-", "_") not in names:
            option = replace(option, help=option.help.removeprefix(condition[0]))
        common: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS}
        if option.is_switch:
            parser.add_argument(option.flag, action="store_const", const="1", help=option.help, **common)
            if option.off_flag:
                opposite = f"the opposite of {option.flag}{'' if option.default else ' (the default)'}"
                parser.add_argument(option.off_flag, action="store_const", const="0", help=opposite, **common)
        else:
            common |= {} if option.bare is None else {"nargs": "?", "const": option.bare}
            parser.add_argument(option.flag, metavar=option.metavar, help=_help(option), **common)


def _help(option: Option) -> str:
    parts = [option.help]
    if option.default is not None and not option.is_switch:
        parts.append(f"default {option.default}")
    parts.append(f"environment {option.environment}")
    return "; ".join(parts).replace("%", "%%")


def read_given(namespace: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """The parsed values of the options that the user gave."""
    given = vars(namespace)
    values: dict[str, Any] = {}
    for name in names:
        if name in given:
            option = OPTIONS[name]
            values[name] = option.read(given[name], option.flag)
    return values


def magic_parser() -> OptionParser:
    """The parser behind ``%%inductor_debug`` and ``%inductor_debug``."""
    parser = OptionParser(prog="%%inductor_debug", add_help=False, allow_abbrev=False)
    add_options(parser, MAGIC_OPTIONS)
    return parser


def check_needs(given: Mapping[str, Any], value_of: Callable[[str], Any]) -> None:
    """Refuse an option of a line that does nothing without another one, which is not in force.

    Raises:
        OptionError: one line that names both.
    """
    for name in given:
        option = OPTIONS[name]
        if option.needs and given[name] is not False and not value_of(option.needs):
            needed = OPTIONS[option.needs].flag
            raise OptionError(f"{option.flag} does nothing without {needed}: give {needed} as well")


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


_WORD = re.compile(r"""\s*("[^"]*"|'[^']*'|\S+)""")


def split_magic_line(line: str) -> tuple[str, str]:
    """The options at the beginning of a line, and the expression behind them: ``--strict model(x)``.

    An option with an optional value (``--diff``) takes the next word only if it is a valid value.
    """
    flags = {flag: option for option in OPTIONS.values() for flag in (option.flag, option.off_flag) if flag}
    position = 0
    while (word := _WORD.match(line, position)) and word[1].startswith("--"):
        position = word.end()
        option = flags.get(word[1])
        if option is None or option.is_switch:
            continue
        value = _WORD.match(line, position)
        if value and not value[1].startswith("--") and (option.bare is None or _is_value(option, value[1])):
            position = value.end()
    return line[:position].strip(), line[position:].strip()


def _is_value(option: Option, text: str) -> bool:
    try:
        option.parse(text)
    except ValueError:
        return False
    return True
