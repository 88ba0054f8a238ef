"""Measurements of a benchmark run of one model."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records.diff import Verdict

NOISY = 0.25
"""The largest standard deviation, as a share of the mean, that still measures the backend and not the machine."""


@dataclass(frozen=True, slots=True)
class BackendTiming:
    """Compile time and latency on one backend; times in seconds."""

    backend: str
    compile_seconds: float
    latency_mean: float
    latency_std: float
    runs: int
    error: str = ""

    @property
    def is_noisy(self) -> bool:
        """Whether the standard deviation is more than a quarter of the mean: it measures the machine then."""
        return not self.error and self.latency_std > NOISY * self.latency_mean


@dataclass(frozen=True, slots=True)
class BenchmarkRecord:
    """One benchmark run of one model."""

    model: str
    description: str
    parameters: int
    created: str
    torch_version: str
    device: str
    timings: tuple[BackendTiming, ...]
    graphs: int
    graph_breaks: int
    findings: dict[str, int]
    """Rule id → places."""
    diff_verdict: Verdict
    diff_max_error: float | None = None
    session_id: str = ""

    def timing(self, backend: str) -> BackendTiming | None:
        """The timing of one backend, or None."""
        return next((timing for timing in self.timings if timing.backend == backend), None)

    @property
    def speedup(self) -> float | None:
        """Eager latency over Inductor latency."""
        eager, inductor = self.timing("eager"), self.timing("inductor")
        if eager is None or inductor is None or not inductor.latency_mean:
            return None
        return eager.latency_mean / inductor.latency_mean
