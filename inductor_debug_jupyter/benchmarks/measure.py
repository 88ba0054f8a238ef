"""How long a backend takes to compile a model, and how long a call takes then."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.models import Built
from inductor_debug_jupyter.benchmarks.wording import error_line
from inductor_debug_jupyter.pipeline.records import BackendTiming


def measure(
    backend: str, built: Built, compiler: Callable[[Any], Any] | None, *, warmup: int, runs: int
) -> BackendTiming:
    """Time one backend; whatever it raises is its result.

    Compile seconds are those of the first call, which compiles and runs once. Latency is of the calls after the
    warm-up.

    Args:
        backend: its name.
        built: the model.
        compiler: module → what to call; None to call the module itself.
        warmup: calls that are not counted, after the first.
        runs: calls that are.
    """
    run = compiler(built.module) if compiler else built.module
    try:
        with torch.no_grad():
            first = _seconds(run, built)
            for _ in range(warmup):
                _seconds(run, built)
            times = [_seconds(run, built) for _ in range(runs)]
    except Exception as error:  # a backend that fails is a row of the table
        return BackendTiming(backend, 0.0, 0.0, 0.0, 0, error=error_line(error))
    spread = statistics.stdev(times) if len(times) > 1 else 0.0
    return BackendTiming(backend, first if compiler else 0.0, statistics.fmean(times), spread, runs)


def _seconds(run: Any, built: Built) -> float:
    start = time.perf_counter()
    run(*built.inputs)
    if any(tensor.device.type != "cpu" for tensor in built.inputs):
        torch.accelerator.synchronize()  # a device works on after the call returns
    return time.perf_counter() - start
