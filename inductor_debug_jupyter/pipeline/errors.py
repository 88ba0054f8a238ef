"""Every exception this package raises on purpose.

::

    InductorDebugError
    ├── UsageError                 what the user asked for cannot be understood (exit code 2)
    │   ├── OptionError            an option, environment variable or setting has a bad value
    │   ├── ProfileError           a device profile is missing or malformed
    │   ├── NothingFailsError      there is nothing to reduce: all is well
    │   └── CannotSendError        something cannot go to another process: a lambda, a class of a notebook
    ├── NotFoundError              nothing with that name or id was captured (exit code 3)
    ├── StoreError                 artifacts cannot be written or read (exit code 4)
    ├── RecordError                a saved record cannot be read: damaged, or from a newer version
    ├── HookError                  this torch lacks a private name that a capture hook needs
    ├── LayoutError                graphviz could not lay a graph out
    ├── RewriteError               a fixed model cannot compute what the original does, for these inputs
    ├── ReproError                 a graph cannot be written as a standalone script
    │   └── FlakyFailureError      what is to be reduced fails in some runs only
    ├── AdapterError               an accelerator's adapter could not compile a graph
    │   ├── BackendCrashError      a foreign process died, hung or ran out of memory
    │   └── RefusedError           the simulated device cannot run this
    └── ConstraintViolationError   strict mode: the target refuses what was captured

A message says what happened, with which value, and what to do. Only the command line and the magic turn one into
output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inductor_debug_jupyter.pipeline.harmless import plain_lines

if TYPE_CHECKING:
    from inductor_debug_jupyter.pipeline.records import CrashRecord, Violation


def in_a_line(error: BaseException) -> str:
    """The class of an error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


class InductorDebugError(Exception):
    """Base of everything raised on purpose here. Control characters in a message become U+FFFD."""

    exit_code = 1

    def __str__(self) -> str:
        return plain_lines(super().__str__())


class UsageError(InductorDebugError):
    """A request of the user is not valid."""

    exit_code = 2


class OptionError(UsageError):
    """An option, an environment variable or a setting has a value that is not allowed."""


class ProfileError(UsageError):
    """A device profile is missing or malformed."""


class NothingFailsError(UsageError):
    """There is nothing to reduce: nothing fails."""


class CannotSendError(UsageError):
    """A value cannot be sent to another process."""


class NotFoundError(InductorDebugError):
    """Nothing with that name or id was captured."""

    exit_code = 3


class StoreError(InductorDebugError):
    """Artifacts cannot be written or read."""

    exit_code = 4


class RecordError(InductorDebugError):
    """A saved record cannot be read."""


class HookError(InductorDebugError):
    """This torch lacks a private name that one of our hooks needs."""


class LayoutError(InductorDebugError):
    """Graphviz could not lay a graph out."""


class RewriteError(InductorDebugError):
    """A fixed model cannot compute what the original does, for these inputs; nothing was returned."""


class ReproError(InductorDebugError):
    """A graph cannot be written as a standalone script."""


class FlakyFailureError(ReproError):
    """What is to be reduced fails in some runs only: a smaller graph that passes says nothing."""


class AdapterError(InductorDebugError):
    """An accelerator's adapter could not compile a graph."""


class BackendCrashError(AdapterError):
    """A foreign process died, hung or ran out of memory.

    Args:
        message: the readable text.
        crash: the record of it.
    """

    def __init__(self, message: str, crash: CrashRecord) -> None:
        super().__init__(message)
        self.crash = crash


class RefusedError(AdapterError):
    """The simulated device cannot run this; the message says what and why."""


class ConstraintViolationError(InductorDebugError):
    """Strict mode: the target refuses what was captured.

    Args:
        message: the readable text, made by :func:`inductor_debug_jupyter.pipeline.views.text.strict_message`.
        findings: the violations that the message lists.
        repro: where the standalone script was written, if it could be.
    """

    def __init__(self, message: str, findings: Sequence[Violation] = (), repro: str | None = None) -> None:
        super().__init__(message)
        self.findings = tuple(findings)
        self.repro = repro
