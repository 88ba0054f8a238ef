"""How numbers, sizes, durations and severities are written, alike in every room."""

from __future__ import annotations

from typing import Final

SEVERITIES: Final = ("error", "warning", "info")
"""Worst first."""
TO_FIX: Final = SEVERITIES[:2]
"""The severities that fix-its are for: errors, then warnings."""

ICONS: Final[dict[str, str]] = {"error": "✗", "warning": "⚠", "info": "ℹ"}

RANK: Final[dict[str, int]] = {severity: rank for rank, severity in enumerate(SEVERITIES)}


def clip(text: str, width: int) -> str:
    """``text``, cut with an ellipsis when it is longer than ``width``."""
    return text if len(text) <= width else text[: width - 1] + "…"


def count(number: int, noun: str) -> str:
    """``1 graph``, ``1,200 graphs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def share(part: int, whole: int) -> str:
    """``96.9%``, rounded down: 100% is all. Of nothing it is 100%."""
    return f"{1000 * part // whole / 10 if whole else 100:g}%"


def size(nbytes: int) -> str:
    """``38 MiB``; three significant digits."""
    value, units = float(nbytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.3g} {units[0]}"


def short_time(seconds: float) -> str:
    """``84.1 µs``, ``3.12 ms`` or ``1.4 s``: for what is much shorter than a second."""
    if seconds >= 1:
        return duration(seconds)
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def duration(seconds: float) -> str:
    """``1.4 s`` or ``35 ms``."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
