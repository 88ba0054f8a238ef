"""What a child process is asked, and what it answers: JSON both ways."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from inductor_debug_jupyter.benchmarks.meter import Lap

LAPS = ("compile", "close", "finish")
"""The stretches of one measurement: what is around the compile and the compile itself, leaving it, what comes after."""
SIDES = ("plain", "control", "captured")
"""Whose calls are timed: two functions that were compiled plainly, and one under a capture."""


@dataclass(frozen=True)
class Job:
    """One measurement in a fresh process.

    ``kind`` is ``compile`` (what a compile costs under ``contender``) or ``calls`` (how fast compiled functions run).
    """

    kind: Literal["compile", "calls"]
    contender: str
    layers: int
    folder: str
    small: bool = False
    calls: int = 0
    timed: bool = False
    """Time our recorder from inside, which itself costs a little."""


@dataclass(frozen=True)
class Answer:
    """What the child measured. With ``error`` the rest says nothing."""

    error: str = ""
    torch_version: str = ""
    laps: dict[str, Lap] = field(default_factory=dict)
    found: dict[str, str] = field(default_factory=dict)
    """Stage → the file that shows it."""
    nodes: int = 0
    cache_hits: int = 0
    own: float = 0.0
    """CPU seconds inside our recorder, where it is timed."""
    calls: dict[str, float] = field(default_factory=dict)
    """Median CPU seconds of a call of each side after the capture; of ``captured`` also while it was open, beside
    plain's just before and after (``under``, ``around``), and of its first call after it (``first``)."""

    def cpu(self, *laps: str) -> float:
        """CPU seconds of those stretches, all of them when none is named."""
        return sum(self.laps[name].cpu for name in laps or LAPS if name in self.laps)

    def wall(self, *laps: str) -> float:
        """Wall seconds of those stretches, all of them when none is named."""
        return sum(self.laps[name].wall for name in laps or LAPS if name in self.laps)


def answer_path(folder: str | Path) -> Path:
    """Where the child leaves its answer: stdout belongs to whatever it measures."""
    return Path(folder) / "answer.json"


def dump(job_or_answer: Job | Answer) -> bytes:
    """As JSON."""
    return msgspec.json.encode(job_or_answer)


def read_job(data: str | bytes) -> Job:
    """A job from JSON."""
    return msgspec.json.decode(data, type=Job)


def read_answer(data: bytes) -> Answer:
    """An answer from JSON."""
    return msgspec.json.decode(data, type=Answer)
