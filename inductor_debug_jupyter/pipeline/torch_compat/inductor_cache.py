"""Inductor's caches: the cache folder's name in the environment, and how many compiles a cache answered."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch

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


def run_as_plain(graph_module: torch.fx.GraphModule) -> Callable[..., Any]:
    """A graph's ``forward``, which names Inductor's cache folder in the environment where the traced code would have.

    A plain ``flex_attention`` calls ``torch.compile``, which does so; in a graph of Dynamo's it is one node.
    """
    run: Callable[..., Any] = graph_module.forward
    graphs = [each.graph for each in graph_module.modules() if isinstance(each, torch.fx.GraphModule)]
    if not any(node.target is torch.ops.higher_order.flex_attention for graph in graphs for node in graph.nodes):
        return run

    def run_and_name_folder(*args: Any) -> Any:
        from torch._inductor.runtime.cache_dir_utils import cache_dir

        cache_dir()
        return run(*args)

    return run_and_name_folder
