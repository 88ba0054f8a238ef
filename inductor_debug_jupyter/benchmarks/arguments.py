"""Arguments that several suites read, and the sentence for a bad one."""

from __future__ import annotations

from collections.abc import Collection

from inductor_debug_jupyter.pipeline.errors import OptionError


def whole_number(text: str, flag: str, least: int) -> int:
    """A whole number from ``least`` up."""
    if not text.strip().isdecimal() or int(text) < least:
        raise OptionError(f"{flag}: {text!r} is not allowed; allowed: a whole number from {least} up")
    return int(text)


def whole_numbers(text: str, flag: str, least: int) -> list[int]:
    """Whole numbers, separated by commas; each once, in order."""
    return sorted({whole_number(part.strip(), flag, least) for part in text.split(",")})


def some_of(text: str, flag: str, allowed: Collection[str]) -> list[str]:
    """Names, separated by commas, in the order in which they are allowed."""
    given = [part.strip() for part in text.split(",")]
    for name in given:
        if name not in allowed:
            raise OptionError(f"{flag}: {name!r} is not allowed; allowed: {', '.join(allowed)}")
    return [name for name in allowed if name in given]


def one_of(text: str, flag: str, allowed: Collection[str]) -> str:
    """One of a few words."""
    if text not in allowed:
        raise OptionError(f"{flag}: {text!r} is not allowed; allowed: {', '.join(allowed)}")
    return text
