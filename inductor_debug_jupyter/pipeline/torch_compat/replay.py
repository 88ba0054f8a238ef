"""AOTAutograd's graphs, alive and with the arguments of a real call, so that they can be run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

import torch
import torch._functorch.config as functorch_config
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
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


class GraphUser(Protocol):
    """Who runs what one Dynamo graph becomes; see :class:`ReplayBackend`."""

    def lowered(self, stage: str, graph_module: torch.fx.GraphModule) -> None:
        """There is a graph of that stage: ``dynamo``, or ``forward`` and perhaps ``backward``."""
        ...

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run it; the list is the callee's own, to let go of what it holds. What this raises goes up to the user."""
        ...


WAYS: Final = ("dynamo", "aot", "inductor")
"""How a Dynamo graph is lowered: not at all; to eager mode's own ops; to the ops that Inductor is given."""


@dataclass
class ReplayBackend:
    """A backend for ``torch.compile`` that lowers graphs one of :data:`WAYS`, and lets somebody else run them.

    Args:
        way: how to lower.
        user_of: who runs what a Dynamo graph becomes.
    """

    way: str
    user_of: Callable[[torch.fx.GraphModule], GraphUser]

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Be a backend; the backward is lowered at once."""
        user = self.user_of(graph_module)
        if self.way == "dynamo":
            user.lowered("dynamo", graph_module)
            return lambda *args: user.run("dynamo", graph_module, list(args))

        def boxed(stage: str, graph: torch.fx.GraphModule) -> Callable[..., Any]:
            user.lowered(stage, graph)

            def run(args: list[Any]) -> Any:
                return user.run(stage, graph, args)

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        own = copy_graph_module(graph_module)
        with caches_bypassed(), functorch_config.patch(force_non_lazy_backward_lowering=True):
            if self.way == "inductor":
                return _lowered_as_by_inductor(own, example_inputs, boxed)
            compiled: Callable[..., Any] = aot_autograd(
                fw_compiler=lambda graph, _: boxed("forward", graph),
                bw_compiler=lambda graph, _: boxed("backward", graph),
                inference_compiler=lambda graph, _: boxed("forward", graph),
                partition_fn=min_cut_rematerialization_partition,
            )(own, list(example_inputs))
        return compiled


def _lowered_as_by_inductor(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    boxed: Callable[[str, torch.fx.GraphModule], Callable[..., Any]],
) -> Callable[..., Any]:
    """AOTAutograd with Inductor's decompositions and passes; in the place of code generation, ``boxed``."""
    from torch._inductor.compile_fx import compile_fx

    def inner_compile(graph: torch.fx.GraphModule, _: Sequence[Any], **options: Any) -> Any:
        return boxed("backward" if options.get("is_backward") else "forward", graph)

    return cast("Callable[..., Any]", compile_fx(graph_module, list(example_inputs), inner_compile=inner_compile))
