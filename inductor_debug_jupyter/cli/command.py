"""A subcommand: a module with a summary, its arguments, and a function that runs it."""

from __future__ import annotations

import argparse
from typing import Protocol

from inductor_debug_jupyter.pipeline.options import read_given
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store import SETTINGS, ArtifactStore


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
