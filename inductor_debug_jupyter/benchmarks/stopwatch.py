"""How long our own code runs while a compile is captured.

The difference between two compiles says the same, but it is a few percent of figures that vary by more from run to run:
good enough for a ratio over many repeats, not for a line through five of them. So every call that the compiler's hooks
make of a recorder is timed. What our objects cost Python's collector is not in it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from inductor_debug_jupyter.pipeline.capture import Recorder

_TOLD = (
    "wants", "dynamo_graph", "compile_guards", "frame_compiled", "recompiling", "running", "aot_graphs",
    "post_grad_graph", "inductor_ir", "kernel_nodes", "output_code", "trace_record",
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
    """Time what every recorder is told."""
    watch = Stopwatch()
    originals = {name: getattr(Recorder, name) for name in _TOLD}
    for name, original in originals.items():
        setattr(Recorder, name, watch.timed(original))
    try:
        yield watch
    finally:
        for name, original in originals.items():
            setattr(Recorder, name, original)
