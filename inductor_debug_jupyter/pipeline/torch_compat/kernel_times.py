"""Time Inductor's kernels where they run, in the code that Inductor made of a model.

While :func:`timed` is active, each wrapper that is generated on this thread gets a line before and one behind every
call of a kernel, which read the clock: nothing else of it changes. The calls of one wrapper go into one list, and cost
a fraction of a microsecond each (:func:`cost_of_a_reading`). A kernel on a device other than the CPU is only started
there, so its time is not told by a clock.
"""

from __future__ import annotations

import ast
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat.kernel_calls import (
    kernel_called,
    rewritten,
    statements_of,
    wrapper_function,
)

_LOG, _NOW, _START = "_inductor_debug_log", "_inductor_debug_now", "_inductor_debug_start"
_NO_KERNELS = ("args.clear", "get_raw_stream", "assert_")

Reading = tuple[int, int, int]
"""The number of a kernel call in its wrapper, and the nanoseconds of the clock before and behind it."""


@dataclass(eq=False)
class TimedCode:
    """One wrapper: the kernels that it calls, in order, and every reading of the clock so far."""

    kernels: tuple[str, ...]
    is_backward: bool
    readings: list[Reading] = field(default_factory=list)


_made: dict[int, TimedCode] = {}
_tokens = itertools.count(1)


def log_of(token: int) -> Callable[[Reading], None]:
    """Where a wrapper writes its readings; called once by its code, when that is loaded."""
    code = _made.get(token)
    return (lambda _: None) if code is None else code.readings.append


@uncut
def timed(made: list[TimedCode]) -> Iterator[None]:
    """Add to ``made`` every wrapper that is generated on this thread in the block, and time its kernels from then on.

    Raises:
        HookError: this torch generates code some other way.
    """
    try:
        with rewritten(lambda lowering, source: _with_readings(source, bool(lowering.is_backward), made)):
            yield
    finally:
        for token in [token for token, code in _made.items() if any(code is each for each in made)]:
            del _made[token]


def cost_of_a_reading(times: int = 2_000) -> float:
    """The seconds that the two readings around one kernel take."""
    readings: list[Reading] = []
    log, now = readings.append, time.perf_counter_ns
    started = now()
    for index in range(times):
        start = now()
        log((index, start, now()))
    return (now() - started) / times / 1e9


def _with_readings(source: str, is_backward: bool, made: list[TimedCode]) -> str:
    """The same source with the clock read around every kernel."""
    function = wrapper_function(source)
    if function is None:
        return source
    lines = source.split("\n")
    kernels: list[str] = []
    ahead: dict[int, str] = {}
    behind: dict[int, str] = {}
    for statement in statements_of(function.body):
        kernel = _timed_kernel(statement)
        if kernel:
            indent, end = " " * statement.col_offset, statement.end_lineno or statement.lineno
            ahead[statement.lineno] = f"{indent}{_START} = {_NOW}()"
            behind[end] = f"{indent}{_LOG}(({len(kernels)}, {_START}, {_NOW}()))"
            kernels.append(kernel)
    token = next(_tokens)
    _made[token] = code = TimedCode(tuple(kernels), is_backward)
    made.append(code)
    head = f"from time import perf_counter_ns as {_NOW}\nfrom {__name__} import log_of\n{_LOG} = log_of({token})"
    pieces = [head]
    for number, line in enumerate(lines, 1):
        pieces += [text for text in (ahead.get(number), line, behind.get(number)) if text is not None]
    return "\n".join(pieces)


def _timed_kernel(statement: ast.stmt) -> str:
    """The kernel or function that a statement calls; empty for what computes nothing."""
    if not isinstance(statement, ast.Expr | ast.Assign) or not isinstance(statement.value, ast.Call):
        return ""
    kernel, _ = kernel_called(statement, {})
    return "" if kernel.startswith(_NO_KERNELS) else kernel
