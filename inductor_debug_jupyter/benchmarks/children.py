"""Start a measurement in a fresh process, under an environment in which every contender is equal.

The user's own switches of torch and of this package are taken out. Inductor compiles in the process itself
(``TORCHINDUCTOR_COMPILE_THREADS=1``: the CPU time of its worker pool could not be attributed) and kernels use one
thread; both and the hash seed are the same for everybody. All share one Inductor cache, so that the compiled
``.so`` files are there; a small run, whose figures say nothing, takes what the user's own cache has.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from inductor_debug_jupyter.benchmarks.contenders import CONTENDERS

TIMEOUT = 900.0
"""Seconds after which a child is ended."""
ANSWER = "answer.json"
"""The file in which the child leaves its answer: stdout belongs to whatever it measures."""
SIDES = ("plain", "control", "captured")
"""Whose calls are timed: two functions that were compiled plainly, and one under a capture."""

_CACHE = "TORCHINDUCTOR_CACHE_DIR"
_FOREIGN = ("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE", "TORCHINDUCTOR", "TORCHDYNAMO", "INDUCTOR_DEBUG", "MOCK_")


@dataclass(frozen=True)
class Job:
    """One measurement in a fresh process.

    ``kind`` is ``compile`` (what a compile costs under ``contender``) or ``calls`` (how fast compiled functions run).
    With ``timed`` our recorder is also timed from inside, which itself costs a little.
    """

    kind: Literal["compile", "calls"]
    contender: str
    layers: int
    small: bool = False
    calls: int = 0
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Lap:
    """Seconds of one stretch. ``cpu`` includes ``children``: programs that were started and ended in it."""

    cpu: float = 0.0
    wall: float = 0.0
    children: float = 0.0


@dataclass(frozen=True)
class Answer:
    """What the child measured. With ``error`` the rest says nothing.

    ``compiling`` is the compile with what is around it, ``after`` leaving that and what comes then. ``found`` has stage
    → the file that shows it, ``own`` the CPU seconds inside our recorder. ``calls`` has the median CPU seconds of a
    call of each side after the capture; of ``captured`` also while it was open, beside plain's just before and after
    (``under``, ``around``), and of its first call after it (``first``).
    """

    error: str = ""
    torch_version: str = ""
    compiling: Lap = Lap()
    after: Lap = Lap()
    found: dict[str, str] = field(default_factory=dict)
    nodes: int = 0
    cache_hits: int = 0
    own: float = 0.0
    calls: dict[str, float] = field(default_factory=dict)

    @property
    def cpu(self) -> float:
        """CPU seconds of everything."""
        return self.compiling.cpu + self.after.cpu


class Children:
    """Runs jobs, each in a process and a folder of its own below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def run(self, job: Job, *, warming: bool = False) -> Answer:
        """The child's answer; ``warming`` is for a run that nobody counts, and may use all cores."""
        self._count += 1
        folder = self._folder / f"child-{self._count:03}"
        folder.mkdir()
        threads = {} if warming else {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
        environment = self._environment(small=job.small) | CONTENDERS[job.contender].environment(folder) | threads
        command = [sys.executable, "-m", "inductor_debug_jupyter.benchmarks.child", msgspec.json.encode(job).decode()]
        try:
            done = subprocess.run(  # noqa: S603 - our own interpreter
                command, cwd=folder, env=environment, capture_output=True, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired:
            return Answer(error=f"not ready after {TIMEOUT:.0f} s")
        if (path := folder / ANSWER).exists():
            return msgspec.json.decode(path.read_bytes(), type=Answer)
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["nothing was said"]
        return Answer(error=f"the process ended with {done.returncode}: {lines[-1]}")

    def _environment(self, *, small: bool) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        root = str(Path(__file__).resolve().parents[2])  # also from a checkout that is not installed
        own["PYTHONPATH"] = os.pathsep.join(filter(None, (root, own.get("PYTHONPATH"))))
        cache = os.environ.get(_CACHE) if small else str(self._folder / "inductor-cache")
        own |= {_CACHE: cache} if cache else {}
        return own | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


class Meter:
    """Measures stretch after stretch, beginning when it is made."""

    def __init__(self) -> None:
        self._last = _now()

    def lap(self) -> Lap:
        """The stretch since the last one."""
        before, self._last = self._last, _now()
        own, children, wall = (now - then for now, then in zip(self._last, before, strict=True))
        return Lap(cpu=own + children, wall=wall, children=children)


def _now() -> tuple[float, float, float]:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), usage.ru_utime + usage.ru_stime, time.perf_counter()
