"""Inductor's caches: a temporary cache folder, and how many compiles a cache answered."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VARIABLE: Final = "TORCHINDUCTOR_CACHE_DIR"


@contextmanager
def temporary_inductor_cache() -> Iterator[Path]:
    """Point Inductor at an empty cache folder, so that the user's is neither read nor written; deleted at the end."""
    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory(prefix="inductor-debug-cache-", ignore_cleanup_errors=True) as folder:
        os.environ[VARIABLE] = folder
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before


def graph_cache_hits() -> int:
    """How many compiles of this process were answered by the AOT cache or the FX graph cache."""
    from torch._dynamo.utils import counters

    return int(counters["aot_autograd"]["autograd_cache_hit"]) + int(counters["inductor"]["fxgraph_cache_hit"])
