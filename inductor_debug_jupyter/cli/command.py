"""A subcommand: a module with a summary, its arguments, and a function that runs it; options that several read."""

from __future__ import annotations

import argparse
import re
import time
from datetime import datetime
from typing import Protocol

from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.options import read_given
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store import SETTINGS, ArtifactStore

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Command(Protocol):
    """A subcommand. Importing it is cheap: whatever is slow to import is imported by :meth:`run`.

    An error is raised, not printed: :func:`~inductor_debug_jupyter.cli.main.main` prints it and chooses the exit code.
    """

    SUMMARY: str
    EXAMPLES: str
    """Shown by ``--help``: one command a line, with what it does behind a ``#``."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the command; returns the exit code."""


def chosen_store(args: argparse.Namespace) -> ArtifactStore:
    """Open the store that ``--artifacts``, the environment or the config file names; no other setting is read."""
    return ArtifactStore.of(resolve(read_given(args, SETTINGS), names=SETTINGS))


def parse_age(text: str, flag: str) -> float:
    """``90s``, ``30m``, ``12h``, ``7d`` or ``2w``, in seconds."""
    seconds = _seconds(text)
    if seconds is None:
        raise OptionError(f"{flag}: {text!r} is not allowed; allowed: a number and s, m, h, d or w, such as 7d")
    return seconds


def parse_since(text: str, flag: str) -> float:
    """Seconds since 1970 of an age (``2h`` ago) or a date (``2026-11-16``, ``2026-11-16T08:30``)."""
    seconds = _seconds(text)
    if seconds is not None:
        return time.time() - seconds
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise OptionError(
            f"{flag}: {text!r} is not allowed; allowed: an age such as 30m, 2h or 7d, or a date such as 2026-11-16"
        ) from None


def _seconds(text: str) -> float | None:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])", text.strip().lower())
    return float(match[1]) * _UNITS[match[2]] if match else None
