"""How fast a function runs that was compiled under a capture, beside two that were not, call by call in one process.

The second plain one is the control: how far two functions differ that were compiled in the same way. Each side has a
code object of its own, so that none has to pass the guards of another, and all have the same weights: where those lie
in memory makes more of a difference than anything else here. While a capture is open, a function that was
compiled before is compiled once more in it, so plain calls are timed just before and just after, not in between.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.job import SIDES
from inductor_debug_jupyter.benchmarks.models.encoder import encoder
from inductor_debug_jupyter.benchmarks.models.model import Built
from inductor_debug_jupyter.pipeline.session import capture

Call = Callable[[], None]

_WARM_UP = 5


def call_times(layers: int, folder: Path, *, calls: int, small: bool = False) -> dict[str, float]:
    """Median CPU seconds of one forward and backward call, keyed as :class:`~.job.Answer` says."""
    built = encoder(layers, small=small)
    sides = {name: _side(built) for name in SIDES}
    for name in ("plain", "control"):
        _seconds(sides[name], _WARM_UP)
    around = _seconds(sides["plain"], calls)
    with capture(artifacts=str(folder / "artifacts")):
        _seconds(sides["captured"], _WARM_UP)
        under = _seconds(sides["captured"], calls)
    first = _seconds(sides["captured"], 1)
    around += _seconds(sides["plain"], calls)
    for side in sides.values():
        _seconds(side, _WARM_UP)
    times: dict[str, list[float]] = {name: [] for name in SIDES}
    for turn in range(calls):
        for name in SIDES if turn % 2 == 0 else reversed(SIDES):
            times[name] += _seconds(sides[name], 1)
    median = statistics.median
    return {
        **{name: median(seconds) for name, seconds in times.items()},
        "under": median(under),
        "around": median(around),
        "first": first[0],
    }


def _side(built: Built) -> Call:
    """One training step, compiled through a function of its own."""
    step = FunctionType(_step.__code__.replace(), globals(), "step")
    compiled: Any = torch.compile(step)
    return lambda: compiled(built.module, *built.inputs).backward()


def _step(module: Any, inputs: torch.Tensor) -> Any:
    return module(inputs).sum()


def _seconds(call: Call, times: int) -> list[float]:
    seconds = []
    for _ in range(times):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return seconds
