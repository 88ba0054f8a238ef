"""Backends that keep the lowered graphs with the arguments of a real call, or hand them to a caller to run.

:class:`KeptCall` traces the call of a model once and keeps the trace: the next time Dynamo only checks its guards. A
function of our own calls the model and is compiled with ``fullgraph=True``. It has a code object and globals of its
own, so nothing is left on the user's code, and everything is freed with the function. When its guards do not hold any
more, Dynamo traces again and calls the backend.
"""

from __future__ import annotations

import builtins
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol, cast

import torch
import torch._functorch.config as functorch_config
from torch._C import _DisableAutocast

from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
from inductor_debug_jupyter.pipeline.torch_compat.instruments import unseen
from inductor_debug_jupyter.pipeline.torch_compat.lowering import aot_backend
from inductor_debug_jupyter.pipeline.torch_compat.regions import CompiledCallRedirect, compile_as_ours
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

    What a graph writes to is kept as it is after the call: a caller that runs the graph again passes copies.
    """

    graphs: list[KeptGraph] = field(default_factory=list)
    seconds: float = 0.0
    """CPU time that AOTAutograd took for all of them, Dynamo's own work not counted."""

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile as a backend of ``torch.compile``, and keep the lowered graphs."""
        start = time.process_time()
        with caches_bypassed():
            compiled: Callable[..., Any] = aot_backend(self._keep)(graph_module, list(example_inputs))
        self.seconds += time.process_time() - start
        return compiled

    def _keep(self, graph: torch.fx.GraphModule, stage: str) -> Callable[..., Any]:
        kept = KeptGraph(stage, graph)
        self.graphs.append(kept)

        def run(*args: Any) -> Any:
            kept.args = [arg.detach() if isinstance(arg, torch.Tensor) else arg for arg in args]
            return graph(*args)

        return run


class GraphUser(Protocol):
    """Runs the graphs that one Dynamo graph is lowered to; see :class:`ReplayBackend`."""

    def lowered(self, stage: str, graph_module: torch.fx.GraphModule) -> None:
        """A graph of that stage was made: ``dynamo``, or ``forward`` and perhaps ``backward``."""

    def run(self, stage: str, graph_module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run it; the list is the callee's own, to let go of what it holds. What this raises goes up to the user."""


@dataclass
class ReplayBackend:
    """A backend for ``torch.compile`` that lowers graphs; ``user_of(graph)`` runs them, or they run as they are."""

    way: str
    """``dynamo``: not lowered at all, ``aot``: to eager mode's ATen ops, ``inductor``: to the ops that it is given."""
    user_of: Callable[[torch.fx.GraphModule], GraphUser | None]

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """The backend; the backward is lowered at once."""
        user = self.user_of(graph_module)

        def boxed(graph: torch.fx.GraphModule, stage: str) -> Callable[..., Any]:
            if user is not None:
                user.lowered(stage, graph)

            def run(args: list[Any]) -> Any:
                return torch.fx.Interpreter(graph).boxed_run(args) if user is None else user.run(stage, graph, args)

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        if self.way == "dynamo":
            run_dynamo = boxed(graph_module, "dynamo")
            return lambda *args: run_dynamo(list(args))

        own = copy_graph_module(graph_module)
        with caches_bypassed(), functorch_config.patch(force_non_lazy_backward_lowering=True):
            if self.way == "aot":
                return cast("Callable[..., Any]", aot_backend(boxed)(own, list(example_inputs)))
            from torch._inductor.compile_fx import compile_fx

            def inner_compile(graph: torch.fx.GraphModule, _: Sequence[Any], **options: Any) -> Any:
                """Replaces code generation, after Inductor's decompositions and passes."""
                return boxed(graph, "backward" if options.get("is_backward") else "forward")

            return cast("Callable[..., Any]", compile_fx(own, list(example_inputs), inner_compile=inner_compile))


def _call(self: Any, args: Any, kwargs: Any) -> Any:  # Dynamo names a module's parameters after this: l_self_weight
    return self(*args, **kwargs)


class KeptCall:
    """Calls models through ``backend``, which is given a graph only when there is none whose guards hold.

    torch's compiled code holds the backend and is invisible to Python's garbage collector: a backend that refers to the
    owner of this object would never be freed.
    """

    def __init__(self, backend: Callable[..., Any]) -> None:
        function = FunctionType(_call.__code__.replace(), {"__builtins__": builtins, "__name__": __name__})
        self._compiled = compile_as_ours(function, backend, fullgraph=True)
        self._redirect = CompiledCallRedirect()
        weakref.finalize(self, self._redirect.forget).atexit = False

    @uncut
    def calling(self, model: Any) -> Iterator[Callable[..., Any]]:
        """The function to call in place of a model inside the block.

        As in :func:`regions.undisturbed`, it draws eager mode's random numbers, and instruments are off.
        """
        from torch._inductor import config as inductor_config

        with unseen(), self._redirect.open(), inductor_config.patch(fallback_random=True):
            yield lambda *args, **kwargs: self._compiled(model, args, kwargs)


@uncut
def as_aot_runs() -> Iterator[None]:
    """Autocast off, as AOTAutograd runs its graphs: the casts are part of the graph already."""
    with _DisableAutocast():
        yield
