"""One model through every backend, then captured, then compared.

Order matters. Eager and Inductor are timed first, before anything is hooked and with an empty cache; the capture
compiles once more (it reuses the built kernels, not the cached graphs) and leaves the session with its graphs,
breaks and findings; KernelDiff compares the numbers; the mock backend comes last.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import statistics
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import torch

from inductor_debug_jupyter.benchmarks.models import BenchmarkModel, Built
from inductor_debug_jupyter.benchmarks.printing import Progress, error_line
from inductor_debug_jupyter.pipeline.backends import mock_backend
from inductor_debug_jupyter.pipeline.diff import KernelDiffHarness
from inductor_debug_jupyter.pipeline.errors import StoreError
from inductor_debug_jupyter.pipeline.records import BackendTiming, BenchmarkRecord, DiffRecord, Note, SessionRecord
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import Settings, resolve
from inductor_debug_jupyter.pipeline.store import ArtifactStore, save_benchmark

log = logging.getLogger("inductor_debug_jupyter")

STEPS = ("build", "eager", "inductor", "capture", "KernelDiff", "mock_backend")


def run_trial(
    model: BenchmarkModel,
    settings: Settings,
    store: ArtifactStore,
    progress: Progress,
    *,
    device: str,
    small: bool,
    warmup: int,
    runs: int,
) -> tuple[BenchmarkRecord, str]:
    """Measure one model, store its session and the result, and free the model again.

    Args:
        model: what to measure.
        settings: target and artifact folder.
        store: where the session and the result go.
        progress: called with each of :data:`STEPS`.
        device: a torch device.
        small: the tiny version.
        warmup: calls that are not counted.
        runs: calls that are.

    Returns:
        The result, and why nothing was stored, if so.
    """
    name = f"{model.name} (small)" if small else model.name
    timings: list[BackendTiming] = []

    def time_it(backend: str, compiler: Callable[[Any], Any] | None) -> None:
        progress.step(f"{name}: {backend}")
        torch.compiler.reset()
        timings.append(measure(backend, built, compiler, warmup=warmup, runs=runs))

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Dynamo detected a call to a `functools.lru_cache`")
            progress.step(f"{name}: build")
            made = model.build(small)
            built = Built(made.module.to(device), tuple(tensor.to(device) for tensor in made.inputs))
            time_it("eager", None)
            time_it("inductor", torch.compile)
            progress.step(f"{name}: capture")
            session = _capture(built, name, settings)
            progress.step(f"{name}: KernelDiff")
            session = replace(session, diff=_compare(built, name))
            with _no_ledger():
                checked = partial(mock_backend, strict=False, target=settings["target"])
                time_it("mock_backend", lambda module: torch.compile(module, backend=checked))
    finally:
        torch.compiler.reset()
        gc.collect()
    description = f"tiny version of: {model.description}" if small else model.description
    record = _record(name, description, device, built, session, tuple(timings))
    try:
        if session.captures:
            store.save_session(session)  # last of all that this run wrote, so that ``last`` means it
        save_benchmark(store, record)
    except StoreError as error:
        return record, str(error)
    return record, ""


def _capture(built: Built, name: str, settings: Settings) -> SessionRecord:
    """What one compile of the model shows; an error of the compile is a note of the session."""
    torch.compiler.reset()
    values = {"strict": False, "target": settings["target"], "artifacts": settings["artifacts"]}
    session = DebugSession(resolve(values), name=name)
    notes: tuple[Note, ...] = ()
    session.open()
    try:
        with torch.no_grad():
            compiled: Any = torch.compile(built.module)
            compiled(*built.inputs)
    except Exception as error:  # the session still shows how far the compile came
        notes = (Note("benchmark", error_line(error)),)
    finally:
        session.close()
    return replace(session.record, notes=(*session.record.notes, *notes))


def _compare(built: Built, name: str) -> DiffRecord:
    """Eager against Inductor; what could not be compared says why."""
    torch.compiler.reset()
    try:
        with torch.no_grad():
            return KernelDiffHarness(built.module, built.inputs, model_name=name).compare().record
    except Exception as error:  # KernelDiff must not end the benchmark
        return DiffRecord(name, "eager", "inductor", "not_compared", notes=(error_line(error),))


def _record(
    name: str, description: str, device: str, built: Built, session: SessionRecord, timings: tuple[BackendTiming, ...]
) -> BenchmarkRecord:
    outputs = session.diff.outputs if session.diff else ()
    findings: Counter[str] = Counter()
    for finding in session.findings:
        findings[finding.rule_id] += len(finding.places)
    return BenchmarkRecord(
        model=name,
        description=description,
        parameters=built.parameters,
        created=session.created,
        torch_version=str(torch.__version__),
        device=device,
        timings=timings,
        graphs=len(session.captures),
        graph_breaks=len(session.graph_breaks),
        findings=dict(findings),
        diff_verdict=session.diff.verdict if session.diff else "not_compared",
        diff_max_error=max((o.max_absolute_error for o in outputs if o.max_absolute_error is not None), default=None),
        session_id=session.id,
    )


@contextlib.contextmanager
def _no_ledger() -> Iterator[None]:
    """Keep the mock backend's own session out of the artifact folder: the capture has all of it."""
    level = log.level
    with (
        tempfile.TemporaryDirectory(prefix="inductor-debug-mock-", ignore_cleanup_errors=True) as folder,
        mock.patch.dict(os.environ, {"INDUCTOR_DEBUG_ARTIFACTS": folder}),
    ):
        log.setLevel(logging.ERROR)  # it warns of every finding, and they are in the session
        try:
            yield
        finally:
            log.setLevel(level)


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
            first, *times = (_seconds(run, built) for _ in range(1 + warmup + runs))
    except Exception as error:  # a backend that fails is a row of the table
        return BackendTiming(backend, 0.0, 0.0, 0.0, 0, error=error_line(error))
    times = times[warmup:]
    spread = statistics.stdev(times) if len(times) > 1 else 0.0
    return BackendTiming(backend, first if compiler else 0.0, statistics.fmean(times), spread, runs)


def _seconds(run: Any, built: Built) -> float:
    start = time.perf_counter()
    run(*built.inputs)
    if any(tensor.device.type != "cpu" for tensor in built.inputs):
        torch.accelerator.synchronize()  # a device works on after the call returns
    return time.perf_counter() - start
