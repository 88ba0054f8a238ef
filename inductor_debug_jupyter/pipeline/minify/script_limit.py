"""The limit of a script: the error from which on it reports a failure, half-way between rounding and what was seen.

Errors are in floors, as :mod:`repro.rounding_check` measures them in the script. The error of a healthy backend depends
on the graph: a long sum in another order is off by more floors than one multiplication. So the graph also runs in
float64, as exact as a backend can be, and the distance of eager from that is what rounding explains. Half-way is the
geometric mean, since each is known to a factor.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.repro import rounding_check
from inductor_debug_jupyter.pipeline.repro.values import copy_of
from inductor_debug_jupyter.pipeline.torch_compat.regions import compile_alone, undisturbed
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed

LEAST: Final = 8.0
"""Up to so many floors are always rounding: vector libraries differ by that much in ``erf``."""
LEAST_NARROW: Final = 2.0
"""The same where all numbers are in 16 bits or fewer: both sides compute in float32 and round once."""
MOST: Final = 16.0
"""More floors than this are never rounding: fault-free Inductor stays within 12 (GPT-2, ViT, ConvNet, a long sum)."""
HIGHEST_LIMIT: Final = 1000.0
"""The highest limit of a script, however large the error was."""


def limit_between(explained: float, seen: float) -> float:
    """The limit for a script."""
    return float(f"{min(math.sqrt(explained * max(seen, explained)), HIGHEST_LIMIT):.3g}")


def seen_error(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], compiler: Callable[..., Any], *, backward: bool, unit: float
) -> float:
    """The largest error of a backend, in floors, as a script will measure it."""

    def compiled(graph: torch.nn.Module) -> Callable[..., Any]:
        return compile_alone(graph, lambda *args, **options: compiler(*args, **options))

    with undisturbed(), caches_bypassed():
        return _measured(gm, inputs, compiled, backward=backward, unit=unit)


def explained_error(gm: torch.fx.GraphModule, inputs: Sequence[Any], *, backward: bool, unit: float) -> float:
    """The largest error, in floors, that a healthy backend may have on this graph."""
    floats = [value.dtype for value in inputs if isinstance(value, torch.Tensor) and value.is_floating_point()]
    narrow = bool(floats) and all(dtype.itemsize <= 2 for dtype in floats) and not unit
    try:
        with torch.autocast("cpu", enabled=False):
            healthy = _measured(gm, inputs, _in_float64, backward=backward, unit=unit)
    except Exception:  # an op has no float64 kernel, or names a dtype: MOST holds
        healthy = math.inf
    return min(max(LEAST_NARROW if narrow else LEAST, 2 * healthy), MOST)


def _measured(
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    run: Callable[[torch.nn.Module], Callable[..., Any]],
    *,
    backward: bool,
    unit: float,
) -> float:
    found, _ = rounding_check.worst_excess(
        lambda: copy.deepcopy(gm), lambda: [copy_of(value) for value in inputs], run, backward=backward, unit=unit
    )
    return found


def _in_float64(graph: torch.nn.Module) -> Callable[..., Any]:
    """The graph in float64, with its results cast to their usual dtypes."""

    def run(*inputs: Any) -> Any:
        with torch.random.fork_rng(), torch.no_grad():
            usual = copy.deepcopy(graph)(*map(copy_of, inputs))
        wide = [
            value.double() if rounding_check.rounds(value) and not value.is_complex() else value for value in inputs
        ]
        found = copy.deepcopy(graph).double()(*wide)
        with torch.no_grad():  # an input that the graph wrote to
            for value, written in zip(inputs, wide, strict=True):
                if written is not value and not torch.equal(written, value.double()):
                    value.copy_(written)
        return _as_usual(found, usual)

    return run


def _as_usual(found: Any, usual: Any) -> Any:
    """The results in their usual dtypes."""
    if isinstance(found, torch.Tensor):
        return found.to(usual.dtype)
    if isinstance(found, (tuple, list)):
        return [_as_usual(each, like) for each, like in zip(found, usual, strict=True)]
    return found
