"""Make foreign text safe to print: no escape sequences, no bidirectional overrides, no lone surrogates.

Names, reasons and code come from users' programs and from files that others wrote. Before such text reaches a terminal,
every character that could steer it (escape sequences and other controls, also the 8-bit ones), reverse the reading
order (bidirectional overrides) or not be encoded at all (lone surrogates) becomes U+FFFD. Python's own
``str.isprintable`` decides. Where that happens: :class:`Harmless` for ``str`` and ``repr``, the base of our errors for
their messages, :func:`harmless_record` for our logs, :class:`Screen` for whatever a command prints.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final, TextIO, cast

UNPRINTABLE: Final = "\ufffd"

_ASCII: Final[dict[str, str]] = {
    "✗": "x", "✓": "+", "⚠": "!", "ℹ": "i", "…": "...", "·": "-", "×": "x", "→": "->", "←": "<-", "▸": ">",
    "▾": "v", "–": "-", "µ": "u", "≤": "<=", "≥": ">=",
}  # fmt: skip
"""Our own signs → ASCII, for encodings without them."""
_NOT_PLAIN_ASCII: Final = re.compile(r"[^\x00-\x7e]")


def plain(text: str) -> str:
    """``text`` in one line, with everything that could move a cursor or reverse the reading order made visible."""
    expanded = text.expandtabs(4)
    if expanded.isprintable():
        return expanded
    return "".join(char if char.isprintable() else UNPRINTABLE for char in expanded)


def one_line(text: str) -> str:
    """A text of any number of lines as one plain line."""
    return plain(" ".join(text.split()))


def plain_lines(text: str) -> str:
    """Like :func:`plain`, of a text with several lines; tabs stay."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else UNPRINTABLE for char in text)


def encodable(text: str, encoding: str | None) -> str:
    """``text`` with what ``encoding`` lacks replaced: our own signs by ASCII ones, everything else by ``?``."""
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        ours = "".join(_ASCII.get(char, char) if not char.isascii() else char for char in text)
        return ours.encode(encoding or "utf-8", "replace").decode(encoding or "utf-8")
    return text


def quoted(value: Any) -> str:
    """The ``repr`` of a foreign value, for an error: one line, not longer than 120 characters."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested deeply; an integer of more than 4,300 digits
        return f"a {type(value).__name__} too large to be shown"
    return text if len(text) <= 120 else f"{text[:119]}…"


def ascii_json(text: str) -> str:
    """JSON with every character outside ASCII as an escape: the same data, on any terminal and in any pipe."""
    return _NOT_PLAIN_ASCII.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def harmless_record(record: logging.LogRecord) -> bool:
    """A filter of our loggers: the message, filled in, cannot steer the terminal it is written to."""
    message = record.getMessage()
    if (safe := plain_lines(message)) != message:
        record.msg, record.args = safe, ()
    return True


class Harmless:
    """Base of classes whose ``__str__`` or ``__repr__`` may contain foreign text: the result is made harmless."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        for name in ("__str__", "__repr__"):
            own = vars(cls).get(name)
            if own is not None and not hasattr(own, "__wrapped__"):  # a dataclass with slots is made twice
                setattr(cls, name, _harmless(own))


def _harmless(words: Callable[[Any], str]) -> Callable[[Any], str]:
    @wraps(words)
    def harmless(self: Any) -> str:
        return plain_lines(words(self))

    return harmless


class Screen:
    """``sys.stdout`` or ``sys.stderr`` while a command runs: whatever is written is harmless and can be encoded.

    Text with our own colour codes goes to :meth:`write_own` instead.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write ``text`` without its control characters."""
        return self.write_own(plain_lines(text))

    def write_own(self, text: str) -> int:
        """Write a text with our own colour codes, in which everything else has been made harmless."""
        return self._stream.write(encodable(text, self._stream.encoding))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def harmless_output() -> Iterator[None]:
    """Put a :class:`Screen` before stdout and stderr, through which all text of a command goes."""
    before = sys.stdout, sys.stderr
    # Screen forwards every other attribute to the stream.
    sys.stdout, sys.stderr = cast(TextIO, Screen(before[0])), cast(TextIO, Screen(before[1]))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
