"""What is asked about models: one module a subcommand."""

from __future__ import annotations

import argparse
from typing import Protocol


class Suite(Protocol):
    """A subcommand. Importing it is cheap: whatever is slow to import is imported by :meth:`run`."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; answers with the exit code."""
