"""What torch itself counts of its compile caches."""

from __future__ import annotations


def graph_cache_hits() -> int:
    """How many compiles of this process were answered by the AOT cache or the FX graph cache."""
    from torch._dynamo.utils import counters

    return int(counters["aot_autograd"]["autograd_cache_hit"]) + int(counters["inductor"]["fxgraph_cache_hit"])
