"""Time and memory limits of a worker process.

Memory is limited by ``RLIMIT_DATA``, which counts what a process can write to. ``RLIMIT_AS`` also counts what is only
reserved, and drivers reserve far more than they use: torch alone reserves three times what it needs.
"""

from __future__ import annotations

import resource
import signal
import sys
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.options import LEAST_PROCESS_MEMORY

DEFAULT_SECONDS = 600.0
"""Of a step without a limit: long enough for any compile that is not hanging."""
START_SECONDS = 180.0
"""A fresh interpreter that imports torch takes a few seconds, on a busy machine many."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one worker.

    Args:
        seconds: for each step (import, compile, run, backward); starting the interpreter does not count.
        memory: bytes that the process may have, torch itself included; None: as much as the caller's own limit.

    Raises:
        OptionError: a value that cannot be kept.
    """

    seconds: float = DEFAULT_SECONDS
    memory: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float) or not self.seconds > 0:
            raise OptionError(f"timeout={self.seconds!r}; allowed: a number of seconds above 0")
        if self.memory is None:
            return
        least = LEAST_PROCESS_MEMORY
        if isinstance(self.memory, bool) or not isinstance(self.memory, int) or self.memory < least:
            raise OptionError(
                f"memory={self.memory!r}; allowed: bytes from {least} (512 MiB) up (torch itself needs most)"
            )
        if not sys.platform.startswith("linux"):
            raise OptionError(f"memory={self.memory!r}: {sys.platform} keeps no such limit; leave it out here")


def limit_this_process(memory: int | None) -> None:
    """Take on the memory limit, and write no core file: a crash is expected."""
    _lower(resource.RLIMIT_CORE, 0)
    if memory is not None:
        _lower(resource.RLIMIT_DATA, memory)


def _lower(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, hard))


def end_later(seconds: float) -> None:
    """Have the system end this process after ``seconds`` (SIGALRM), also when it hangs in C; 0 cancels it.

    Nothing is done when foreign code handles SIGALRM itself.
    """
    if signal.getsignal(signal.SIGALRM) == signal.SIG_DFL:
        signal.setitimer(signal.ITIMER_REAL, seconds)
