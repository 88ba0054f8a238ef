"""Read foreign files and texts without trusting them.

A path may name a folder, a pipe without a writer, a device without an end, or a file larger than the memory: only
a regular file of a size that ours can have is read. A text may be no UTF-8, be nested a hundred thousand levels deep or
hold an integer of five thousand digits; Python's parsers then raise whatever their own code ran into. Here all of that
is an ``OSError`` with a sentence, or a :class:`MalformedError`, so that callers need to know of nothing else.
"""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from inductor_debug_jupyter.pipeline.harmless import plain

LARGEST_TEXT: Final = 1 << 20
"""Bytes of a profile or a config file: a thousand times what people write."""
LARGEST_RECORD: Final = 1 << 30
"""Bytes of a saved session: some hundred times what a large model leaves behind."""
LARGEST_NUMBER: Final = 2**63 - 1
"""No size, count or index of torch is larger."""
DEEPEST: Final = 100
"""Levels of nesting in values without a declared type."""

_LONGEST: Final = 300
"""Characters of a parser's message: some quote the whole value."""

_Value = TypeVar("_Value")


class MalformedError(ValueError):
    """The content is not what it should be; the message says why, in one line."""


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a regular file with at most ``limit`` bytes.

    Raises:
        OSError: it cannot be read, is no regular file or is too large; ``strerror`` says which.
    """
    if "\0" in str(path):
        raise OSError(errno.ENOENT, "no file can have this name")
    # Without O_NONBLOCK opening a pipe waits for a writer.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.ENODEV, f"it is {_kind(status.st_mode)}, not a file")
        if status.st_size > limit:
            raise OSError(errno.EOVERFLOW, f"it has more than {limit:,} bytes, which no such file has")
        return file.read()


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def parsed(parse: Callable[[], _Value]) -> _Value:
    """The result of a parser.

    Raises:
        MalformedError: the parser raised any error.
    """
    try:
        return parse()
    except UnicodeDecodeError as error:
        raise MalformedError(f"it is not UTF-8 text (byte {error.start})") from None
    except RecursionError:
        raise MalformedError("it is nested too deeply") from None
    except MemoryError:
        raise MalformedError("it does not fit into the memory") from None
    except (ValueError, OverflowError) as error:  # TOML and JSON decoders' own errors are ValueErrors too
        message = plain(" ".join(str(error).split())) or type(error).__name__
        raise MalformedError(message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…") from None


def parsed_toml(data: bytes | str) -> dict[str, Any]:
    """TOML as a table.

    Raises:
        MalformedError: it is not TOML.
    """
    text = data if isinstance(data, str) else parsed(lambda: data.decode("utf-8"))
    keys = (line.partition("=")[0] for line in text.splitlines() if not line.lstrip().startswith("#"))
    if any(key.count(".") > DEEPEST for key in keys):
        raise MalformedError(f"a key has more than {DEEPEST} parts")  # Python's parser takes their square of time
    table = parsed(lambda: tomllib.loads(text))
    check_values(table)
    return table


def check_values(value: Any) -> None:
    """Check that decoded values are not too large or too deeply nested.

    Raises:
        MalformedError: a number that is too large, or values nested too deeply.
    """
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            raise MalformedError(f"it is nested more than {DEEPEST} levels deep")
        for each in level:
            if isinstance(each, int) and not -LARGEST_NUMBER <= each <= LARGEST_NUMBER:
                raise MalformedError("a whole number has more than 63 bits")
        level = [inner for each in level if isinstance(each, dict | list | tuple) for inner in _inside(each)]
        depth += 1


def _inside(value: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)
