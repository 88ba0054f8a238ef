"""How a worker process ended before it answered, and what it was doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CrashKind = Literal["signal", "killed", "exit", "timeout", "out_of_memory", "protocol"]


@dataclass(frozen=True, slots=True)
class CrashRecord:
    """How a child process ended.

    ``kind`` is ``signal`` (it died of one), ``killed`` (SIGKILL from outside), ``exit`` (it left by itself),
    ``timeout`` (we ended it), ``out_of_memory`` or ``protocol`` (what it sent cannot be read). ``phase`` says how far
    it was: ``start``, ``import``, ``compile``, ``run``, ``backward`` or the name of a check. ``op`` is the op that was
    running, where it is known; ``stderr`` is the end of what the process wrote.
    """

    kind: CrashKind
    backend: str
    graph: str = ""
    phase: str = ""
    op: str = ""
    signal: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    limit: str = ""
    stderr: str = ""
