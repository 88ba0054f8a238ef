"""One measurement, alone in its process: ``python -m inductor_debug_jupyter.benchmarks.child JOB``.

torch is imported, and one small function compiled, before anything is counted: what torch loads on its first compile
would otherwise be in every figure and make every ratio look better. That function is Dynamo's frame 0; the measured
one is frame 1. The first call compiles the forward, ``backward()`` the backward.

Then Python's garbage collector runs once, for every contender alike. A full pass walks half a million objects (0.3 s,
some 5% of the compile) and comes when a quarter as many new ones have outlived the last: what the imports and the first
compile left pending would decide, by a hair, who has to pay for one more.
"""

from __future__ import annotations

import functools
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

import msgspec
import torch

from inductor_debug_jupyter.benchmarks.children import ANSWER, SIDES, Answer, Job, Meter
from inductor_debug_jupyter.benchmarks.contenders import CONTENDERS
from inductor_debug_jupyter.benchmarks.models import Built, encoder
from inductor_debug_jupyter.benchmarks.printing import error_line
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed, graph_cache_hits


def main(argument: str) -> int:
    """Do the job in the working folder; whatever it raises is its answer."""
    job, folder = msgspec.json.decode(argument, type=Job), Path.cwd()
    try:
        if job.kind == "compile":
            answer = _compile_costs(job, folder)
        else:
            with caches_bypassed():
                answer = Answer(calls=_median_seconds(job, folder))
    except Exception as error:  # also what a contender does to torch is its result
        answer = Answer(error=error_line(error))
    (folder / ANSWER).write_bytes(msgspec.json.encode(replace(answer, torch_version=str(torch.__version__))))
    return int(bool(answer.error))


def _compile_costs(job: Job, folder: Path) -> Answer:
    contender = CONTENDERS[job.contender]
    if reason := contender.unavailable():
        return Answer(error=reason)
    built = encoder(job.layers, small=job.small)
    with ExitStack() as caches, ExitStack() as watch:
        caches.enter_context(caches_bypassed())
        _first_compile("eager" if job.small else "inductor")
        if contender.warm_caches:
            caches.close()
        gc.collect()
        meter = Meter()
        own = watch.enter_context(recorder_timed()) if job.timed else None
        watched = watch.enter_context(contender.watching(folder))
        compiled: Any = torch.compile(built.module)
        compiled(*built.inputs).sum().backward()
        compiling = meter.lap()
        watch.close()
        contender.finish(folder, watched)
        after = meter.lap()
    return Answer(
        compiling=compiling,
        after=after,
        found=contender.found(folder),
        nodes=contender.nodes(folder),
        cache_hits=graph_cache_hits(),
        own=own.seconds if own is not None else 0.0,
    )


def _first_compile(backend: str) -> None:
    """Frame 0: makes torch load everything that a compile needs."""
    linear = torch.nn.Linear(4, 4)

    def small(x: torch.Tensor) -> Any:
        return linear(x).relu().sum()

    torch.compile(small, backend=backend)(torch.randn(2, 4)).backward()


# How fast compiled functions run --------------------------------------------------------------------------------


_WARM_UP = 5


def _median_seconds(job: Job, folder: Path) -> dict[str, float]:
    """How fast a function runs that was compiled under a capture, beside two that were not: the second is the control.

    Median CPU seconds of one forward and backward call, keyed as :class:`~.children.Answer` says. Each side has a code
    object of its own, so that none has to pass the guards of another, and all have the same weights: where those lie
    in memory makes more of a difference than anything else here. While a capture is open, a function that was compiled
    before is compiled once more in it, so plain calls are timed just before and just after, not in between.
    """
    from inductor_debug_jupyter.pipeline.session import capture

    built, calls = encoder(job.layers, small=job.small), job.calls
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


def _side(built: Built) -> Callable[[], None]:
    """One training step, compiled through a function of its own."""
    step = FunctionType(_step.__code__.replace(), globals(), "step")
    compiled: Any = torch.compile(step)
    return lambda: compiled(built.module, *built.inputs).backward()


def _step(module: Any, inputs: torch.Tensor) -> Any:
    return module(inputs).sum()


def _seconds(call: Callable[[], None], times: int) -> list[float]:
    seconds = []
    for _ in range(times):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return seconds


# How long our own code runs while a compile is captured ----------------------------------------------------------


_OBSERVED = (
    "wants", "dynamo_graph", "compile_guards", "frame_compiled", "recompiling", "running", "aot_graphs",
    "post_grad_graph", "generated", "trace_record",
)  # fmt: skip


class Stopwatch:
    """CPU seconds inside a recorder so far."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, whose time counts; one inside another counts once."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            start = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.thread_time() - start

        return call


@contextmanager
def recorder_timed() -> Iterator[Stopwatch]:
    """Time every call that the compiler's hooks make of a recorder.

    The difference between two compiles says the same, but it is a few percent of figures that vary by more from run to
    run: good enough for a ratio over many repeats, not for a line through five of them. What our objects cost Python's
    collector is not in it.
    """
    from inductor_debug_jupyter.pipeline.capture import Recorder  # here: a plain compile has nothing of ours around it

    watch = Stopwatch()
    originals = {name: getattr(Recorder, name) for name in _OBSERVED}
    for name, original in originals.items():
        setattr(Recorder, name, watch.timed(original))
    try:
        yield watch
    finally:
        for name, original in originals.items():
            setattr(Recorder, name, original)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
