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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from inductor_debug_jupyter.benchmarks.contenders import CONTENDERS

TIMEOUT = 900.0
"""Seconds after which a child is ended."""

_CACHE = "TORCHINDUCTOR_CACHE_DIR"
_FOREIGN = ("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE", "TORCHINDUCTOR", "TORCHDYNAMO", "INDUCTOR_DEBUG", "MOCK_")


class Children:
    """Runs jobs.

    Args:
        folder: everything that is written goes below it.
        python: the interpreter of the children; it must have this package and a torch.
    """

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self._folder = folder
        self._python = python
        self._count = 0

    def compile(
        self, contender: str, layers: int, *, small: bool = False, warming: bool = False, timed: bool = False
    ) -> Answer:
        """What one compile costs; ``warming`` is for a run that nobody counts, and may use all cores.

        With ``timed`` our recorder is also timed from inside.
        """
        folder = self._new_folder()
        threads = {} if warming else {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
        extra = {**CONTENDERS[contender].environment(folder), **threads}
        return self._run(Job("compile", contender, layers, str(folder), small, timed=timed), extra)

    def calls(self, layers: int, calls: int, *, small: bool = False) -> Answer:
        """How fast compiled functions run."""
        return self._run(Job("calls", "capture", layers, str(self._new_folder()), small, calls), {})

    def _new_folder(self) -> Path:
        self._count += 1
        folder = self._folder / f"child-{self._count:03}"
        folder.mkdir()
        return folder

    def _run(self, job: Job, extra: Mapping[str, str]) -> Answer:
        command = [self._python, "-m", "inductor_debug_jupyter.benchmarks.child", msgspec.json.encode(job).decode()]
        try:
            done = subprocess.run(  # noqa: S603 - the interpreter is the user's own choice
                command,
                cwd=job.folder,
                env=self._environment(job, extra),
                capture_output=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return Answer(error=f"not ready after {TIMEOUT:.0f} s")
        except OSError as error:
            return Answer(error=f"{self._python} cannot be started: {error.strerror}")
        if (path := Path(job.folder) / ANSWER).exists():
            return msgspec.json.decode(path.read_bytes(), type=Answer)
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["nothing was said"]
        return Answer(error=f"the process ended with {done.returncode}: {said[-1]}")

    def _environment(self, job: Job, extra: Mapping[str, str]) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        if self._python == sys.executable:  # also from a checkout that is not installed
            root = str(Path(__file__).resolve().parents[2])
            own["PYTHONPATH"] = os.pathsep.join(filter(None, (root, own.get("PYTHONPATH"))))
        cache = os.environ.get(_CACHE) if job.small else str(self._folder / "inductor-cache")
        own |= {_CACHE: cache} if cache else {}
        return {**own, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", **extra}


# What a child process is asked, and what it answers: JSON both ways ---------------------------------------------------


ANSWER = "answer.json"
"""The file in which the child leaves its answer: stdout belongs to whatever it measures."""
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


# CPU and wall time ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lap:
    """Seconds of one stretch. ``cpu`` includes ``children``: programs that were started and ended in it."""

    cpu: float = 0.0
    wall: float = 0.0
    children: float = 0.0


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
