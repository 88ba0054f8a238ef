"""Which latencies vary too much to be relied on."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.records import BackendTiming

NOISY = 0.25
"""A spread beyond this share of the mean says more about the machine than about the backend."""


def is_noisy(timing: BackendTiming) -> bool:
    """Whether the standard deviation is more than :data:`NOISY` of the mean."""
    return not timing.error and timing.latency_std > NOISY * timing.latency_mean
