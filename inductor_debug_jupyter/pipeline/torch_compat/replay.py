"""AOTAutograd's graphs, alive and with the arguments of a real call, so that they can be run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed


@dataclass
class KeptGraph:
    """One graph: ``forward`` or ``backward``, with the arguments of its last call (None before the first)."""

    stage: str
    graph_module: torch.fx.GraphModule
    args: list[Any] | None = None


@dataclass
class AotKeeper:
    """A backend for ``torch.compile`` that runs AOTAutograd's graphs as they are, and keeps them.

    What a graph writes to is kept as it is after the call: whoever runs the graph again gives it copies.
    """

    graphs: list[KeptGraph] = field(default_factory=list)
    seconds: float = 0.0
    """CPU time that AOTAutograd took for all of them, Dynamo's own work not counted."""

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Be a backend."""
        start = time.process_time()
        with caches_bypassed():
            compiled: Callable[..., Any] = aot_autograd(
                fw_compiler=lambda graph, _: self._keep("forward", graph),
                bw_compiler=lambda graph, _: self._keep("backward", graph),
                inference_compiler=lambda graph, _: self._keep("forward", graph),
                partition_fn=min_cut_rematerialization_partition,
            )(graph_module, list(example_inputs))
        self.seconds += time.process_time() - start
        return compiled

    def _keep(self, stage: str, graph: torch.fx.GraphModule) -> Callable[..., Any]:
        kept = KeptGraph(stage, graph)
        self.graphs.append(kept)

        def run(*args: Any) -> Any:
            kept.args = [arg.detach() if isinstance(arg, torch.Tensor) else arg for arg in args]
            return graph(*args)

        return run
