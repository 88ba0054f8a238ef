"""Time a kept call: its kernels in place, the call as a whole, and its modules in eager mode.

The model is compiled once more on a copy, with the clock read around every kernel, called until it is warm, and then
as often as fits into two seconds. Runs are alternated with eager ones. Every figure is a median; a kernel's place
in the call is that of the run of median length.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.rerun.again import as_called, plain_model
from inductor_debug_jupyter.pipeline.rerun.copies import Memo, clone_inputs, memo_copy, own_module
from inductor_debug_jupyter.pipeline.rerun.reachable import reach
from inductor_debug_jupyter.pipeline.rerun.running import go_backward, starting_gradients
from inductor_debug_jupyter.pipeline.torch_compat import regions
from inductor_debug_jupyter.pipeline.torch_compat.kernel_times import TimedCode, timed
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind

WARM_UP = 3
LEAST_RUNS, MOST_RUNS = 3, 100
BUDGET = 2.0
"""Seconds for the runs after the warm-up, and for those of the warm-up after the first, which compiles."""

Span = tuple[float, float]
"""When something began, in seconds from the beginning of the call, and how long it took."""


@dataclass(eq=False)
class TimedKernel:
    """One call of a kernel in the generated code, with its span in every run."""

    name: str
    stage: str
    number: int
    """Which call of this kernel in its wrapper it is, from 0."""
    code: int
    """Which wrapper."""
    spans: list[Span] = field(default_factory=list)


@dataclass(eq=False)
class TimedCall:
    """Everything that was measured: seconds of each run, compiled and eager, kernels, and modules by path."""

    compiled: list[float] = field(default_factory=list)
    eager: list[float] = field(default_factory=list)
    kernels: list[TimedKernel] = field(default_factory=list)
    modules: dict[str, list[float]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def median_run(self) -> int:
        """The number of the run whose length is the median."""
        middle = statistics.median_low(self.compiled)
        return self.compiled.index(middle)


def time_call(call: ModelCall, *, backward: bool) -> TimedCall:
    """Run a kept call again, compiled and eager in turn, and measure.

    Raises:
        UsageError: its tensors are on another device than the CPU, whose kernels a clock does not see.
    """
    model = plain_model(call.model)
    _check_device(model, call.args, call.kwargs)
    found = TimedCall()
    codes: list[TimedCode] = []
    with ExitStack() as stack:
        stack.enter_context(as_called(call))
        if backward:
            stack.enter_context(torch.enable_grad())
        reached = reach(model)
        memo: Memo = {}
        own = stack.enter_context(own_module(model, memo, leaves=backward, gradients=True, reached=reached))
        stack.enter_context(regions.undisturbed(own))
        stack.enter_context(caches_bypassed())
        stack.enter_context(timed(codes))
        run = regions.compile_alone(own, regions.registered_backend("inductor"))
        caller = _Caller((call.args, dict(call.kwargs)), memo, backward, own)
        _warm_up(caller, run, own)
        for code in codes:
            code.readings.clear()
        begins: list[int] = []
        started = time.perf_counter()
        watched = _ModuleClock(own)
        while len(begins) < MOST_RUNS and (len(begins) < LEAST_RUNS or time.perf_counter() - started < BUDGET):
            found.compiled.append(caller.seconds(run))
            begins.append(caller.began)
            with watched.watching():
                found.eager.append(caller.seconds(own, eagerly=True))
            watched.end_run(found)
        found.kernels = list(_kernels(codes, begins))
    return found


def _warm_up(caller: _Caller, run: Callable[..., Any], own: Callable[..., Any]) -> None:
    """Compile, and call until caches and threads are as in later calls."""
    caller.seconds(run)
    started = time.perf_counter()
    for _ in range(WARM_UP):
        caller.seconds(own, eagerly=True)
        caller.seconds(run)
        if time.perf_counter() - started > BUDGET:
            break


def _check_device(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    tensors = of_kind(torch.Tensor, [args, dict(kwargs)])
    if isinstance(model, torch.nn.Module):
        tensors += [*model.parameters(), *model.buffers()]
    if others := sorted({str(tensor.device) for tensor in tensors} - {"cpu"}):
        raise UsageError(f"the call's tensors are on {', '.join(others)}; kernels are timed on the CPU only so far")


@dataclass(eq=False)
class _Caller:
    """Calls a function with new copies of the inputs, and times the call alone."""

    inputs: tuple[tuple[Any, ...], dict[str, Any]]
    memo: Memo
    backward: bool
    model: Any
    began: int = 0
    """The clock when the last call began, in nanoseconds."""
    _gradients: list[torch.Tensor] | None = None

    def seconds(self, run: Callable[..., Any], *, eagerly: bool = False) -> float:
        """How long one call takes, with its backward."""
        args, kwargs = clone_inputs(self.inputs, memo_copy(self.memo), leaves=self.backward, gradients=True)
        if isinstance(self.model, torch.nn.Module):
            self.model.zero_grad(set_to_none=True)
        with torch.compiler.set_stance("force_eager") if eagerly else nullcontext():
            self.began = time.perf_counter_ns()
            outputs = run(*args, **kwargs)
            taken = time.perf_counter_ns() - self.began
            return (taken + (self._backward(outputs) if self.backward else 0)) / 1e9

    def _backward(self, outputs: Any) -> int:
        """The nanoseconds of the backward; what it starts from is made once, before."""
        tensors = enumerate(of_kind(torch.Tensor, outputs))
        wanted = {str(position): value for position, value in tensors if value.requires_grad}
        if self._gradients is None:
            self._gradients = starting_gradients(wanted)
        started = time.perf_counter_ns()
        go_backward(wanted, self._gradients)
        return time.perf_counter_ns() - started


def _kernels(codes: Sequence[TimedCode], begins: Sequence[int]) -> Iterator[TimedKernel]:
    """Every kernel call with its span in each run; a call that is made several times in one run counts together."""
    for position, code in enumerate(codes):
        seen: dict[str, int] = {}
        kernels = []
        for name in code.kernels:
            seen[name] = seen.get(name, -1) + 1
            kernels.append(TimedKernel(name, "backward" if code.is_backward else "forward", seen[name], position))
        for begin, readings in zip(begins, _by_run(code.readings, begins), strict=True):
            for kernel, span in zip(kernels, _spans(readings, begin, len(kernels)), strict=True):
                if span is not None:
                    kernel.spans.append(span)
        yield from (kernel for kernel in kernels if kernel.spans)


def _by_run(readings: Sequence[tuple[int, int, int]], begins: Sequence[int]) -> list[list[tuple[int, int, int]]]:
    """The readings of each run: those between its beginning and the next one's."""
    runs: list[list[tuple[int, int, int]]] = [[] for _ in begins]
    at = 0
    for reading in readings:
        while at + 1 < len(begins) and reading[1] >= begins[at + 1]:
            at += 1
        runs[at].append(reading)
    return runs


