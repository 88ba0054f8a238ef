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
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.models import BenchmarkModel, Built
from inductor_debug_jupyter.benchmarks.printing import Progress, error_line
from inductor_debug_jupyter.pipeline.backends import mock_backend
from inductor_debug_jupyter.pipeline.errors import StoreError
from inductor_debug_jupyter.pipeline.records import BackendTiming, BenchmarkRecord, DiffRecord, Note, SessionRecord
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import Settings, resolve
from inductor_debug_jupyter.pipeline.store import ArtifactStore, save_benchmark

log = logging.getLogger("inductor_debug_jupyter")

STEPS = ("build", "eager", "inductor", "capture", "KernelDiff", "mock_backend")
_ARTIFACTS_VARIABLE = "INDUCTOR_DEBUG_ARTIFACTS"


class Trial:
    """One model's run.

    Args:
        model: what to measure.
        settings: target and artifact folder.
        store: where the session and the result go.
        device: a torch device.
        small: the tiny version.
    """

    def __init__(
        self, model: BenchmarkModel, settings: Settings, store: ArtifactStore, *, device: str, small: bool
    ) -> None:
        self.model, self.settings, self.store, self.device, self.small = model, settings, store, device, small
        self.name = f"{model.name} (small)" if small else model.name
        self.unsaved = ""
        """Why nothing was stored, if so."""

    def run(self, progress: Progress, *, warmup: int, runs: int) -> BenchmarkRecord:
        """Measure, store, and free the model again."""
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Dynamo detected a call to a `functools.lru_cache`")
                return self._run(progress, warmup=warmup, runs=runs)
        finally:
            torch.compiler.reset()
            gc.collect()

    def _run(self, progress: Progress, *, warmup: int, runs: int) -> BenchmarkRecord:
        progress.step(f"{self.name}: build")
        built = self._build()
        timings: list[BackendTiming] = []

        def time_it(backend: str, compiler: Callable[[Any], Any] | None) -> None:
            progress.step(f"{self.name}: {backend}")
            torch.compiler.reset()
            timings.append(measure(backend, built, compiler, warmup=warmup, runs=runs))

        time_it("eager", None)
        time_it("inductor", torch.compile)
        progress.step(f"{self.name}: capture")
        session = self._capture(built)
        progress.step(f"{self.name}: KernelDiff")
        diff = self._compare(built)
        with _no_ledger():
            time_it("mock_backend", lambda module: torch.compile(module, backend=self._mock))
        record = self._record(built, session, diff, tuple(timings))
        self._save(replace(session, diff=diff), record)
        return record

    def _build(self) -> Built:
        built = self.model.build(self.small)
        return Built(built.module.to(self.device), tuple(tensor.to(self.device) for tensor in built.inputs))

    def _mock(self, graph_module: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        return mock_backend(graph_module, example_inputs, strict=False, target=self.settings["target"])

    def _capture(self, built: Built) -> SessionRecord:
        """What one compile of the model shows; an error of the compile is a note of the session."""
        torch.compiler.reset()
        values = {"strict": False, "target": self.settings["target"], "artifacts": self.settings["artifacts"]}
        session = DebugSession(resolve(values), name=self.name)
        failed = ""
        session.open()
        try:
            with torch.no_grad():
                compiled: Any = torch.compile(built.module)
                compiled(*built.inputs)
        except Exception as error:  # the session still tells how far the compile came
            failed = error_line(error)
        finally:
            session.close()
        record = session.record
        return replace(record, notes=(*record.notes, Note("benchmark", failed))) if failed else record

    def _compare(self, built: Built) -> DiffRecord:
        """Eager against Inductor; what could not be compared says why."""
        from inductor_debug_jupyter.pipeline.diff import KernelDiffHarness

        torch.compiler.reset()
        try:
            harness = KernelDiffHarness(built.module, built.inputs, model_name=self.name)
            with torch.no_grad():
                record: DiffRecord = harness.compare().record
        except Exception as error:  # KernelDiff must not end the benchmark
            return DiffRecord(self.name, "eager", "inductor", "not_compared", notes=(error_line(error),))
        return record

    def _record(
        self, built: Built, session: SessionRecord, diff: DiffRecord, timings: tuple[BackendTiming, ...]
    ) -> BenchmarkRecord:
        errors = [output.max_absolute_error for output in diff.outputs if output.max_absolute_error is not None]
        findings: dict[str, int] = {}
        for finding in session.findings:
            findings[finding.rule_id] = findings.get(finding.rule_id, 0) + len(finding.places)
        return BenchmarkRecord(
            model=self.name,
            description=self.model.description if not self.small else f"tiny version of: {self.model.description}",
            parameters=built.parameters,
            created=session.created,
            torch_version=str(torch.__version__),
            device=self.device,
            timings=timings,
            graphs=len(session.captures),
            graph_breaks=len(session.graph_breaks),
            findings=findings,
            diff_verdict=diff.verdict,
            diff_max_error=max(errors, default=None),
            session_id=session.id,
        )

    def _save(self, session: SessionRecord, record: BenchmarkRecord) -> None:
        """Store the session last of all that this run wrote, so that ``last`` means it."""
        try:
            if session.captures:
                self.store.save_session(session)
            save_benchmark(self.store, record)
        except StoreError as error:
            self.unsaved = str(error)


@contextlib.contextmanager
def _no_ledger() -> Iterator[None]:
    """Keep the mock backend's own session out of the artifact folder: the capture has told it all, and better."""
    before = os.environ.get(_ARTIFACTS_VARIABLE)
    level = log.level
    with tempfile.TemporaryDirectory(prefix="inductor-debug-mock-", ignore_cleanup_errors=True) as folder:
        os.environ[_ARTIFACTS_VARIABLE] = folder
        log.setLevel(logging.ERROR)  # it warns of every finding, and they are in the session
        try:
            yield
        finally:
            log.setLevel(level)
            if before is None:
                del os.environ[_ARTIFACTS_VARIABLE]
            else:
                os.environ[_ARTIFACTS_VARIABLE] = before


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
