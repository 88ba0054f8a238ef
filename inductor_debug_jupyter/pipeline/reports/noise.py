"""Which latencies vary too much to be trusted."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.records import BackendTiming

NOISY = 0.25
"""The largest standard deviation, as a share of the mean, that still measures the backend and not the machine."""


def is_noisy(timing: BackendTiming) -> bool:
    """Whether the standard deviation is more than :data:`NOISY` of the mean."""
    return not timing.error and timing.latency_std > NOISY * timing.latency_mean
