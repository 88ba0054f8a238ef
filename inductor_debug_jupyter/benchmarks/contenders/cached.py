"""``cached``: the same compile as ``plain``, answered by torch's FX and AOT caches."""

from __future__ import annotations

from inductor_debug_jupyter.benchmarks.contenders.plain import environment, finish, found, unavailable, watching

TITLE = "warm FX/AOT cache hit"
WARM_CACHES = True

__all__ = ["TITLE", "WARM_CACHES", "environment", "finish", "found", "unavailable", "watching"]
