"""``kernel_times``: the times of ``session.profile()`` beside those of torch's own profiler.

Each model is compiled once with our readings of the clock and once with Inductor's own marks for torch.profiler
(``cpp.enable_kernel_profile``). Gates, with the exit code 1 when one fails: each kernel of more than 50 µs has the time
that torch.profiler gives it, their sum is the time of the call, and the readings cost next to nothing. On a busy
machine two runs of one kernel differ more than that, so the figures mean something on a quiet one only.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.benchmarks.command_line import named
from inductor_debug_jupyter.benchmarks.models import Built, benchmark_model
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.records import TimingRecord
from inductor_debug_jupyter.pipeline.torch_compat.kernel_times import TimedCode, timed

_NAMES = ("bert-2l", "resnet")
_LEAST = 50e-6
_WITHIN, _SUM_WITHIN, _OVERHEAD = 0.10, 0.10, 1.05
_RUNS = 30
_ONE_RUN = "one run"
_SHARE = 0.9
"""So large a part of the kernels must be within the limit: the machine itself is not steady to 10% for each of them."""
_MARKED = {"extern_kernels.": "aten::", "torch.ops.aten.": "aten::", "torch.ops.mkldnn.": "mkldnn::"}


@dataclass(frozen=True)
class _Result:
    """One model: ours and the profiler's seconds of each kernel call, and what the readings cost."""

    name: str
    ours: TimingRecord
    pairs: tuple[tuple[str, float, float], ...]
    overhead: float

    @property
    def long_ones(self) -> list[float]:
        """Ours over the profiler's, of kernels that are long enough."""
        return [ours / theirs for _, ours, theirs in self.pairs if theirs > _LEAST]

    @property
    def within(self) -> float:
        """The share of these that are within the limit."""
        ratios = self.long_ones
        return sum(abs(ratio - 1) <= _WITHIN for ratio in ratios) / len(ratios) if ratios else 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--model", action="append", metavar="NAME", help=f"{', '.join(_NAMES)}; default all")
    parser.add_argument("--small", action="store_true", help="tiny versions of the models, to try this out")


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 when a goal is missed."""
    names = named(args.model, "--model", _NAMES, _NAMES)
    results = []
    with Progress(len(names)) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            progress.step(name)
            results.append(measured(name, benchmark_model(name).build(args.small)))
    print_table(
        ("model", "kernels", "over 50 µs", "within 10%", "median ratio", "kernels / call", "with / without readings"),
        [
            (
                each.name,
                str(len(each.pairs)),
                str(len(each.long_ones)),
                f"{each.within:.0%}",
                f"{statistics.median(each.long_ones or [0.0]):.3f}",
                f"{each.ours.in_kernels / each.ours.seconds:.3f}",
                f"{each.overhead:.3f}",
            )
            for each in results
        ],
    )
    problems = [problem for each in results for problem in _problems(each)]
    for problem in problems:
        print_line(f"FAILED: {problem}")
    return int(bool(problems))


def _problems(found: _Result) -> list[str]:
    inside = found.ours.in_kernels / found.ours.seconds
    problems = []
    if found.within < _SHARE:
        problems.append(f"{found.within:.0%} of the kernels are within 10% of torch.profiler, goal {_SHARE:.0%}")
    if abs(1 - inside) > _SUM_WITHIN:
        problems.append(f"the kernels are {inside:.0%} of the call, goal 90% to 110%")
    if found.overhead > _OVERHEAD:
        problems.append(f"a call with readings takes {found.overhead:.3f}× of one without, goal {_OVERHEAD}")
    return [f"{found.name}: {problem}" for problem in problems]


def measured(name: str, built: Built) -> _Result:
    """One model, timed by us and by torch's profiler."""
    model, inputs = built.module.eval(), built.inputs
    with torch.no_grad(), capture(eager=True, keep_inputs=True) as session:
        model(*inputs)
    ours = session.profile(backward=False)
    call = _caller(model, inputs)
    theirs = _by_profiler(call)
    by_name: dict[str, list[float]] = defaultdict(list)
    for kernel in ours.kernels:
        by_name[_event_of(kernel.kernel)].append(kernel.seconds)
    pairs = [
        (event, mine, their)
        for event, seconds in by_name.items()
        if len(theirs.get(event, ())) == len(seconds)
        for mine, their in zip(seconds, theirs[event], strict=True)
    ]
    return _Result(name, ours, tuple(pairs), _overhead(model, inputs))


def _caller(model: Any, inputs: tuple[Any, ...]) -> Callable[[], Any]:
    """A compiled model with Inductor's marks for the profiler, to be called."""
    from torch._inductor import config

    torch._dynamo.reset()
    patch: Any = config.patch
    with patch({"cpp.enable_kernel_profile": True, "cpp.descriptive_names": "original_aten"}):
        return _compiled(model, inputs)


def _compiled(model: Any, inputs: tuple[Any, ...]) -> Callable[[], Any]:
    run: Any = torch.compile(model)

    def call() -> Any:
        with torch.no_grad():
            return run(*inputs)

    for _ in range(3):
        call()
    return call


def _event_of(kernel: str) -> str:
    """What torch's profiler calls a kernel."""
    for ours, theirs in _MARKED.items():
        if kernel.startswith(ours):
            return theirs + kernel.removeprefix(ours).removesuffix(".default")
    return kernel


def _by_profiler(call: Callable[[], Any]) -> dict[str, list[float]]:
    """Event → the median seconds of its first, second, … call in a run: outermost events only."""
    runs: dict[str, list[list[float]]] = defaultdict(list)
    profiler: Any = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with profiler:
        for _ in range(_RUNS):
            with torch.profiler.record_function(_ONE_RUN):
                call()
    events = sorted(profiler.events(), key=lambda event: event.time_range.start)
    starts = [event.time_range.start for event in events if event.name == _ONE_RUN]
    for event in events:
        at = bisect_right(starts, event.time_range.start) - 1
        if at >= 0 and event.name != _ONE_RUN:
            per_run = runs[_name_of(event.name)]
            per_run += [[] for _ in range(at + 1 - len(per_run))]
            per_run[at].append(event.time_range.elapsed_us() / 1e6)
    steady = {name: per_run for name, per_run in runs.items() if _is_steady(per_run)}
    return {
        name: [statistics.median(each) for each in zip(*each_run, strict=True)] for name, each_run in steady.items()
    }


def _name_of(event: str) -> str:
    """A kernel's own name, without the number of the graph that Inductor puts before it."""
    head, mark, rest = event.partition("_cpp_")
    return f"cpp_{rest}" if mark and head.startswith("graph_") else event


def _is_steady(per_run: list[list[float]]) -> bool:
    """Whether every run had the same number of events."""
    return len(per_run) == _RUNS and len({len(each) for each in per_run}) == 1


def _overhead(model: Any, inputs: tuple[Any, ...]) -> float:
    """A call with our readings over one without, in turn: the median of the ratios."""
    torch._dynamo.reset()
    codes: list[TimedCode] = []
    with timed(codes):
        with_readings = _compiled(model, inputs)
    torch._dynamo.reset()
    without = _compiled(model, inputs)
    ratios = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        without()
        middle = time.perf_counter()
        with_readings()
        ratios.append((time.perf_counter() - middle) / (middle - started))
    return statistics.median(ratios)
