"""CPU and wall time of a stretch of a program, the programs that it started included."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass


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
