"""How fast this machine is at best: a short calibration, once for each number of threads.

Memory is read and written in one pass over arrays that no cache holds; matrices are multiplied that a cache does hold.
Other work may slow both down at that moment, so the best of several runs counts.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import torch

from inductor_debug_jupyter.pipeline.records import Roofs
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed

_ARRAY = 1 << 24
"""Elements of an array of float32: 64 MB."""
_SIDE = 1024
_RUNS = 5
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def machine_roofs() -> Roofs:
    """This machine's roofs, with the threads that torch uses now. Takes about a third of a second the first time."""
    return _measured(torch.get_num_threads())


@functools.cache
def _measured(threads: int) -> Roofs:
    with unnoticed(), torch.no_grad():
        return Roofs(_memory(), {str(dtype).removeprefix("torch."): _matmul(dtype) for dtype in _DTYPES}, threads)


def _memory() -> float:
    left, right, out = (torch.ones(_ARRAY) for _ in range(3))
    return 3 * _ARRAY * left.itemsize / _best(lambda: torch.add(left, right, out=out))


def _matmul(dtype: torch.dtype) -> float:
    """Of 16 bits a machine may have no fast products: a smaller matrix tells that sooner."""
    side = _SIDE if dtype == torch.float32 else _SIDE // 2
    left, right = (torch.ones(side, side, dtype=dtype) for _ in range(2))
    return float(2 * side**3 / _best(lambda: torch.mm(left, right)))


def _best(run: Callable[[], object]) -> float:
    """The shortest of some runs, after one that warms up."""
    run()
    seconds = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
