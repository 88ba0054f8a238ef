"""An exception in one line, for a row of a table."""

from __future__ import annotations


def error_line(error: BaseException) -> str:
    """The exception in one line; where torch says ``backend='…' raised:``, with the line after it."""
    told = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not told:
        return type(error).__name__
    return " ".join([f"{type(error).__name__}: {told[0]}", *(told[1:2] if told[0].endswith(":") else ())])
