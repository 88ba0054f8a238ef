"""Record which of Inductor's passes changed a graph, with the arguments of a real call.

:class:`PassKeeper` is a backend that lowers as Inductor does down to the post-grad graph and runs that graph: no code
is generated. Every pass of Inductor's, and every custom pass of the user's, runs inside torch's
``GraphTransformObserver``; the graph is copied when one is entered, and kept where it is another when it is left.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch._inductor.virtualized import V

from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat import patches
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
from inductor_debug_jupyter.pipeline.torch_compat.lowering import inductor_decompositions
from inductor_debug_jupyter.pipeline.torch_compat.patches import HookSite
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed

_running = threading.local()


@dataclass(frozen=True, eq=False)
class PassChange:
    """A pass that changed a graph: its name, its author (empty for torch's own), and the graph before and after."""

    name: str
    author: str
    before: torch.fx.GraphModule
    after: torch.fx.GraphModule


@dataclass(eq=False)
class LoweredGraph:
    """One Dynamo graph on its way through Inductor.

    ``values`` are the arguments of its last call by the placeholders' names: those of Dynamo's graph, and those of
    the forward and backward graphs that it became. What a graph writes to is kept as it was before.
    """

    changes: list[PassChange] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def keep(self, graph_module: torch.fx.GraphModule, args: Sequence[Any]) -> None:
        """Remember the arguments of a call."""
        names = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
        for name, value in zip(names, args, strict=False):
            self.values[name] = value.detach().clone() if isinstance(value, torch.Tensor) else value


@dataclass
class PassKeeper:
    """A backend for ``torch.compile``: Inductor without its code generation, and what its passes changed."""

    lowered: list[LoweredGraph] = field(default_factory=list)

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """The backend; the backward is lowered at once."""
        from torch._inductor.compile_fx import compile_fx

        lowered = LoweredGraph()
        self.lowered.append(lowered)
        own = copy_graph_module(graph_module)
        with caches_bypassed(), functorch_config.patch(force_non_lazy_backward_lowering=True), _watching(lowered):
            compiled = cast(
                "Callable[..., Any]", compile_fx(own, list(example_inputs), inner_compile=_inner_compile(lowered))
            )

        def run(*args: Any) -> Any:
            lowered.keep(graph_module, args)
            return compiled(*args)

        return run


def _inner_compile(lowered: LoweredGraph) -> Callable[..., Any]:
    """Replaces code generation: runs the post-grad passes, then the graph as it is."""

    def inner_compile(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Any:
        from torch._inductor.compile_fx import _recursive_post_grad_passes, fake_tensor_prop
        from torch._inductor.fx_passes.post_grad import view_to_reshape

        view_to_reshape(graph)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            fake_mode = fake_tensor_prop(graph, list(example_inputs))
        with V.set_fake_mode(fake_mode), _watching(lowered):
            _recursive_post_grad_passes(graph, is_inference=bool(options.get("is_inference", False)))
        graph.recompile()

        def run(args: list[Any]) -> Any:
            lowered.keep(graph, args)
            return graph(*args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    return inner_compile


@patches.around
def _wrap_enter(original: Callable[..., Any], observer: Any) -> Any:
    if getattr(_running, "lowered", None) is not None:
        observer._inductor_debug_before = copy_graph_module(observer.gm)
    return original(observer)


@patches.around
def _wrap_exit(original: Callable[..., Any], observer: Any, *error: Any) -> Any:
    result = original(observer, *error)
    before = observer.__dict__.pop("_inductor_debug_before", None)
    lowered = getattr(_running, "lowered", None)
    if before is not None and lowered is not None and _fingerprint(before) != _fingerprint(observer.gm):
        after = copy_graph_module(observer.gm)
        lowered.changes.append(PassChange(observer.passname, _author(observer.passname), before, after))
    return result


_OBSERVER: Final = "torch.fx.passes.graph_transform_observer"
_ENTER = HookSite("passes", _OBSERVER, "GraphTransformObserver.__enter__", _wrap_enter)
_EXIT = HookSite("passes", _OBSERVER, "GraphTransformObserver.__exit__", _wrap_exit)


@uncut
def _watching(lowered: LoweredGraph) -> Iterator[None]:
    """Record in ``lowered`` what passes change, on this thread."""
    with _ENTER.installed(_running, "lowered", lowered), _EXIT.installed(_running, "lowered", lowered):
        yield


def _fingerprint(graph_module: torch.fx.GraphModule) -> list[tuple[str, str, str, str]]:
    return [(node.name, str(node.target), str(node.args), str(node.kwargs)) for node in graph_module.graph.nodes]


def _author(name: str) -> str:
    """The user's function behind a custom pass, with its place; empty for a pass of torch's own."""
    function = getattr(inductor_config, name, None) if "custom" in name else None
    if function is None:
        return ""
    named = getattr(function, "__qualname__", type(function).__qualname__)
    try:
        place = function if inspect.isfunction(function) else type(function)
        file, line = inspect.getsourcefile(place), inspect.getsourcelines(place)[1]
    except (OSError, TypeError):
        return str(named)
    return f"{named}, {(file or '').rpartition('/')[2]} line {line}"


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Op → the function that Inductor decomposes it with when models are compiled for a comparison."""
    with inductor_config.patch(fallback_random=True):
        return dict(inductor_decompositions())