def _spans(readings: Sequence[tuple[int, int, int]], begin: int, kernels: int) -> list[Span | None]:
    spans: list[Span | None] = [None] * kernels
    for index, start, end in readings:
        known = spans[index]
        seconds = (end - start) / 1e9
        spans[index] = ((start - begin) / 1e9, seconds) if known is None else (known[0], known[1] + seconds)
    return spans


class _ModuleClock:
    """Seconds of each module of a model while it runs eagerly, with what is in it."""

    def __init__(self, model: Any) -> None:
        self._modules = dict(model.named_modules()) if isinstance(model, torch.nn.Module) else {}
        self._open: list[int] = []
        self._seconds: dict[str, float] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Read the clock when a module is called, and when it returns."""
        handles = []
        for path, module in self._modules.items():
            handles.append(module.register_forward_pre_hook(self._enter, prepend=True))
            handles.append(module.register_forward_hook(self._leave(path)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, *_: Any) -> None:
        self._open.append(time.perf_counter_ns())

    def _leave(self, path: str) -> Callable[..., None]:
        def leave(*_: Any) -> None:
            seconds = (time.perf_counter_ns() - self._open.pop()) / 1e9
            self._seconds[path] = self._seconds.get(path, 0.0) + seconds

        return leave

    def end_run(self, found: TimedCall) -> None:
        """Add what one run took."""
        for path, seconds in self._seconds.items():
            found.modules.setdefault(path, []).append(seconds)
            found.kinds[path] = type(self._modules[path]).__name__
        self._seconds = {}
        self._open.clear()
